/**
 * One pass over everything that is requested on this node, of every kind and scope: determines what is desired, lets the kernel run it, and
 * collects the outcomes.
 */
import { messageOf } from '../../../lib/errors/errors.ts';
import {
  type Labels,
  labelSelectorOf,
  labelsMatch,
  SelectorError,
} from '../../../lib/kube/selectors/selectors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import { mapOwnerOf } from '../engine/map-owner.ts';
import {
  conditionOf,
  type NodeCondition,
  nodeCondition,
  type NodeConditionType,
  type Verdict,
} from '../engine/node-condition.ts';
import { type Parent, sourceOf } from '../engine/parent.ts';
import type { Reported } from '../engine/reported.ts';
import type { NodeView } from '../engine/node-view.ts';
import { selectsContainers } from '../engine/places.ts';
import { type Wanted, wantedOf } from '../engine/wanted.ts';
import {
  type DesiredProgram,
  type Failure,
  type Outcome,
  type ProgramHost,
  programTypeOf,
  type RunningProgram,
} from '../kernel/desired.ts';
import type { BytecodeSource, BytecodeState } from './bytecode.ts';
import { RefusedPrograms } from './refused-programs.ts';

/** The inputs of a pass. */
export interface PassInput {
  /** All objects, including those being deleted. */
  readonly parents: readonly Parent[];
  readonly nodeLabels: Labels;
  readonly node: NodeView;
  /** Whether the containers of this machine are known; until then, programs that select containers have to wait. */
  readonly containersKnown: boolean;
}

export interface PassResult {
  readonly reported: readonly Reported[];
  /** Why objects that are no longer wanted must stay: the kernel could not be changed. Undefined if it could. */
  readonly kept: string | undefined;
  /** Whether a failure may resolve without a change of any object. */
  readonly retry: boolean;
  /** The number of programs that run, in the requested or a previous version. */
  readonly loaded: number;
  /** The number of programs that do not run in any version. */
  readonly failed: number;
  /** How many of those that run are in a previous version, because the requested one cannot run. */
  readonly outdated: number;
}

export interface ReconcilerOptions {
  /** Access to the programs in the kernel. Rejects if this node cannot run any. */
  readonly host: () => Promise<ProgramHost>;
  readonly bytecode: BytecodeSource;
  readonly logger: Logger;
}

/** A program that is passed to the kernel. */
interface Tried {
  readonly desired: DesiredProgram;
  readonly notes: readonly string[];
  /** Why it cannot be loaded: then the kernel only keeps a version that already runs. */
  readonly early?: NodeCondition;
  /** Whether the running version may be the requested one, although its source cannot be read now. */
  readonly mayBeCurrent?: boolean;
}

