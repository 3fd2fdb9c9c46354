/**
 * Which nodes a FileIntegrity is for: those with its labels, and without a taint that it does not tolerate.
 *
 * The guard takes the place of a DaemonSet, so it tolerates what a DaemonSet tolerates by itself (Kubernetes, "DaemonSet":
 * taints and tolerations): a node that is cordoned, under pressure or not ready is examined all the same. As there, a later taint
 * ends nothing that runs unless its effect is NoExecute.
 */
import type { Node } from '../../../lib/kube/object/object.ts';
import type { FileIntegritySpec, Toleration } from '../api.ts';

type Taint = NonNullable<NonNullable<Node['spec']>['taints']>[number];

const ofEveryDaemonSet: readonly Toleration[] = [
  ['not-ready', 'NoExecute'],
  ['unreachable', 'NoExecute'],
  // The node controller sets these two beside them: no new pod of a DaemonSet starts, but those that run go on.
  ['not-ready', 'NoSchedule'],
  ['unreachable', 'NoSchedule'],
  ['disk-pressure', 'NoSchedule'],
  ['memory-pressure', 'NoSchedule'],
  ['pid-pressure', 'NoSchedule'],
  ['unschedulable', 'NoSchedule'],
  ['network-unavailable', 'NoSchedule'],
].map(([key, effect]) => ({ key: `node.kubernetes.io/${key}`, operator: 'Exists', effect }) as Toleration);

/**
 * A node that is not known has no labels and no taints: on a single machine there need not be one.
 *
 * @param isRunning whether the node has been checked for it before
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
