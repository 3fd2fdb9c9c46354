/** The one condition of a user's object, derived from those of its per-node objects. */
import { hasFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { NodeObject } from '../api.ts';
import { labels, nodeFinalizer } from './names.ts';

export interface ParentFacts {
  readonly kind: string;
  readonly deleting: boolean;
  readonly generation: number;
}

export interface ParentCondition {
  readonly type: 'DeleteError' | 'NotYetLoaded' | 'ReconcileError' | 'ReconcileSuccess';
  readonly reason: string;
  readonly message: string;
}

/** At most this many nodes or programs are named; the others are counted. */
const MAX_NAMED = 5;

const failures = new Set([
  ...['NotLoaded', 'NotUnLoaded', 'MapOwnerNotFound', 'MapOwnerNotLoaded', 'BytecodeSelectorError'],
]);

/**
 * @param generation - Of the parent: what a node reported for an older one does not count.
 * @param nodeLabels - Of all nodes: the value that label `kubernetes.io/hostname` of their objects has.
 */
export function parentCondition(
  { kind, deleting, generation }: ParentFacts,
  objects: readonly NodeObject[],
  nodeLabels: readonly string[],
): ParentCondition {
  if (deleting) {
    const held = objects.filter((object) => hasFinalizer(object, nodeFinalizer(kind)));
    return make('DeleteError', `The agents have not removed it from ${named(held.map(nodeOf))} yet.`);
  }
  const states = objects.map((object) => ({ object, node: nodeOf(object), ...stateOf(object, generation) }));
  const nodes = (of: typeof states): string => named(of.map(({ node }) => node));
  const failed = states.filter(({ type }) => failures.has(type));
  if (failed.length > 0) {
    const texts = failed
      .slice(0, MAX_NAMED)
      .map(({ object, node, type, message }) => `${node}: ${object.metadata.name}: ${type}: ${message}`);
    const more = failed.length - texts.length;
    return make('ReconcileError', [...texts, ...(more > 0 ? [`and ${more} more`] : [])].join('\n'));
  }
  const seen = new Set(states.map(({ node }) => node));
  const missing = nodeLabels.filter((name) => !seen.has(name));
  if (missing.length > 0) {
    return make('NotYetLoaded', `No agent with this guard has reported from ${named(missing)} yet.`);
  }
  const waiting = states.filter(({ type }) => type === 'None');
  if (waiting.length > 0) {
    const [first] = waiting;
    const why = first === undefined || first.message === '' ? '' : `: ${first.message}`;
    return make('NotYetLoaded', `Not loaded yet on ${nodes(waiting)}${why}`);
  }
  const loaded = states.filter(({ type }) => type === 'Loaded');
  const empty = states.filter(({ type }) => type === 'NoContainersOnNode');
  if (loaded.length === 0) {
    const [first] = empty;
    if (first !== undefined) return make('NotYetLoaded', `Nothing to attach to: ${first.message}`);
    return make('NotYetLoaded', 'spec.nodeselector selects no node.');
  }
  const run = loaded.length === 1 ? 'program runs' : 'programs run';
  const text = `${loaded.length} ${run} on ${nodes(loaded)}.`;
  const without = empty.length === 0 ? '' : ` No container is selected on ${nodes(empty)}.`;
  return make('ReconcileSuccess', text + without);
}

/** Whether an agent still has to remove something. */
export function isHeld(kind: string, objects: readonly NodeObject[]): boolean {
  return objects.some((object) => hasFinalizer(object, nodeFinalizer(kind)));
}

function make(type: ParentCondition['type'], message: string): ParentCondition {
  return { type, reason: type === 'NotYetLoaded' ? 'ProgramsNotYetLoaded' : type, message };
}

/** The value of its label. */
export function nodeOf({ metadata }: NodeObject): string {
  return metadata.labels?.[labels.hostname] ?? '';
}

function stateOf(
  { status }: NodeObject,
  generation: number,
): { readonly type: string; readonly message: string } {
  const [found] = status?.conditions ?? [];
  if (found === undefined) return { type: 'None', message: '' };
  if ((found.observedGeneration ?? Infinity) < generation) {
    return { type: 'None', message: 'the agent has not seen the latest change' };
  }
  return found;
}

function named(all: readonly string[]): string {
  const names = [...new Set(all)].sort();
  const shown = names.slice(0, MAX_NAMED).join(', ');
  const more = names.length - MAX_NAMED;
  return more > 0 ? `${shown} and ${more} more` : shown;
}
