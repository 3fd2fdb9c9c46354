/** When a node is not scanned: the annotation `holdoff` is set, or OpenShift's Machine Config Operator is changing its files. */
import type { Node } from '../../../lib/kube/object/object.ts';
import { type FileIntegrity, names } from '../api.ts';

/** The nodes that an annotation lists. Names are compared as a whole: node-10 is not node-1. */
export function listedNodes(text: string): string[] {
  const all = text.split(',').map((name) => name.trim());
  return [...new Set(all.filter((name) => name !== ''))];
}

/** The nodes that are held: undefined if none are, an empty list if all are. */
export function heldNodes({ metadata }: FileIntegrity): readonly string[] | undefined {
  const list = metadata.annotations?.[names.holdoff];
  return list === undefined ? undefined : listedNodes(list);
}

export function isHeldOn(integrity: FileIntegrity, nodeName: string): boolean {
  const held = heldNodes(integrity);
  return held !== undefined && (held.length === 0 || held.includes(nodeName));
}

/** The configuration that an OpenShift node has, and whether it is changing to another one. */
export interface MachineConfig {
  readonly name: string;
  readonly isUpdating: boolean;
}

/** Set by the machine-config-daemon (openshift/machine-config-operator, pkg/daemon/constants/constants.go). */
export const machineConfigAnnotations = {
  current: 'machineconfiguration.openshift.io/currentConfig',
  desired: 'machineconfiguration.openshift.io/desiredConfig',
  state: 'machineconfiguration.openshift.io/state',
} as const;

/** Undefined if the node's configuration is not managed by the Machine Config Operator. */
export function machineConfigOf(node: Node | undefined): MachineConfig | undefined {
  const { annotations = {} } = node?.metadata ?? {};
  const { [machineConfigAnnotations.current]: name, [machineConfigAnnotations.state]: state } = annotations;
  if (name === undefined) return undefined;
  const desired = annotations[machineConfigAnnotations.desired] ?? name;
  return { name, isUpdating: desired !== name || (state !== undefined && state !== 'Done') };
}
