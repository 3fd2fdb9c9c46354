/** The containers of this node that a selector selects. */
import { readFileSync, statSync } from 'node:fs';

import type { ContainerSource, SourceContainer } from '../../../lib/cri/container-source.ts';
import { isPod } from '../../../lib/kube/object/facts.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { Pod } from '../../../lib/kube/object/object.ts';
import { labelSelectorOf, labelsMatch } from '../../../lib/kube/selectors/selectors.ts';
import type { Parent } from '../engine/parent.ts';
import type { SelectedContainer } from '../engine/node-view.ts';
import type { ContainerSelector } from '../spec-schema.ts';
import { messageOf } from '../../../lib/errors/errors.ts';

export interface ContainerView {
  readonly containers: ContainerSource;
  readonly pods: Pick<IndexedCache<Pod>, 'get'>;
  /** Default: `/proc`. */
  readonly procPath?: string;
}

/**
 * The selected containers, sorted by pod and container. A namespaced parent selects in its own namespace only, whatever its object says.
 *
 * @throws {SelectorError} for an invalid selector.
 */
export function selectContainers(
  { containers, pods, procPath = '/proc' }: ContainerView,
  parent: Pick<Parent, 'namespace'>,
  selector: ContainerSelector,
): SelectedContainer[] {
  const namespace = parent.namespace ?? selector.namespace ?? '';
  const labels = labelSelectorOf(selector.pods);
  const names = selector.containernames ?? [];
  const selected = [...containers.list()].filter((one) => {
    if (namespace !== '' && one.podNamespace !== namespace) return false;
    if (names.length > 0 && !names.includes(one.name)) return false;
    const pod = pods.get(`${one.podNamespace}/${one.podName}`);
    // A pod that was recreated with the same name is another pod.
    return pod !== undefined && isPod(pod, one.podUid) && labelsMatch(labels, pod.metadata.labels);
  });
  const order = (one: SourceContainer): string => `${one.podNamespace}/${one.podName}/${one.name} ${one.id}`;
  selected.sort((a, b) => (order(a) < order(b) ? -1 : 1));
  return selected.map((one) => seen(one, procPath));
}

function seen(
  { id, pid, name, podName, podNamespace }: SourceContainer,
  procPath: string,
): SelectedContainer {
  const process = `${procPath}/${pid}`;
  const common = { namespace: podNamespace, podName, name };
  const place = { pid, containerId: id, cgroupPath: cgroupOf(process) };
  try {
    const network = statSync(`${process}/ns/net`, { bigint: true }).ino;
    const hostNetwork = network === statSync(`${procPath}/self/ns/net`, { bigint: true }).ino;
    return { ...common, place, network, hostNetwork };
  } catch (error) {
    const problem = `The network namespace of container ${name} of pod ${podNamespace}/${podName} cannot be opened: ${messageOf(error)}. Retrying.`;
    return { ...common, place, network: undefined, hostNetwork: false, problem };
  }
}

/** The path in the cgroup v2 hierarchy; undefined if this process sees the hierarchy from another root. */
function cgroupOf(process: string): string | undefined {
  try {
    const [, path] = /^0::(\/.*)$/m.exec(readFileSync(`${process}/cgroup`, 'utf8')) ?? [];
    return path === undefined || path.startsWith('/..') || path === '/' ? undefined : path;
  } catch {
    return undefined;
  }
}
