/**
 * The policy server: serves the policies of a file over HTTPS until it is stopped. Changes of the file or the certificate are
 * applied without a restart, and every request sees either the old or the new policies.
 */
import { readFile } from 'node:fs/promises';

import type { Address } from '../../../lib/net/address.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { MetricsRegistry } from '../../../guard/guard.ts';
import type { CredentialsSource } from '../../../lib/oci/registry.ts';
import { Backoff } from '../../../lib/time/backoff.ts';
import { type Clock, sleep, systemClock } from '../../../lib/time/clock.ts';
import type { HostCalls } from '../engine/evaluator.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import { openEvaluator } from '../policies/open-evaluator.ts';
import { refuseFiles } from '../policies/refuse-files.ts';
import type { ModuleProgram } from '../engine/program.ts';
import { PolicyPool } from '../engine/wasm/pool.ts';
import type { Modules } from '../modules/modules.ts';
import { unreadable } from '../../../lib/files/yaml-file.ts';
import {
  type CertificatePaths,
  type CertificateTexts,
  followCertificates,
  readCertificates,
} from '../../../lib/net/certificate-files.ts';
import { EvaluationMetrics } from './evaluation-metrics.ts';
import { serveReadiness, servePolicies } from './http.ts';
import { parsePoliciesFile } from './policies-file.ts';
import { PolicyTable } from './policy-table.ts';
import { reviewer } from './reviewer.ts';
import { ServedExceptions } from './served-exceptions.ts';

export interface PolicyServerOptions {
  readonly policiesFile: string;
  /** File of PolicyExceptions. Undefined: there are no exceptions. */
  readonly exceptionsFile?: string | undefined;
  readonly address: Address;
  /** Address of the separate readiness probe. */
  readonly readinessAddress?: Address;
  /** Undefined: serves HTTP without TLS. */
  readonly certificates?: CertificatePaths | undefined;
  readonly modules: Pick<Modules, 'fetch'>;
  readonly pullSecret?: CredentialsSource | undefined;
  /** Returns the host calls of a policy's module. */
  readonly hostCalls: (policyId: string, program: ModuleProgram) => HostCalls;
  /** Time limit of an evaluation, for policies without their own. */
  readonly deadlineMs: number;
  /** Limit of the threads for WebAssembly. Default: that of the pool. */
  readonly workers?: number | undefined;
  readonly acceptedNamespace?: string | undefined;
  readonly continueOnErrors: boolean;
  /** Interval at which the files are read again. Default: 2 s. */
  readonly pollMs?: number;
  /**
   * How long requests are still accepted after `signal` has aborted: it takes a moment until a Service sends no
   * more requests here. Default: 0.
   */
  readonly lingerMs?: number;
  readonly metrics?: MetricsRegistry | undefined;
  readonly clock?: Clock;
  /** Receives the rejected requests. */
  readonly findings: Pick<PolicyFindings, 'write'>;
  readonly logger: Logger;
  readonly signal: AbortSignal;
  /** Called when the server listens, which is before it is ready. */
  readonly listening?: (where: {
    readonly address: Address;
    readonly readinessAddress: Address | undefined;
  }) => void;
  /** Called when the first policies can be evaluated. */
  readonly ready?: (ids: readonly string[]) => void;
}

const POLL_MS = 2000;
/** Pauses before failed policies are opened again. */
const RETRY = { baseMs: 5000, maxMs: 60_000 };
/**
 * How long a new server is not ready if modules are out of reach: the rollout waits, and the previous pods
 * continue. After that, the other policies are served, and those without a module refuse.
 */
const MODULES_WAIT_MS = 5 * 60_000;

/**
 * Runs until `signal` aborts.
 *
 * @throws {RampartError} `SYSTEM`, `NOT_FOUND`, `INPUT` for the initial file or certificate, or for a policy that
 *   cannot run, unless errors are tolerated
 */
