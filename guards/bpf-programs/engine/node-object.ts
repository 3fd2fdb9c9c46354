/** The desired per-node objects of this node: in v0.5.5 one for each program and place, in v0.6 one for each application. */
import { isDeepStrictEqual } from 'node:util';

import type { Condition } from '../../../lib/kube/object/conditions.ts';
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import { labelValue } from '../../../lib/kube/selectors/label-names.ts';
import { type NodeObject, nodeTypes, stateTypes } from '../api.ts';
import type { ApplicationStatus } from '../state-schema.ts';
import { withCondition } from './node-condition.ts';
import { annotations as names, labels, nodeFinalizer, nodeObjectName } from './names.ts';
import type { Parent } from './parent.ts';
import { failureCode, linkUuid, type State, type StateCondition, stateOf } from './state.ts';
import { linksIn } from './state-counts.ts';
import type { Reported } from './reported.ts';
import type { Wanted } from './wanted.ts';

export interface WantedObject {
  readonly type: ResourceType<NodeObject>;
  /** The object's key in the cache. */
  readonly key: string;
  readonly name: string;
  readonly parent: Parent;
  readonly labels: Readonly<Record<string, string>>;
  readonly annotations: Readonly<Record<string, string>>;
  readonly finalizer: string;
  /** Undefined for a State object. */
  readonly spec: NodeObject['spec'];
  /** The outcomes that it reports. */
  readonly reported: readonly Reported[];
  /** Computes the status to write; returns `before` itself if it is unchanged. */
  readonly statusAfter: (before: NodeObject['status']) => NodeObject['status'];
  /** The conditions in a status that are about the given outcome, which is one of `reported`. */
  readonly conditionIn: (
    before: NodeObject['status'],
    reported: Reported,
  ) => readonly Condition[] | undefined;
}

export function objectsOf(all: readonly Reported[], node: string): WantedObject[] {
  const applications = Map.groupBy(
    all.filter(({ wanted }) => wanted.parent.kind.api === 'v0.6'),
    ({ wanted }) => wanted.parent,
  );
  return [
    ...all.filter(({ wanted }) => wanted.parent.kind.api === 'v0.5').map(programObject),
    ...[...applications].map(([parent, reported]) => stateObject(parent, reported, node)),
  ];
}

function programObject(reported: Reported): WantedObject {
  const { wanted, programId, condition } = reported;
  const { parent, id, name, labels: own, annotations, finalizer, specType } = wanted;
  return {
    ...{ type: nodeTypes[parent.kind.scope], key: id, name, parent, labels: own, finalizer },
    annotations: {
      ...annotations,
      ...(programId !== undefined && { [names.programId]: String(programId) }),
    },
    spec: { type: specType },
    reported: [reported],
    statusAfter: (before) => withCondition(before, condition, parent.object.metadata.generation),
    conditionIn: (before) => before?.conditions,
  };
}

function stateObject(parent: Parent, reported: readonly Reported[], node: string): WantedObject {
  const { kind, namespace, uid } = parent;
  const name = stateName(parent, node);
  const state = stateOf(parent, reported, node);
  return {
    ...{ type: stateTypes[kind.scope], name, parent, reported },
    key: namespace === undefined ? name : `${namespace}/${name}`,
    labels: { [labels.ownedByProgram]: labelValue(parent.name), [labels.hostname]: labelValue(node) },
    annotations: {},
    finalizer: nodeFinalizer(kind.controller),
    spec: undefined,
    statusAfter: (before) => stateAfter(before, state, parent.object.metadata.generation),
    conditionIn: (before, one) => conditionInState(before, one, uid),
  };
}

function stateName({ kind, name, namespace, uid }: Parent, node: string): string {
  return nodeObjectName(name, [kind.kind, namespace ?? '', uid, node]);
}

/** The name of this node's object for a program. */
export function objectNameOf({ parent, name }: Wanted, node: string): string {
  return parent.kind.api === 'v0.6' ? stateName(parent, node) : name;
}

function stateAfter(
  before: NodeObject['status'],
  { condition, ...rest }: State,
  generation: number | undefined,
): NodeObject['status'] {
  const { updateCount = 0, ...was } = (before ?? {}) as Partial<ApplicationStatus>;
  const { conditions } = withCondition(before, { ...condition, reason: condition.type }, generation) ?? {};
  const now = { ...rest, conditions };
  return isDeepStrictEqual(now, was)
    ? before
    : ({ ...now, updateCount: updateCount + 1 } as NodeObject['status']);
}

/** The one condition of a State object, for all its links. */
function conditionInState(
  { conditions, failures = [], programs = [] }: Partial<ApplicationStatus> = {},
  reported: Reported,
  uid: string,
): readonly Condition[] | undefined {
  const [condition] = conditions ?? [];
  if (condition?.type !== 'Error') return undefined;
  const { type, message } = reported.condition;
  if (failures.includes(failureCode(reported))) return [{ ...condition, type, message }];
  const uuid = linkUuid(reported, uid);
  const links = programs.flatMap(linksIn);
  const isAttached = links.some((link) => link.uuid === uuid && link.linkStatus === 'Attached');
  return isAttached ? undefined : [{ ...condition, type: 'NotLoaded' }];
}

/** The status of an unwanted object whose programs could not be removed from the kernel. */
export function keptStatus(
  type: ResourceType,
  before: NodeObject['status'],
  message: string,
): NodeObject['status'] {
  if (type.kind === nodeTypes.Cluster.kind || type.kind === nodeTypes.Namespaced.kind)
    return withCondition(before, { type: 'NotUnLoaded', reason: 'bpfmanNotUnloaded', message }, undefined);
  const condition: StateCondition = { type: 'UnloadError', message };
  const was = (before ?? {}) as Partial<ApplicationStatus>;
  const { node = '', programs = [], failures = [] } = was;
  return stateAfter(before, { node, programs, failures, appLoadStatus: 'UnloadError', condition }, undefined);
}
