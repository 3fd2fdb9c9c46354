/** One program of a user's object, at the places of one selection: what the kinds of both APIs are made into. */
import type { TypedProgram } from '../api.ts';
import type { AttachType } from '../kernel/desired.ts';
import type { InterfacesDiscovery } from '../application-schema.ts';
import type { InterfaceSelector } from '../spec-schema.ts';

export type Member = TypedProgram & {
  /** Distinguishes the programs of an application: label of its per-node objects in v0.5.5; '' unless it belongs to an application. */
  readonly appProgramId: string;
  /** `spec`, `spec.programs[2].xdp`, `spec.programs[2].xdp.links[0]`: for messages. */
  readonly field: string;
  readonly fields: MemberFields;
  /** In v0.6: the index of its program, which may have several members: one for each link. */
  readonly program?: number;
  /** In v0.6: its program, for where it has no link on a node: it is loaded, and attached to nothing. */
  readonly unlinked?: Unlinked;
};

interface Unlinked {
  readonly programType: AttachType;
  readonly kernelFunction: string | undefined;
}

/** A selector of either API. */
export type AnyInterfaceSelector = InterfaceSelector & { readonly discovery?: InterfacesDiscovery };

/** How its API spells the fields that messages name. */
export interface MemberFields {
  readonly functionName: string;
  readonly mapOwnerSelector: string;
  readonly interfaceSelector: string;
  readonly primaryNodeInterface: string;
  readonly containers: string;
}

/** Fields of v0.5.5, below `field`. */
export function programFields(field: string): MemberFields {
  return {
    functionName: `${field}.bpffunctionname`,
    mapOwnerSelector: `${field}.mapownerselector`,
    interfaceSelector: `${field}.interfaceselector`,
    primaryNodeInterface: `${field}.interfaceselector.primarynodeinterface`,
    containers: `${field}.containers`,
  };
}
