/** The one condition of a user's object, derived from those of its per-node objects. */
import { hasFinalizer } from '../../../lib/kube/controller/finalizers.ts';
import type { NodeObject, ParentKind } from '../api.ts';
import { unreached } from '../kernel/desired.ts';
import { labels, nodeFinalizer } from './names.ts';
import { countsOf } from './state-counts.ts';

export interface ParentFacts {
  readonly kind: Pick<ParentKind, 'api' | 'controller'>;
  readonly deleting: boolean;
  readonly generation: number;
}

/** Types of the condition, as in v0.5.5. */
type Verdict = 'DeleteError' | 'NotYetLoaded' | 'ReconcileError' | 'ReconcileSuccess';

export interface ParentCondition {
  readonly type: Verdict | 'Error' | 'Pending' | 'Success';
  readonly reason: string;
  readonly message: string;
}

/** At most this many nodes or programs are named; the others are counted. */
const MAX_NAMED = 5;

/** Types of per-node conditions that mean a failure, in both APIs. */
const failures = new Set([
  ...['NotLoaded', 'NotUnLoaded', 'MapOwnerNotFound', 'MapOwnerNotLoaded', 'BytecodeSelectorError'],
  ...['Error', 'UnloadError', 'ProgramListChangedError'],
]);
const waits = new Set(['None', 'Pending']);

/**
 * @param generation - The parent's generation: reports about an older one do not count.
 * @param nodeLabels - For each node, the value of the label `kubernetes.io/hostname` on its per-node objects.
 */
export function parentCondition(
  { kind, deleting, generation }: ParentFacts,
  objects: readonly NodeObject[],
  nodeLabels: readonly string[],
): ParentCondition {
  const make = (type: Verdict, message: string): ParentCondition => made(kind, type, message);
  if (deleting) {
    const held = objects.filter((object) => hasFinalizer(object, nodeFinalizer(kind.controller)));
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
  const waiting = states.filter(({ type }) => waits.has(type));
  if (waiting.length > 0) {
    const [first] = waiting;
    const why = first === undefined || first.message === '' ? '' : `: ${first.message}`;
    return make('NotYetLoaded', `Not loaded yet on ${nodes(waiting)}${why}`);
  }
  if (kind.api === 'v0.6') return make('ReconcileSuccess', applied(objects) + unreachedText(states));
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
  return make('ReconcileSuccess', text + without + unreachedText(loaded));
}

/** The notes about running programs that no packet reaches: `; no packet reaches it on eth0 ingress: ...`. */
export function unreachedIn(message: string): readonly string[] {
  return Array.from(message.matchAll(unreachedNote), ([note]) => note);
}

const unreachedNote = new RegExp(`${unreached}[^;\\n]*`, 'g');

/** Each message once, with the nodes that report it. */
function unreachedText(states: readonly { readonly node: string; readonly message: string }[]): string {
  const all = states.flatMap(({ node, message }) => unreachedIn(message).map((note) => ({ node, note })));
  const notes = [...Map.groupBy(all, ({ note }) => note)];
  const texts = notes.slice(0, MAX_NAMED).map(([note, where]) => {
    return `${note[0]?.toUpperCase()}${note.slice(1)} (${named(where.map(({ node }) => node))}).`;
  });
  const more = notes.length - texts.length;
  return [...texts, ...(more > 0 ? [`And ${more} more.`] : [])].map((text) => ` ${text}`).join('');
}

/** The condition's message on success. In v0.6, a successful application may be attached to nothing, or run on no node. */
function applied(objects: readonly NodeObject[]): string {
  const counts = objects.map((object) => ({ node: nodeOf(object), ...countsOf(object) }));
  const selected = counts.filter(({ isSelected }) => isSelected);
  if (selected.length === 0) return 'It runs on no node: spec.nodeSelector selects none.';
  const links = selected.reduce((sum, { attached }) => sum + attached, 0);
  const programs = selected.reduce((sum, { loaded }) => sum + loaded, 0);
  const are = (count: number, what: string): string => `${count} ${what}${count === 1 ? ' is' : 's are'}`;
  const text = `${are(programs, 'program')} loaded and ${are(links, 'link')} attached`;
  return `${text} on ${named(selected.map(({ node }) => node))}.`;
}

/** Whether an agent still has to remove something. */
export function isHeld(
  { controller }: Pick<ParentKind, 'controller'>,
  objects: readonly NodeObject[],
): boolean {
  return objects.some((object) => hasFinalizer(object, nodeFinalizer(controller)));
}

const newTypes = {
  NotYetLoaded: 'Pending',
  ReconcileSuccess: 'Success',
  ReconcileError: 'Error',
  DeleteError: 'DeleteError',
} as const;

function made({ api }: Pick<ParentKind, 'api'>, verdict: Verdict, message: string): ParentCondition {
  if (api === 'v0.6') return { type: newTypes[verdict], reason: newTypes[verdict], message };
  return { type: verdict, reason: verdict === 'NotYetLoaded' ? 'ProgramsNotYetLoaded' : verdict, message };
}

/** The node of a per-node object: the value of its label. */
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
