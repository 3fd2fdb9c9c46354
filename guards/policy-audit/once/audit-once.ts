/** One complete scan, for `rampart audit`. The operator's scanner retries forever, but a command has to end, so this one gives up. */
import type { GuardContext } from '../../../guard/context.ts';
import { isUnreachable, KubeError } from '../../../lib/kube/client/client-errors.ts';
import { namespaces } from '../../../lib/kube/object/object.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { sleep, systemClock } from '../../../lib/time/clock.ts';
import { checkNamespace, checkPolicies, checkServed } from './needs.ts';
import { reasons } from './explain.ts';
import { coversCreation } from '../policies/match.ts';
import type { OpenPolicy, Runtimes } from '../policies/open-policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { MemoryReports } from '../reports/memory-store.ts';
import { type AuditReport, ourReports, reportTypes } from '../reports/report.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';
import { Scanner } from '../scanner/scanner.ts';
import type { ScannerOptions } from '../scanner/scanner-options.ts';

export interface AuditOnceOptions extends Omit<
  ScannerOptions,
  'context' | 'exceptions' | 'givesUp' | 'intervalMs' | 'onPass' | 'policies' | 'store'
> {
  readonly context: GuardContext;
  readonly runtimes: Runtimes;
  /** Whether reports are written to the API. */
  readonly stores: boolean;
  readonly onProgress: (progress: Scanner['progress']) => void;
}

export interface AuditOnce {
  readonly summary: PassSummary;
  /** Sorted by namespace, kind and name. */
  readonly reports: readonly AuditReport[];
  /** Why policies could not be evaluated. */
  readonly problems: ReadonlyMap<string, string>;
  /** Policies that no audit evaluates, by ID, and why. */
  readonly skipped: ReadonlyMap<string, string>;
  /** Why namespaces ('' for cluster-scoped objects) could not be audited, or their reports not written. */
  readonly unfinished: ReadonlyMap<string, string>;
}

const PROGRESS_MS = 250;
const NEVER_MS = 2 ** 40;
/** How long transient failures are retried: long enough for an API server to restart. */
const PATIENCE_MS = 20_000;
const LOOK_MS = 2000;

/**
 * @throws {RampartError} `UNSUPPORTED` if policies or reports are not served; `INPUT` if the namespace does not
 * exist; `API_UNREACHABLE`, also if the API becomes unreachable and stays so. {KubeError} if what is needed may
 * not be read; the reason of the signal of the context.
 */
export async function auditOnce(options: AuditOnceOptions): Promise<AuditOnce> {
  const { context, runtimes, stores, onProgress, reportKind, reportsBy, ...more } = options;
  const { namespaced, cluster } = reportTypes[reportKind];
  const unlisted = await checkPolicies(context);
  await checkServed(context, [...(stores ? [namespaced, cluster] : []), namespaces]);
  for (const name of options.onlyNamespaces ?? []) await checkNamespace(context, name);
  const stop = new AbortController();
  const signal = AbortSignal.any([context.signal, stop.signal]);
  const own = { ...context, signal };
  const memory = stores ? undefined : new MemoryReports();
  const policies = new PolicySet({ context: own, runtimes, writesStatus: false });
  const exceptions = new ExceptionSet({ context: own, writesStatus: false });
  const passed = Promise.withResolvers<PassSummary>();
  const unfinished = new Map<string, string>();
  const scanner = new Scanner({
    ...more,
    context: own,
    policies,
    exceptions,
    reportKind,
    reportsBy,
    intervalMs: NEVER_MS,
    onPass: passed.resolve,
    givesUp: giveUpIn(unfinished),
    ...(memory && { store: memory }),
  });
  const running = Promise.all([policies.run(), exceptions.run(), scanner.run(), untilApiIsLost(own)]);
  running.catch(passed.reject);
  const onAbort = (): void => passed.reject(context.signal.reason);
  context.signal.addEventListener('abort', onAbort, { once: true });
  const timer = setInterval(() => onProgress(scanner.progress), PROGRESS_MS);
  try {
    const summary = await passed.promise;
    const problems = new Map([...unlisted, ...policies.problems]);
    if (exceptions.isForbidden)
      problems.set('policyexceptions.rampart.dev', 'they may not be listed: none is in effect');
    const skipped = skippedOf(policies.audited, scanner.unserved);
    const reports =
      memory === undefined ? await listed(options) : memory.list(reportTypes[reportKind], reportsBy);
    const isAsked = ({ metadata: { namespace = '' } }: AuditReport): boolean =>
      namespace === ''
        ? options.cluster !== false
        : options.ignoredNamespaces?.has(namespace) !== true &&
          (options.onlyNamespaces?.has(namespace) ?? true);
    return { summary, problems, skipped, unfinished, reports: reports.filter(isAsked).toSorted(byScope) };
  } finally {
    clearInterval(timer);
    context.signal.removeEventListener('abort', onAbort);
    stop.abort();
    await running.catch(() => undefined);
  }
}

