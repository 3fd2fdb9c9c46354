/** The containers that the node's container runtime reports, as a `ContainerSource`. */
import type { ContainerChange, NodeContainer } from './node-container.ts';
import type { ContainerWatch } from './watch.ts';
import type { ContainerSource, SourceContainer } from './container-source.ts';

/** The part of ContainerWatch that is used here. */
export type WatchedContainers = Pick<ContainerWatch, 'containers' | 'synced'> & {
  onChange(listener: (change: ContainerChange) => void): Disposable;
};

/**
 * A watch of the container runtime as a source. The owner of the watch disposes it.
 *
 * @param scheme - The prefix of this runtime's container IDs in Kubernetes: `containerd`, `cri-o`. It is the runtime's name from
 *   `Cri.version`, which kubelet uses too (pkg/kubelet/kuberuntime, BuildContainerID).
 * @param signal - Ends the wait for the runtime's first answer.
 */
export function criSource(watch: WatchedContainers, scheme: string, signal?: AbortSignal): ContainerSource {
  const prefix = `${scheme}://`;
  const synced = watch.synced(signal);
  // Callers that await `synced` get the error; without a caller, it would be an unhandled rejection.
  synced.catch(() => undefined);
  const find = (id: string): NodeContainer | undefined =>
    id.startsWith(prefix) ? watch.containers.get(id.slice(prefix.length)) : undefined;
  return {
    synced,
    *list() {
      for (const container of watch.containers.values()) {
        const source = sourceOf(container, prefix);
        if (source !== undefined) yield source;
      }
    },
    get(id) {
      const container = find(id);
      return container && sourceOf(container, prefix);
    },
    reported(id) {
      const container = find(id);
      if (container === undefined) return undefined;
      const { name, pod } = container;
      return { id, name, podName: pod.name, podNamespace: pod.namespace };
    },
    subscribe: (listener) => watch.onChange(({ container }) => listener(prefix + container.id)),
  };
}

/**
 * Undefined for a container that is not running, or whose process is still unknown: a later change reports it.
 */
function sourceOf(container: NodeContainer, prefix: string): SourceContainer | undefined {
  const { id, name, pod, state, process, root } = container;
  if (state !== 'running' || process === undefined || root === undefined) return undefined;
  return {
    id: prefix + id,
    name,
    podName: pod.name,
    podNamespace: pod.namespace,
    podUid: pod.uid,
    podIp: pod.ips[0] ?? '',
    pid: process.pid,
    root,
  };
}