export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #refused = new RefusedPrograms(systemClock);

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /** @returns undefined if nothing was done, because containers are not known yet and their programs would be removed. */
  async pass(input: PassInput, signal: AbortSignal): Promise<PassResult | undefined> {
    const parents = input.parents.filter(({ deleting }) => !deleting);
    this.#options.bytecode.keepOnly(new Set(parents.map(({ key }) => key)));
    let host: ProgramHost;
    try {
      host = await this.#options.host();
    } catch (error) {
      return this.#withoutHost(parents, input, error);
    }
    const running = new Map((await host.list()).map((one) => [one.id, one]));
    const verdicts = new Map<string, Verdict>();
    const states = new Map<string, BytecodeState>();
    const wanted: Wanted[] = [];
    for (const parent of parents) {
      const isWaiting = !input.containersKnown && selectsContainers(parent);
      if (isWaiting && [...running.values()].some(({ owner }) => owner === parent.key)) return undefined;
      const of = wantedOf(parent, input.node);
      wanted.push(...of);
      const refusal = isWaiting
        ? nodeCondition('None', 'The container runtime of this node has not responded yet.')
        : selection(parent, input.nodeLabels);
      for (const one of of) {
        const condition = refusal ?? goalRefusal(one);
        if (condition !== undefined) verdicts.set(one.id, { condition });
      }
      if (refusal === undefined) states.set(parent.key, this.#options.bytecode.stateOf(parent));
    }
    if (await this.#options.bytecode.soon(signal)) {
      for (const parent of parents)
        if (states.get(parent.key)?.is === 'pending')
          states.set(parent.key, this.#options.bytecode.stateOf(parent));
    }
    const tried = new Map<string, Tried>();
    for (const one of wanted) {
      if (verdicts.has(one.id) || !('attach' in one.goal)) continue;
      tried.set(one.id, tryIt(one, states.get(one.parent.key), [...running.values()]));
    }
    resolveMapOwners(wanted, tried);
    const togetherWith = functionsByGroup([...tried.values()]);
    for (const [id, entry] of tried) {
      const blocked =
        entry.desired.blocked ?? this.#refused.failureOf(entry.desired, togetherWith(entry.desired));
      tried.set(id, { ...entry, desired: { ...entry.desired, blocked } });
    }
    const held = heldPrograms(wanted, verdicts, tried, [...running.values()]);
    const { outcomes, kept } = await this.#apply(host, tried, held, signal);
    if (kept === undefined) for (const [id, { verdict }] of held) verdicts.set(id, verdict);
    this.#refused.keepOnly(new Set(tried.keys()));
    for (const [id, entry] of tried) {
      const outcome = outcomes.get(id);
      if (entry.desired.blocked === undefined)
        this.#refused.note(entry.desired, outcome, togetherWith(entry.desired));
      verdicts.set(
        id,
        outcome === undefined
          ? { condition: nodeCondition('NotLoaded', kept ?? 'It was not passed to the kernel. Retrying.') }
          : verdictOf(entry, outcome),
      );
    }
    return result(wanted, verdicts, kept);
  }

  async #apply(
    host: ProgramHost,
    tried: ReadonlyMap<string, Tried>,
    held: ReadonlyMap<string, Held>,
    signal: AbortSignal,
  ): Promise<{ readonly outcomes: ReadonlyMap<string, Outcome>; readonly kept: string | undefined }> {
    try {
      const outcomes = await host.apply(
        [...tried.values()].map(({ desired }) => desired),
        signal,
        new Set([...held.values()].flatMap(({ ids }) => ids)),
      );
      return { outcomes, kept: undefined };
    } catch (error) {
      if (signal.aborted) throw error;
      this.#options.logger.error({ err: error }, 'cannot change the programs in the kernel, retrying');
      return { outcomes: new Map(), kept: `${messageOf(error)}. Retrying.` };
    }
  }

  /** The result if no program can run on this node: each object says why. */
  #withoutHost(parents: readonly Parent[], input: PassInput, error: unknown): PassResult {
    const message = messageOf(error);
    const verdicts = new Map<string, Verdict>();
    const wanted = parents.flatMap((parent) => wantedOf(parent, input.node));
    for (const one of wanted) {
      const early = selection(one.parent, input.nodeLabels) ?? nodeCondition('NotLoaded', message);
      verdicts.set(one.id, { condition: early });
    }
    // If nothing is wanted here, there is nothing to retry.
    return { ...result(wanted, verdicts, message), retry: wanted.length > 0 };
  }
}

/** For each program, the functions of its group, which are loaded all or not at all; '' without such a group. */
function functionsByGroup(tried: readonly Tried[]): (desired: DesiredProgram) => string {
  const all = tried.map(({ desired }) => desired).filter(({ allOrNothing }) => allOrNothing);
  const byGroup = Map.groupBy(all, ({ mapGroup }) => mapGroup);
  const texts = new Map(
    [...byGroup].map(([group, of]) => {
      const functions = of.map(({ functionName, attach }) => `${programTypeOf(attach)} ${functionName}`);
      return [group, [...new Set(functions)].toSorted().join()];
    }),
  );
  return ({ mapGroup }) => texts.get(mapGroup) ?? '';
}

/** Why a parent has no programs on this node: its selector does not select the node. Undefined also for an invalid selector. */
function selection({ nodeSelector, fields }: Parent, nodeLabels: Labels): NodeCondition | undefined {
  if (selectorProblem(nodeSelector) !== undefined || labelsMatch(labelSelectorOf(nodeSelector), nodeLabels))
    return undefined;
  return nodeCondition('NotSelected', `${fields.nodeSelector} does not select this node.`);
}

function selectorProblem(selector: Parent['nodeSelector']): string | undefined {
  try {
    labelSelectorOf(selector);
    return undefined;
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return error.message;
  }
}

interface Held {
  readonly ids: readonly string[];
  readonly verdict: Verdict;
}

