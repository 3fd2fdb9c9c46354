/**
 * Determines which nodes a FileIntegrity selects: those that have its labels, and no taint that it does not tolerate.
 *
 * The guard replaces a DaemonSet, so it has the tolerations that every DaemonSet gets (Kubernetes, "DaemonSet": taints
 * and tolerations): a node that is cordoned, under pressure or not ready is checked too. As with a DaemonSet, a taint
 * added later does not stop what already runs, unless its effect is NoExecute.
 */
import type { Node } from '../../../lib/kube/object/object.ts';
import type { FileIntegritySpec, Toleration } from '../api.ts';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

const ofEveryDaemonSet: readonly Toleration[] = [
  ['not-ready', 'NoExecute'],
  ['unreachable', 'NoExecute'],
  // The node controller also sets these two: no new pod of a DaemonSet is started then, but running ones continue.
  ['not-ready', 'NoSchedule'],
  ['unreachable', 'NoSchedule'],
  ['disk-pressure', 'NoSchedule'],
  ['memory-pressure', 'NoSchedule'],
  ['pid-pressure', 'NoSchedule'],
  ['unschedulable', 'NoSchedule'],
  ['network-unavailable', 'NoSchedule'],
].map(([key, effect]) => ({ key: `node.kubernetes.io/${key}`, operator: 'Exists', effect }) as Toleration);

/**
 * Whether a FileIntegrity selects a node. A standalone machine may have no Node object: it then counts as a node
 * without labels and taints.
 *
 * @param isRunning whether the node has already been checked for the FileIntegrity
 */
export function isForNode(
  { nodeSelector = {}, tolerations }: Pick<FileIntegritySpec, 'nodeSelector' | 'tolerations'>,
  node: Pick<Node, 'metadata' | 'spec'> | undefined,
  isRunning: boolean,
): boolean {
  const labels = node?.metadata.labels ?? {};
  if (Object.entries(nodeSelector).some(([name, value]) => labels[name] !== value)) return false;
  const tolerated = [...tolerations, ...ofEveryDaemonSet];
  return (node?.spec?.taints ?? []).every(
    (taint) =>
      taint.effect === 'PreferNoSchedule' ||
      (isRunning && taint.effect === 'NoSchedule') ||
      tolerated.some((one) => tolerates(one, taint)),
  );
}

/** As in Kubernetes (core/v1, Toleration.ToleratesTaint). */
function tolerates({ key = '', operator, value = '', effect = '' }: Toleration, taint: Taint): boolean {
  if (effect !== '' && effect !== taint.effect) return false;
  if (key !== '' && key !== taint.key) return false;
  switch (operator ?? '') {
    case '':
    case 'Equal':
      return value === (taint.value ?? '');
    case 'Exists':
      return true;
    default:
      return false;
  }
}
