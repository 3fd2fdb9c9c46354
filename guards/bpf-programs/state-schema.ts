/**
 * The schemas of ClusterBpfApplicationState and BpfApplicationState in bpfman-operator v0.6: the outcome of one application on one node.
 * They have no spec; the agent of the node writes their status.
 */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
import {
  boolean,
  type Fields,
  integer,
  list,
  object,
  oneOf,
  optional,
  type ReadFields,
  string,
} from '../../lib/kube/crd/schema.ts';
import { type LinkType, memberRule, membersIn, tcActions, xdpActions } from './application-schema.ts';
import type { Scope } from './schema-parts.ts';

export const loadStatuses = [
  ...(['NotLoaded', 'LoadSuccess', 'LoadError', 'UnloadSuccess', 'UnloadError', 'NotSelected'] as const),
  // Only upstream reports this, when the list of programs changes; Rampart allows such a change.
  'ProgramListChangedError',
] as const;
const linkStatuses = ['Attached', 'NotAttached', 'AttachError', 'DetachError'] as const;
const programLinkStatuses = ['Pending', 'Success', 'Error', 'UpdateAttachInfoError'] as const;

const linkFields = {
  shouldAttach: boolean('Whether the program should be attached.'),
  uuid: string('Identifies the link on its node.'),
  linkId: optional(integer('A number for the link, while it is attached.', { format: 'int32' })),
  linkStatus: oneOf(linkStatuses, { description: 'Whether the program is attached.' }),
};
const functionField = { function: string('The function of the kernel.') };
const offsetField = { offset: optional(integer('The offset from it.', { format: 'int64' })) };
const interfaceFields = {
  interfaceName: string('The interface.'),
  netnsPath: optional(string('Its network namespace; none: that of the node.')),
  priority: integer('The position among the programs of the hook.', { format: 'int32' }),
};
const directionField = { direction: oneOf(['Ingress', 'Egress'], { description: 'Of the packets.' }) };
const proceedOn = <Action extends string>(actions: readonly Action[]) => ({
  proceedOn: list(oneOf(actions), { description: 'The return codes after which the next program runs.' }),
});
const uprobeFields = {
  target: string('The executable or library.'),
  function: optional(string('Its function.')),
  ...offsetField,
  pid: optional(integer('Only this process.', { format: 'int32' })),
  containerPid: optional(integer('A process of the container.', { format: 'int32' })),
};

const placeFields: Readonly<Record<LinkType, Fields>> = {
  xdp: { ...interfaceFields, ...proceedOn(xdpActions) },
  tc: { ...interfaceFields, ...directionField, ...proceedOn(tcActions) },
  tcx: { ...interfaceFields, ...directionField },
  fentry: {},
  fexit: {},
  kprobe: { ...functionField, ...offsetField },
  kretprobe: functionField,
  uprobe: uprobeFields,
  uretprobe: uprobeFields,
  tracepoint: { name: string('The tracepoint.') },
};

const programFields = {
  name: string('The function in the object file.'),
  programId: optional(integer('The ID of the kernel, once it is loaded.', { format: 'int32' })),
  programLinkStatus: oneOf(programLinkStatuses, { description: 'Whether all its links are as they should.' }),
};

function programs(scope: Scope) {
  const all = membersIn(scope);
  const members = all.map(([field, { isTrace }]) => {
    const links = optional(
      list(object({ ...linkFields, ...placeFields[field] }), { description: 'Its links.' }),
    );
    return [field, optional(object(isTrace === true ? { ...functionField, links } : { links }))] as const;
  });
  return list(
    object(
      {
        ...programFields,
        type: oneOf(
          all.map(([, { name }]) => name),
          { description: 'Its type.' },
        ),
        ...Object.fromEntries(members),
      },
      { rules: all.map(memberRule) },
    ),
    { description: 'The programs of the application.' },
  );
}

export function stateFields(scope: Scope) {
  return {
    node: string('The node.'),
    appLoadStatus: oneOf(loadStatuses, { description: 'Whether all programs are loaded.' }),
    updateCount: integer('Counts the changes of this status.', { format: 'int64' }),
    programs: optional(programs(scope)),
    failures: optional(
      list(string(), {
        description:
          'A code for each failure that the condition describes: an agent reports none of them twice.',
      }),
    ),
    conditions: optional(conditionList()),
  };
}

type StateFields = ReadFields<ReturnType<typeof stateFields>>;
type LinkState = ReadFields<typeof linkFields>;
export type LoadStatus = StateFields['appLoadStatus'];
export type LinkStatus = LinkState['linkStatus'];

/** A link, with the fields of its type that describe its place. */
export type StateLink = LinkState & Readonly<Record<string, unknown>>;
export type StateProgram = ReadFields<typeof programFields> & {
  readonly type: string;
} & { readonly [Field in LinkType]?: { readonly function?: string; readonly links: readonly StateLink[] } };
export type ApplicationStatus = Omit<StateFields, 'programs'> & {
  readonly programs?: readonly StateProgram[];
};