/** Running programs whose place is currently unknown, keyed by the id of the object that reports them. */
function heldPrograms(
  wanted: readonly Wanted[],
  verdicts: ReadonlyMap<string, Verdict>,
  tried: ReadonlyMap<string, Tried>,
  running: readonly RunningProgram[],
): ReadonlyMap<string, Held> {
  const held = new Map<string, Held>();
  for (const { id, goal, parent, member } of wanted) {
    const verdict = verdicts.get(id);
    if (!('problem' in goal) || goal.keeps !== true || verdict === undefined) continue;
    if (!('condition' in verdict) || verdict.condition.type !== 'NotLoaded') continue;
    const { condition } = verdict;
    const programs = running.filter(
      (one) =>
        one.owner === parent.key && one.functionName === member.spec.bpffunctionname && !tried.has(one.id),
    );
    const [first] = programs;
    if (first === undefined) continue;
    const { programId, digest } = first;
    const failure: Failure = { state: 'failed', reason: 'target', message: condition.message, mayPass: true };
    held.set(id, {
      ids: programs.map((one) => one.id),
      verdict: { condition, kept: { state: 'kept', programId, digest, notes: [], failure } },
    });
  }
  return held;
}

/** Why there is no place to attach it. */
function goalRefusal({ goal }: Wanted): NodeCondition | undefined {
  if ('noContainers' in goal) return nodeCondition('NoContainersOnNode', goal.noContainers);
  if ('problem' in goal) return nodeCondition('NotLoaded', goal.problem);
  return undefined;
}

/** An error in the object itself. */
function parentProblem({ kind, nodeSelector, fields, globals }: Parent): string | undefined {
  const selector = selectorProblem(nodeSelector);
  if (selector !== undefined) return `${fields.nodeSelector} of this ${kind.kind}: ${selector}.`;
  return 'problem' in globals ? globals.problem : undefined;
}

function tryIt(
  { parent, member, goal, id, pod, container }: Wanted,
  state: BytecodeState | undefined,
  running: readonly RunningProgram[],
): Tried {
  if (!('attach' in goal)) throw new TypeError(`${id} is not to be tried`);
  const { bpffunctionname: functionName } = member.spec;
  const source = sourceOf(parent);
  const desired = (digest: string, bytecode?: () => Promise<Uint8Array>): DesiredProgram => ({
    ...{ id, digest, functionName, source },
    bytecode: bytecode ?? (() => Promise.reject(new TypeError(`${id} is blocked`))),
    owner: parent.key,
    name: parent.name,
    namespace: parent.namespace,
    globals: 'values' in parent.globals ? parent.globals.values : {},
    // The programs of an application come from one object file.
    mapGroup: parent.kind.single === undefined ? parent.key : undefined,
    allOrNothing: parent.kind.api === 'v0.6',
    mapOwner: undefined,
    blocked: undefined,
    attach: goal.attach,
    ...{ pod, container },
  });
  const problem = parentProblem(parent);
  if (problem !== undefined) return blockedBy(desired(''), nodeCondition('NotLoaded', problem));
  if (state?.is === 'ready') {
    const { digest, bytes, types, stale, untrusted } = state;
    if (untrusted !== undefined)
      return blockedBy(desired(digest), nodeCondition('BytecodeSelectorError', untrusted));
    if (types !== undefined && !Object.hasOwn(types, functionName)) {
      const has = Object.keys(types).toSorted().join(', ') || 'none';
      const message = `${member.fields.functionName}: according to its labels, the image has no program ${functionName}; it has ${has}.`;
      return blockedBy(desired(digest), nodeCondition('BytecodeSelectorError', message));
    }
    const notes = [
      ...(goal.note === undefined ? [] : [goal.note]),
      ...(stale === undefined ? [] : [`this may not be the latest version: ${stale}`]),
    ];
    return { desired: { ...desired(digest, bytes), labelledType: types?.[functionName] }, notes };
  }
  const message = state?.message ?? 'The bytecode has not been fetched yet.';
  const isFailed = state?.is === 'failed';
  // The source is empty for programs that an earlier version of Rampart loaded.
  const mine = running.filter((one) => one.owner === parent.key && ['', source].includes(one.source));
  const { digest } =
    mine.find((one) => one.id === id) ?? mine.find((one) => one.functionName === functionName) ?? {};
  const blocked = blockedBy(
    desired(digest ?? ''),
    nodeCondition(isFailed ? 'BytecodeSelectorError' : 'None', message),
  );
  // If a registry does not respond, the image may still exist; a file that cannot be read is missing.
  const isFile = parent.bytecode.path !== undefined;
  if (digest === undefined || (isFailed && isFile)) return blocked;
  const notes = isFailed ? [`it keeps running unchanged: ${message}`] : [];
  return { ...blocked, notes, mayBeCurrent: true };
}

