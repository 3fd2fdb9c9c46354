/** One program of a user's object, at the places of one selection: the common form of programs in both APIs. */
import type { TypedProgram } from '../api.ts';
import type { AttachType } from '../kernel/desired.ts';
import type { InterfacesDiscovery } from '../application-schema.ts';
import type { InterfaceSelector } from '../spec-schema.ts';

export type Member = TypedProgram & {
  /**
   * Distinguishes the programs of an application: in v0.5.5, the value of a label of its per-node objects; '' if it belongs to no
   * application.
   */
  readonly appProgramId: string;
  /** `spec`, `spec.programs[2].xdp`, `spec.programs[2].xdp.links[0]`: for messages. */
  readonly field: string;
  readonly fields: MemberFields;
  /** In v0.6: the index of its program. A program with several links has a member for each. */
  readonly program?: number;
  /** In v0.6: set for the member that represents a program without a link on a node: it is loaded, but not attached. */
  readonly unlinked?: Unlinked;
};

interface Unlinked {
  readonly programType: AttachType;
  readonly kernelFunction: string | undefined;
}

/** The interface selector of either API. */
export type AnyInterfaceSelector = InterfaceSelector & { readonly discovery?: InterfacesDiscovery };

/** Names of the fields in its API, for messages. */
export interface MemberFields {
  readonly functionName: string;
  readonly mapOwnerSelector: string;
  readonly interfaceSelector: string;
  readonly primaryNodeInterface: string;
  readonly containers: string;
}

/** The field names of v0.5.5, below `field`. */
export function programFields(field: string): MemberFields {
  return {
    functionName: `${field}.bpffunctionname`,
    mapOwnerSelector: `${field}.mapownerselector`,
    interfaceSelector: `${field}.interfaceselector`,
    primaryNodeInterface: `${field}.interfaceselector.primarynodeinterface`,
    containers: `${field}.containers`,
  };
}