export async function runPolicyServer(options: PolicyServerOptions): Promise<void> {
  const { logger, signal, clock = systemClock, pollMs = POLL_MS, lingerMs = 0 } = options;
  await using opened = new AsyncDisposableStack();
  const pool = opened.use(new PolicyPool(options.workers === undefined ? {} : { threads: options.workers }));
  const metrics = new EvaluationMetrics();
  if (options.metrics !== undefined) metrics.register(options.metrics);
  const table = opened.use(
    new PolicyTable({
      continueOnErrors: options.continueOnErrors,
      logger,
      open: async (policy, opening) => {
        // The prefix by which the operator marks namespaced policies in a cluster.
        if (policy.id.startsWith('namespaced-')) refuseFiles(policy.program);
        return openEvaluator(policy.program, {
          modules: options.modules,
          hostCalls: (_, program) =>
            program === undefined ? noHostCalls : options.hostCalls(policy.id, program),
          pullSecret: options.pullSecret,
          pool,
          signal: opening,
        });
      },
    }),
  );
  const source = new PolicySource(options.policiesFile, table, logger);
  // Read before the server listens, so that errors abort the start.
  const exceptions =
    options.exceptionsFile === undefined
      ? undefined
      : new ServedExceptions(options.exceptionsFile, logger, clock);
  await exceptions?.load();
  const { certificates: paths } = options;
  const certificates = paths === undefined ? undefined : await readCertificates(paths);
  let isLoaded = false;
  let isReady = false;
  const readyAtMs = clock.monotonicMs() + MODULES_WAIT_MS;
  const notLoaded = (): string | undefined => (isLoaded ? undefined : 'the policies are being loaded');
  const notReady = (): string | undefined => {
    if (signal.aborted) return 'the policy server is shutting down';
    if (!isLoaded) return notLoaded();
    const { outOfReach } = table;
    isReady ||= outOfReach.length === 0 || clock.monotonicMs() >= readyAtMs;
    return isReady ? undefined : `the modules of these policies are out of reach: ${outOfReach.join(', ')}`;
  };
  const review = reviewer({
    table,
    metrics,
    deadlineMs: options.deadlineMs,
    acceptedNamespace: options.acceptedNamespace,
    ...(exceptions && { exceptions: exceptions.find }),
    findings: options.findings,
    logger,
  });
  const { address, readinessAddress } = options;
  const server = opened.use(
    await servePolicies({ address, certificates, review, notLoaded, notReady, logger }),
  );
  const probe =
    readinessAddress &&
    opened.use(await serveReadiness(readinessAddress, { notReady, states: () => table.states }));
  options.listening?.({ address: server.address, readinessAddress: probe?.address });
  try {
    await source.load(signal);
  } catch (error) {
    if (signal.aborted) return;
    throw error;
  }
  isLoaded = true;
  options.ready?.(table.ids);
  const useCertificates = (texts: CertificateTexts): void => {
    server.useCertificates(texts);
    logger.info({ certFile: paths?.certFile }, 'the certificate of the policy server was reloaded');
  };
  await Promise.all([
    source.follow(pollMs, clock, signal),
    exceptions?.follow(pollMs, signal),
    paths &&
      certificates &&
      followCertificates(paths, certificates, {
        everyMs: pollMs,
        changed: useCertificates,
        unusable: (error) =>
          logger.warn({ err: error }, 'the certificate on disk is unusable; keeping the previous one'),
        clock,
        signal,
      }),
  ]);
  server.endConnections();
  if (lingerMs > 0) await sleep(clock, lingerMs);
}

/** For programs without a module, which make no host calls. */
const noHostCalls: HostCalls = { call: () => Promise.reject(new Error('no policy server is available')) };

/** The policies file, and the table loaded from it. */
class PolicySource {
  readonly #path: string;
  readonly #table: PolicyTable;
  readonly #logger: Logger;
  #text: string | undefined;

  constructor(path: string, table: PolicyTable, logger: Logger) {
    this.#path = path;
    this.#table = table;
    this.#logger = logger;
  }

  /** @throws as {@link runPolicyServer} */
  async load(signal: AbortSignal): Promise<void> {
    const text = await this.#read();
    await this.#take(text, signal);
  }

  /**
   * Applies changes of the file until `signal` aborts. A file that cannot be used is reported once, and the
   * previous policies stay in use.
   */
  async follow(everyMs: number, clock: Clock, signal: AbortSignal): Promise<void> {
    let reportedOf = '';
    const backoff = new Backoff(RETRY);
    let tried = this.#text;
    let retryMs = clock.monotonicMs() + backoff.nextMs();
    while (!signal.aborted) {
      await sleep(clock, everyMs, signal).catch(() => undefined);
      if (signal.aborted) return;
      try {
        const text = await this.#read();
        const isFailed = text !== this.#text || this.#table.problems.size > 0;
        const isDue = isFailed && clock.monotonicMs() >= retryMs;
        if (text === tried && !isDue) continue;
        if (text !== tried) backoff.reset();
        tried = text;
        retryMs = clock.monotonicMs() + backoff.nextMs();
        await this.#take(text, signal);
        reportedOf = '';
      } catch (error) {
        if (signal.aborted) return;
        const { message } = error as Error;
        if (message !== reportedOf) {
          this.#logger.error(
            { err: error, file: this.#path },
            'the policies file is unusable; keeping the previous policies',
          );
        }
        reportedOf = message;
      }
    }
  }

  async #read(): Promise<string> {
    try {
      return await readFile(this.#path, 'utf8');
    } catch (error) {
      throw unreadable(`the policies in ${this.#path}`, error);
    }
  }

  async #take(text: string, signal: AbortSignal): Promise<void> {
    const { policies, unknown } = parsePoliciesFile(text, this.#path);
    if (unknown.length > 0) this.#logger.warn({ unknown }, 'the policies file has unknown keys');
    try {
      await this.#table.replace(policies, signal);
    } catch (error) {
      signal.throwIfAborted();
      if (error instanceof RampartError) throw error;
      throw new RampartError(errorCodes.INPUT, {
        what: `${this.#path} cannot be served`,
        why: (error as Error).message,
        next: 'Fix the policy, or serve the others with --continue-on-errors',
        cause: error,
      });
    }
    this.#text = text;
    this.#logger.info({ policies: this.#table.ids }, 'serving policies');
  }
}
