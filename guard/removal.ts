/**
 * Detects whether Rampart itself is being removed from the cluster. A request to stop alone does not prove it: rollouts, drains and scaling
 * to 0 also stop processes.
 *
 * The namespace is watched: once it is marked as deleted, Kubernetes waits 5 s before it deletes its contents
 * (pkg/controller/namespace/namespace_controller.go), and with them the roles and tokens of this process. The workload of this process is
 * read when the process is asked to stop: it can also be deleted without its pods.
 */
import { isNotFound, orUndefined } from '../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import type { SharedCaches } from '../lib/kube/cache/shared-caches.ts';
import { isDeleting } from '../lib/kube/controller/finalizers.ts';
import { daemonSets, deployments, namespaces, type ResourceType } from '../lib/kube/object/object.ts';
import { Backoff } from '../lib/time/backoff.ts';
import { sleep, systemClock } from '../lib/time/clock.ts';
import { systemNamespace } from './guard.ts';

/** Why the parts of a process end; the message says what is being deleted. */
export class RampartRemoved extends Error {
  /** Whether the processes on other nodes end as well. */
  readonly isEverywhere: boolean;

  constructor(message: string, isEverywhere: boolean) {
    super(message);
    this.isEverywhere = isEverywhere;
  }
}

/** The removal that has aborted `signal`, if Rampart is being removed. */
export function removalOf({ reason }: AbortSignal): RampartRemoved | undefined {
  return reason instanceof RampartRemoved ? reason : undefined;
}

export interface RemovalOptions {
  readonly client: KubeClient;
  readonly caches: SharedCaches;
  /** Aborts when this process is asked to stop. */
  readonly reported: AbortSignal;
  readonly workload: Workload;
}

/** The workload that runs a process, in the namespace of Rampart. */
export interface Workload {
  readonly type: ResourceType;
  readonly name: string;
  /** As named in a sentence: `the operator`. */
  readonly what: string;
}

/** As named in deploy/base. */
export const operatorWorkload: Workload = {
  type: deployments,
  name: 'rampart-operator',
  what: 'the operator',
};
export const agentWorkload: Workload = {
  type: daemonSets,
  name: 'rampart-agent',
  what: 'the DaemonSet of the agents',
};

/** Time limit for the last check of the workload; the rest of the grace period is left to the parts of the process. */
const LAST_LOOK_MS = 2000;
const RETRY = { baseMs: 1000, maxMs: 60_000 };
const isNamespaceDeleted = `the namespace ${systemNamespace} is being deleted`;

/**
 * Aborts `end`, for {@link removalOf}, when the process is told to stop, or earlier when the namespace is
 * being deleted.
 */
export function endWhenRemoved(
  end: AbortController,
  { client, caches, reported, workload }: RemovalOptions,
): void {
  const { signal } = end;
  const space = { type: namespaces, fieldSelector: `metadata.name=${systemNamespace}` };
  caches.use(space, signal).subscribe(({ type, object }) => {
    if (type === 'deleted' || isDeleting(object)) end.abort(new RampartRemoved(isNamespaceDeleted, true));
  });
  const own = { namespace: systemNamespace, name: workload.name };
  let isInstalled = false;
  const atStart = async (): Promise<void> => {
    const backoff = new Backoff(RETRY);
    for (;;) {
      try {
        isInstalled = (await orUndefined(client.get(workload.type, own, { signal }))) !== undefined;
        return;
      } catch {
        await sleep(systemClock, backoff.nextMs(), signal);
      }
    }
  };
  atStart().catch(() => undefined);
  const atStop = async (): Promise<RampartRemoved | undefined> => {
    // Started by hand: the process has no workload.
    if (!isInstalled) return undefined;
    const look = { signal: AbortSignal.timeout(LAST_LOOK_MS) };
    const isGoing = (type: ResourceType, target: { namespace?: string; name: string }): Promise<boolean> =>
      client.get(type, target, look).then(isDeleting, isNotFound);
    const [isSpaceGoing, isWorkloadGoing] = await Promise.all([
      isGoing(namespaces, { name: systemNamespace }),
      isGoing(workload.type, own),
    ]);
    if (isSpaceGoing) return new RampartRemoved(isNamespaceDeleted, true);
    return isWorkloadGoing ? new RampartRemoved(`${workload.what} is being deleted`, false) : undefined;
  };
  const stop = (): void => void atStop().then((removal) => end.abort(removal));
  if (reported.aborted) stop();
  else reported.addEventListener('abort', stop, { once: true });
}
