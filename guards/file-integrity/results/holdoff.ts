/**
 * When a node is left alone: the annotation `holdoff` is set, or the Machine Config Operator of OpenShift is
 * about to change its files.
 */
import type { Node } from '../../../lib/kube/object/object.ts';
import { type FileIntegrity, names } from '../api.ts';

/** The nodes that an annotation names. Whole names: node-10 does not match node-1. */
export function listedNodes(text: string): string[] {
  const all = text.split(',').map((name) => name.trim());
  return [...new Set(all.filter((name) => name !== ''))];
}

/** Undefined: no node is held. An empty list: all are. */
export function heldNodes({ metadata }: FileIntegrity): readonly string[] | undefined {
  const list = metadata.annotations?.[names.holdoff];
  return list === undefined ? undefined : listedNodes(list);
}

export function isHeldOn(integrity: FileIntegrity, nodeName: string): boolean {
  const held = heldNodes(integrity);
  return held !== undefined && (held.length === 0 || held.includes(nodeName));
}

/** Which configuration a node of OpenShift has, and whether it is on its way to another. */
export interface MachineConfig {
  readonly name: string;
  readonly isUpdating: boolean;
}

/** Written by the machine-config-daemon (openshift/machine-config-operator, pkg/daemon/constants/constants.go). */
export const machineConfigAnnotations = {
  current: 'machineconfiguration.openshift.io/currentConfig',
  desired: 'machineconfiguration.openshift.io/desiredConfig',
  state: 'machineconfiguration.openshift.io/state',
} as const;

/** Undefined: the configuration of this node is not managed. */
export function machineConfigOf(node: Node | undefined): MachineConfig | undefined {
  const { annotations = {} } = node?.metadata ?? {};
  const { [machineConfigAnnotations.current]: name, [machineConfigAnnotations.state]: state } = annotations;
  if (name === undefined) return undefined;
  const desired = annotations[machineConfigAnnotations.desired] ?? name;
  return { name, isUpdating: desired !== name || (state !== undefined && state !== 'Done') };
}
