/**
 * Asks the pods of a PolicyServer for the states of its policies: a pod may be unable to fetch a module that the
 * operator could open. Only ready pods are asked, because only they get reviews.
 */
import { messageOf } from '../../../lib/errors/errors.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import { type Pod, pods } from '../../../lib/kube/object/object.ts';
import { request } from '../../../lib/net/node-http.ts';
import { counted } from '../../../lib/output/words.ts';
import { type PolicyStates, statesIn, statesPath } from '../server/policy-states.ts';
import { serverLabel } from '../server-label.ts';
import { readinessPort } from './server-objects.ts';

const TIMEOUT_MS = 2000;
const MAX_ANSWER_BYTES = 4 << 20;

interface AskedPod {
  readonly name: string;
  readonly states: PolicyStates;
}

/** The states of policies in ready pods. Pure. */
export class PodStates {
  /** Pods that answered. */
  readonly #asked: readonly AskedPod[];
  /** Why other pods did not answer, each with its name. */
  readonly unread: readonly string[];
  /** Whether older pods may lack new policies. */
  readonly #isRollingOut: boolean;

  constructor(asked: readonly AskedPod[], unread: readonly string[], isRollingOut: boolean) {
    this.#asked = asked;
    this.unread = unread;
    this.#isRollingOut = isRollingOut;
  }

  /** Number of ready pods. */
  get count(): number {
    return this.#asked.length + this.unread.length;
  }

  /** On which pods a policy is not evaluated, and why; undefined if it is evaluated on all pods that answered. */
  missing(id: string): string | undefined {
    const otherwise = this.#isRollingOut ? '' : 'it is not loaded yet';
    const without = this.#asked.flatMap(({ name, states }) => {
      const why = states.get(id) ?? otherwise;
      return why === '' ? [] : [{ name, why }];
    });
    const [first] = without;
    if (first === undefined) return undefined;
    return `on ${without.length} of ${counted(this.count, 'pod')}: ${first.why}; the log of the pod ${first.name} says more`;
  }
}

/** @throws {KubeError} if the pods cannot be listed */
export async function askPods(
  client: KubeClient,
  { server, namespace, isRollingOut }: { server: string; namespace: string; isRollingOut: boolean },
  signal: AbortSignal,
): Promise<PodStates> {
  const labelSelector = `${serverLabel}=${server}`;
  const { items } = await client.list(pods, { namespace }, { labelSelector, signal });
  const asked: AskedPod[] = [];
  const unread: string[] = [];
  await Promise.all(
    items.filter(isReady).map(async (pod) => {
      const { name = '' } = pod.metadata;
      try {
        asked.push({ name, states: statesIn(await get(pod, signal)) });
      } catch (error) {
        signal.throwIfAborted();
        unread.push(`${name}: ${messageOf(error)}`);
      }
    }),
  );
  asked.sort((a, b) => (a.name < b.name ? -1 : 1));
  return new PodStates(asked, unread.toSorted(), isRollingOut);
}

function isReady({ metadata, status }: Pod): boolean {
  return (
    metadata.deletionTimestamp === undefined &&
    status?.conditions?.find(({ type }) => type === 'Ready')?.status === 'True'
  );
}

/**
 * @returns the body of the pod's answer.
 * @throws {Error} with the reason for a missing answer
 */
async function get({ spec, status }: Pod, signal: AbortSignal): Promise<string> {
  const ports = spec?.containers.flatMap((container) => container.ports ?? []);
  const port = ports?.find(({ name }) => name === readinessPort)?.containerPort;
  const host = status?.podIP;
  if (host === undefined || port === undefined) throw new Error('it has no address');
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const within = AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]);
  // Without an agent, neither a proxy from the environment is used nor is the connection kept alive.
  const asking = request({ host, port, path: statesPath, agent: false, signal: within }, (response) => {
    const { statusCode } = response;
    if (statusCode !== 200) {
      response.destroy();
      const older = statusCode === 404 ? ': its image is older than the operator' : '';
      reject(new Error(`it answers ${statusCode}${older}`));
      return;
    }
    let sizeBytes = 0;
    const chunks: Uint8Array[] = [];
    response.on('data', (chunk: Uint8Array) => {
      sizeBytes += chunk.length;
      chunks.push(chunk);
      if (sizeBytes > MAX_ANSWER_BYTES)
        response.destroy(new Error(`its answer has more than ${MAX_ANSWER_BYTES} bytes`));
    });
    response.on('end', () => resolve(Buffer.concat(chunks).toString()));
    response.on('error', reject);
  });
  asking.on('error', (error) =>
    reject(within.aborted && !signal.aborted ? new Error(`no answer in ${TIMEOUT_MS / 1000} s`) : error),
  );
  asking.end();
  return promise;
}
