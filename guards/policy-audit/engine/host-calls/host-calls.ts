/** The host calls of one policy. Each is checked before anything is done for it. */
import { lookup } from 'node:dns/promises';

import { messageOf } from '../../../../lib/errors/errors.ts';
import { forTenant } from '../../../../lib/oci/tenant-error.ts';
import type { Logger, LogLevel } from '../../../../lib/telemetry/log.ts';
import type { HostCalls, HostOperation, JsonObject } from '../evaluator.ts';
import { capabilities, type HostCapabilities } from './capabilities.ts';
import { certificateTrust } from './certificates.ts';
import type { ClusterReader, KindName } from './cluster-reader.ts';
import { answerOci, type ImageSource, type ImageVerifier } from './images.ts';
import { answerKubernetes } from './kubernetes.ts';
import { payloadObject, payloadOf, payloadText, textIn } from './payload.ts';

export interface PolicyHostCallsOptions {
  /** For logs: `clusterwide-labels`. */
  readonly policy: string;
  /**
   * For a cluster policy, all capabilities ({@link everyCapability}); for a namespaced policy, those in
   * `namespacedPoliciesCapabilities` of its PolicyServer.
   */
  readonly capabilities: HostCapabilities;
  /** True for a namespaced policy: hides from its author what listens at the hosts that it names. */
  readonly isTenant?: boolean;
  /** `contextAwareResources` of a cluster policy. A namespaced policy has none. */
  readonly resources: readonly KindName[];
  readonly logger: Logger;
  /** Without it, calls that need a cluster fail. */
  readonly cluster?: ClusterReader | undefined;
  readonly images?: ImageSource | undefined;
  readonly verifier?: ImageVerifier | undefined;
  /** Returns the addresses of a host. Default: as resolved by this machine. */
  readonly lookupHost?: (host: string) => Promise<readonly string[]>;
}

/** Binding of Rampart's own host call, by which policies in Rego get the plural of a kind. Guests cannot use it. */
export const ownBinding = 'rampart';

const encoder = new TextEncoder();
/** Limit of the refused calls that are logged for one policy. Each is logged once. */
const MAX_REPORTED = 100;

/** Keyed by the names of Kubewarden's levels. */
const levels: Readonly<Record<string, LogLevel>> = {
  trace: 'trace',
  debug: 'debug',
  info: 'info',
  warning: 'warn',
  warn: 'warn',
  error: 'error',
};

/**
 * @example
 * const hostCalls = policyHostCalls({
 *   policy: 'clusterwide-labels',
 *   capabilities: everyCapability,
 *   resources: policy.spec.contextAwareResources ?? [],
 *   logger,
 *   cluster: new KubeClusterReader(client),
 * });
 */
export function policyHostCalls(options: PolicyHostCallsOptions): HostCalls {
  const granted = new Set(options.resources.map(({ apiVersion, kind }) => `${apiVersion}/${kind}`));
  const reporter = new Reporter(options);
  const grants = (kind: KindName): boolean => {
    const name = `${kind.apiVersion}/${kind.kind}`;
    return granted.has(name) || reporter.refused(`Kubernetes resource ${name}`);
  };
  return {
    async call(operation, bytes, signal) {
      if (operation.binding === ownBinding && options.cluster !== undefined) {
        const fields = payloadObject(payloadOf(bytes));
        const kind = { apiVersion: textIn(fields, 'api_version'), kind: textIn(fields, 'kind') };
        return encoded(await options.cluster.plural(kind, { signal }));
      }
      if (isLog(operation)) return reporter.said(bytes);
      check(operation, options.capabilities, reporter);
      const { namespace, operation: name } = operation;
      const payload = payloadOf(bytes);
      try {
        if (namespace === 'kubernetes') {
          return encoded(await answerKubernetes(name, payload, { cluster: options.cluster, grants }, signal));
        }
        if (namespace === 'oci') {
          const { images, verifier } = options;
          const answer = answerOci(name, payload, { images, verifier }, signal);
          return encoded(await (options.isTenant === true ? answer.catch(reporter.hide) : answer));
        }
        if (namespace === 'crypto') return encoded(certificateTrust(payload));
        return encoded({ ips: await (options.lookupHost ?? addressesOf)(payloadText(payload)) });
      } catch (error) {
        const { message } = error as Error;
        if (message.startsWith('Policy has not been granted')) throw error;
        throw new Error(`Callback evaluation failure: ${message}`, { cause: error });
      }
    },
  };
}

function isLog({ binding, namespace, operation }: HostOperation): boolean {
  return binding === 'kubewarden' && namespace === 'tracing' && operation === 'log';
}

/** @throws {Error} with upstream's message, before the payload is parsed. */
function check(
  { binding, namespace, operation }: HostOperation,
  allowed: HostCapabilities,
  reporter: Reporter,
): void {
  if (binding !== 'kubewarden') throw new Error(`unknown binding: ${binding}`);
  if (namespace === 'tracing') throw new Error(`unknown operation: ${operation}`);
  const path = `${namespace}/${operation}`;
  if (!allowed.allows(path)) {
    reporter.refused(`host capability ${path}`);
    throw new Error(
      `Policy has not been granted access to the '${path}' host capability. The violation has been reported.`,
    );
  }
  const known = Object.hasOwn(capabilities, namespace) ? capabilities[namespace] : undefined;
  if (known === undefined) throw new Error(`unknown namespace: ${namespace}`);
  if (namespace === 'cache' || !known.includes(operation)) {
    throw new Error(`unknown operation: ${operation}`);
  }
}

/** Logs what a policy was refused, and the log messages of the policy itself. */
class Reporter {
  readonly #policy: string;
  readonly #logger: Logger;
  /** Each refusal is logged only once: a policy repeats its calls with each request. */
  readonly #reported = new Set<string>();

  constructor({ policy, logger }: PolicyHostCallsOptions) {
    this.#policy = policy;
    this.#logger = logger;
  }

  refused(what: string): false {
    if (this.#isNew(what)) {
      this.#logger.warn({ policy: this.#policy }, `the policy requested a ${what} without permission`);
    }
    return false;
  }

  /** @throws the error, without details that a tenant must not see: these are only logged. */
  readonly hide = (error: unknown): never => {
    const reported = forTenant(error);
    if (reported !== error && this.#isNew(messageOf(error)))
      this.#logger.warn({ policy: this.#policy, err: error }, 'the policy could not query a registry');
    throw reported;
  };

  #isNew(text: string): boolean {
    if (this.#reported.has(text) || this.#reported.size >= MAX_REPORTED) return false;
    this.#reported.add(text);
    return true;
  }

  said(bytes: Uint8Array): Uint8Array {
    let event: JsonObject;
    try {
      event = payloadObject(payloadOf(bytes));
    } catch (error) {
      this.#logger.warn({ policy: this.#policy, err: error }, 'the policy sent a malformed log message');
      return encoder.encode('');
    }
    const { level, message, ...data } = event;
    const name = levels[String(level).toLowerCase()] ?? 'info';
    if (name === 'silent') return encoder.encode('');
    this.#logger[name]({ policy: this.#policy, data }, String(message ?? ''));
    return encoder.encode('');
  }
}

async function addressesOf(host: string): Promise<string[]> {
  return (await lookup(host, { all: true })).map(({ address }) => address);
}

function encoded(value: unknown): Uint8Array {
  return encoder.encode(JSON.stringify(value));
}