function blockedBy(desired: DesiredProgram, early: NodeCondition): Tried {
  const reason = early.type === 'NotLoaded' ? 'load' : 'bytecode';
  const blocked: Failure = { state: 'failed', reason, message: early.message, mayPass: false };
  return { desired: { ...desired, blocked }, notes: [], early };
}

function verdictOf({ desired, notes, early, mayBeCurrent = false }: Tried, outcome: Outcome): Verdict {
  const { digest, blocked } = desired;
  const isCurrent = outcome.state === 'loaded' && mayBeCurrent;
  const isForbidden = outcome.state === 'failed' && outcome.reason === 'not-allowed';
  if (early === undefined || blocked === undefined || isCurrent || isForbidden)
    return { outcome, digest, notes };
  if (outcome.state === 'failed') return { condition: early };
  return {
    condition: early,
    kept: outcome.state === 'kept' ? outcome : { ...outcome, state: 'kept', digest, failure: blocked },
  };
}

/** Sets the map owners of programs. A program whose owner is missing is blocked: a version that runs keeps its maps. */
function resolveMapOwners(wanted: readonly Wanted[], tried: Map<string, Tried>): void {
  for (const one of wanted) {
    const entry = tried.get(one.id);
    if (entry === undefined) continue;
    const found = mapOwnerOf(one, wanted, (id) => tried.has(id));
    if ('condition' in found) {
      const isBlocked = entry.early !== undefined && entry.mayBeCurrent !== true;
      if (!isBlocked) tried.set(one.id, blockedBy(entry.desired, found.condition));
    } else if (found.owner !== undefined)
      tried.set(one.id, { ...entry, desired: { ...entry.desired, mapOwner: found.owner } });
  }
}

function result(
  wanted: readonly Wanted[],
  verdicts: ReadonlyMap<string, Verdict>,
  kept: string | undefined,
): PassResult {
  let [loaded, failed, outdated, retry] = [0, 0, 0, kept !== undefined];
  const reported = wanted.map((one): Reported => {
    const shared = 'sameAs' in one.goal && !verdicts.has(one.id) ? one.goal.sameAs : undefined;
    const of = verdicts.get(shared ?? one.id);
    const waiting = nodeCondition('None', '');
    if (of === undefined) {
      const nothing = { programId: undefined, isKept: false, isDisplaced: false, trouble: undefined };
      return { wanted: one, condition: waiting, ...nothing, lost: [] };
    }
    const once = 'attached once for the pod, because its containers share a network';
    const verdict: Verdict =
      shared === undefined || 'condition' in of ? of : { ...of, notes: [...(of.notes ?? []), once] };
    const condition = conditionOf(one, verdict);
    const outcome = 'outcome' in verdict ? verdict.outcome : verdict.kept;
    const failure = outcome?.state === 'kept' ? outcome.failure : outcome;
    if (outcome?.state === 'loaded' || outcome?.state === 'kept') loaded++;
    else if (condition.type !== 'NotSelected' && condition.type !== 'NoContainersOnNode') failed++;
    if (outcome?.state === 'kept') outdated++;
    if (failure?.state === 'failed' && failure.mayPass) retry = true;
    if ('problem' in one.goal || condition.type === 'None') retry = true;
    return {
      wanted: one,
      condition,
      programId: outcome === undefined || outcome.state === 'failed' ? undefined : outcome.programId,
      isKept: outcome?.state === 'kept',
      isDisplaced: outcome?.state === 'failed' && outcome.reason === 'displaced',
      lost: outcome?.state === 'loaded' && shared === undefined ? (outcome.lost ?? []) : [],
      trouble: noTrouble.has(condition.type) ? undefined : troubleOf(one, failure),
    };
  });
  return { reported, kept, retry, loaded, failed, outdated };
}

const attachReasons: ReadonlySet<Failure['reason']> = new Set(['attach', 'displaced', 'target']);
const noTrouble: ReadonlySet<NodeConditionType> = new Set([
  ...(['Loaded', 'None', 'NotSelected', 'NoContainersOnNode'] as const),
]);

function troubleOf({ goal }: Wanted, failure: Outcome | undefined): Reported['trouble'] {
  if (failure?.state === 'failed') return attachReasons.has(failure.reason) ? 'attach' : 'load';
  return 'problem' in goal ? 'place' : 'load';
}