function skippedOf(
  policies: readonly OpenPolicy[],
  unserved: ReadonlyMap<string, string>,
): Map<string, string> {
  const skipped = new Map<string, string>();
  for (const { policy } of policies) {
    const kinds = unserved.get(policy.id);
    if (kinds !== undefined) {
      skipped.set(policy.id, `it applies to nothing: the API does not serve ${kinds}`);
      continue;
    }
    const isCreation = policy.constraints.every(({ rules }) => rules.some(coversCreation));
    if (policy.backgroundAudit && isCreation) continue;
    skipped.set(policy.id, policy.backgroundAudit ? reasons.operation : reasons.background);
  }
  return skipped;
}

async function listed({ context, reportKind }: AuditOnceOptions): Promise<AuditReport[]> {
  const { client, signal } = context;
  const { namespaced, cluster } = reportTypes[reportKind];
  const found: AuditReport[] = [];
  for (const type of [namespaced, cluster]) {
    await client.listItems(
      type,
      {},
      {
        labelSelector: ourReports,
        signal,
        onItem: (text: string) => void found.push(JSON.parse(text) as AuditReport),
      },
    );
  }
  return found;
}

function byScope(a: AuditReport, b: AuditReport): number {
  const key = ({ metadata, scope }: AuditReport): string =>
    [metadata.namespace ?? '', scope?.kind, scope?.name ?? metadata.name].join('/');
  return key(a) < key(b) ? -1 : 1;
}

/**
 * Gives up at once on a request that the API refuses, and after a while on one that keeps failing.
 *
 * @param unfinished - Receives the namespaces that were given up, and why.
 */
function giveUpIn(unfinished: Map<string, string>): NonNullable<ScannerOptions['givesUp']> {
  const since = new Map<string, number>();
  return (namespace, error) => {
    const nowMs = systemClock.monotonicMs();
    const firstMs = since.get(namespace) ?? nowMs;
    since.set(namespace, firstMs);
    if (!isRefusal(error) && nowMs - firstMs < PATIENCE_MS) return false;
    unfinished.set(namespace, messageOf(error));
    return true;
  };
}

/** Whether the request would fail however often it is repeated: not for a conflict, a rate limit, or a server error. */
function isRefusal(error: unknown): boolean {
  if (!(error instanceof KubeError)) return false;
  return error.status >= 400 && error.status < 500 && ![404, 408, 409, 410, 429].includes(error.status);
}

/**
 * Checks whether the API responds, until the signal aborts.
 *
 * @throws {RampartError} `API_UNREACHABLE` once it has not responded for too long
 */
async function untilApiIsLost({ client, signal }: Pick<GuardContext, 'client' | 'signal'>): Promise<void> {
  for (let answeredMs = systemClock.monotonicMs(); !signal.aborted;) {
    try {
      await sleep(systemClock, LOOK_MS, signal);
      await client.getPath('/version', {
        signal: AbortSignal.any([signal, AbortSignal.timeout(PATIENCE_MS)]),
      });
      answeredMs = systemClock.monotonicMs();
    } catch (error) {
      if (signal.aborted) return;
      const isSilent = isUnreachable(error) || !(error instanceof RampartError);
      const silentMs = systemClock.monotonicMs() - answeredMs;
      if (!isSilent) answeredMs = systemClock.monotonicMs();
      else if (silentMs >= PATIENCE_MS) throw lost(silentMs, error);
    }
  }
}

function lost(silentMs: number, cause: unknown): RampartError {
  return new RampartError(errorCodes.API_UNREACHABLE, {
    what: `the API has not responded for ${Math.round(silentMs / 1000)} s, and the audit is incomplete`,
    why: (cause as Error).message,
    next: 'Audit again once it responds: results already written are not evaluated again',
    cause,
  });
}
