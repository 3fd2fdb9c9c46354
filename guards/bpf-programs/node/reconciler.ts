/**
 * One pass over everything requested of this node, of every kind and scope: what is desired, what of it the kernel can run, and
 * the outcome.
 */
import { messageOf } from '../../../lib/errors/errors.ts';
import {
  type Labels,
  labelSelectorOf,
  labelsMatch,
  SelectorError,
} from '../../../lib/kube/selectors/selectors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { mapOwnerOf } from '../engine/map-owner.ts';
import { conditionOf, nodeCondition, type Verdict } from '../engine/node-condition.ts';
import type { Parent } from '../engine/parent.ts';
import { type NodeView, selectsContainers, type Wanted, wantedOf } from '../engine/wanted.ts';
import type { DesiredProgram, Outcome, ProgramHost, RunningProgram } from '../kernel/desired.ts';
import type { BytecodeSource, BytecodeState } from './bytecode.ts';
import type { Told } from './node-objects.ts';

/** What a pass needs to know. */
export interface PassInput {
  /** All, also those that are being deleted. */
  readonly parents: readonly Parent[];
  readonly nodeLabels: Labels;
  readonly node: NodeView;
  /** Whether the containers of this machine are known; until then, programs that select containers can only wait. */
  readonly containersKnown: boolean;
}

export interface PassResult {
  readonly told: readonly Told[];
  /** Why objects that are no longer wanted must stay: the kernel could not be changed. */
  readonly kept: string | undefined;
  /** Something may resolve without a change of any object. */
  readonly retry: boolean;
  /** Programs that the kernel runs. */
  readonly loaded: number;
  readonly failed: number;
}

export interface ReconcilerOptions {
  /** The kernel's programs, or why they are unavailable on this node. */
  readonly host: () => Promise<ProgramHost>;
  readonly bytecode: BytecodeSource;
  readonly logger: Logger;
}

/** One program that the kernel is asked to run. */
interface Tried {
  readonly desired: DesiredProgram;
  readonly digest: string;
  readonly notes: readonly string[];
}

export class Reconciler {
  readonly #options: ReconcilerOptions;
  readonly #refused = new RefusedPrograms(systemClock);

  constructor(options: ReconcilerOptions) {
    this.#options = options;
  }

  /** @returns undefined if nothing was done, because what runs in containers would be removed. */
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
        const early = refusal ?? refusalOf(one);
        if (early !== undefined) verdicts.set(one.id, { condition: early });
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
      const found = tryIt(one, states.get(one.parent.key), running.get(one.id));
      if ('condition' in found) verdicts.set(one.id, found);
      else tried.set(one.id, found);
    }
    resolveMapOwners(wanted, tried, verdicts, this.#refused);
    const asked = new Map(
      [...tried].filter(([, { desired }]) => this.#refused.failureOf(desired) === undefined),
    );
    const { outcomes, kept } = await this.#apply(host, asked, signal);
    this.#refused.keepOnly(new Set(tried.keys()));
    for (const [id, { desired, digest, notes }] of tried) {
      const outcome = outcomes.get(id) ?? this.#refused.failureOf(desired);
      if (asked.has(id)) this.#refused.note(desired, outcomes.get(id));
      verdicts.set(
        id,
        outcome === undefined
          ? { condition: nodeCondition('NotLoaded', kept ?? 'It was not passed to the kernel. Retrying.') }
          : { outcome, digest, notes },
      );
    }
    return result(wanted, verdicts, kept);
  }

  async #apply(
    host: ProgramHost,
    tried: ReadonlyMap<string, Tried>,
    signal: AbortSignal,
  ): Promise<{ readonly outcomes: ReadonlyMap<string, Outcome>; readonly kept: string | undefined }> {
    try {
      const outcomes = await host.apply(
        [...tried.values()].map(({ desired }) => desired),
        signal,
      );
      return { outcomes, kept: undefined };
    } catch (error) {
      if (signal.aborted) throw error;
      this.#options.logger.error({ err: error }, 'cannot change the programs in the kernel, retrying');
      return { outcomes: new Map(), kept: `${messageOf(error)}. Retrying.` };
    }
  }

  /** Nothing can be loaded on this node, and each object says why. */
  #withoutHost(parents: readonly Parent[], input: PassInput, error: unknown): PassResult {
    const message = messageOf(error);
    const verdicts = new Map<string, Verdict>();
    const wanted = parents.flatMap((parent) => wantedOf(parent, input.node));
    for (const one of wanted) {
      const early = selection(one.parent, input.nodeLabels) ?? nodeCondition('NotLoaded', message);
      verdicts.set(one.id, { condition: early });
    }
    // Objects that request nothing do not report what could not be done for them.
    return { ...result(wanted, verdicts, message), retry: wanted.length > 0 };
  }
}

/** Why nothing of a parent runs on this node: it does not select the node, or its selector is invalid. */
function selection(
  { object, kind }: Parent,
  nodeLabels: Labels,
): ReturnType<typeof nodeCondition> | undefined {
  try {
    if (labelsMatch(labelSelectorOf(object.spec.nodeselector), nodeLabels)) return undefined;
    return nodeCondition('NotSelected', 'spec.nodeselector does not select this node.');
  } catch (error) {
    if (!(error instanceof SelectorError)) throw error;
    return nodeCondition('NotLoaded', `spec.nodeselector of this ${kind.kind}: ${error.message}.`);
  }
}

function refusalOf({ goal, parent }: Wanted): ReturnType<typeof nodeCondition> | undefined {
  if ('noContainers' in goal) return nodeCondition('NoContainersOnNode', goal.noContainers);
  if ('problem' in goal) return nodeCondition('NotLoaded', goal.problem);
  if ('problem' in parent.globals) return nodeCondition('NotLoaded', parent.globals.problem);
  return undefined;
}

function tryIt(
  one: Wanted,
  state: BytecodeState | undefined,
  running: RunningProgram | undefined,
): Tried | Extract<Verdict, { readonly condition: unknown }> {
  const { parent, member, goal, id } = one;
  if (!('attach' in goal) || !('values' in parent.globals)) throw new TypeError(`${id} is not to be tried`);
  const { bpffunctionname: functionName } = member.spec;
  const desired = (digest: string, bytecode: () => Promise<Uint8Array>): DesiredProgram => ({
    ...{ id, digest, bytecode, functionName },
    owner: parent.key,
    name: parent.name,
    namespace: parent.namespace,
    globals: 'values' in parent.globals ? parent.globals.values : {},
    mapOwner: undefined,
    attach: goal.attach,
  });
  if (state?.is === 'ready') {
    const { digest, bytes, functions, stale } = state;
    if (functions !== undefined && !functions.includes(functionName)) {
      const has = functions.length === 0 ? 'none' : functions.toSorted().join(', ');
      const message = `${member.field}.bpffunctionname: according to its labels, the image has no program ${functionName}; it has ${has}.`;
      return { condition: nodeCondition('BytecodeSelectorError', message) };
    }
    const notes = stale === undefined ? [] : [`this may not be the latest version: ${stale}`];
    return { desired: desired(digest, bytes), digest, notes };
  }
  const message = state?.message ?? 'The bytecode has not been fetched yet.';
  if (running === undefined) {
    const type = state?.is === 'failed' ? 'BytecodeSelectorError' : 'None';
    return { condition: nodeCondition(type, message) };
  }
  // What runs keeps running, whether or not its registry responds: only a change needs the bytes.
  return {
    desired: desired(running.digest, () => Promise.reject(new Error(message))),
    digest: running.digest,
    notes: state?.is === 'failed' ? [`it keeps running unchanged: ${message}`] : [],
  };
}

/** Sets the owners, and drops those whose owner is unavailable, and in turn those that wait for them. */
function resolveMapOwners(
  wanted: readonly Wanted[],
  tried: Map<string, Tried>,
  verdicts: Map<string, Verdict>,
  refused: RefusedPrograms,
): void {
  const isTried = (id: string): boolean => {
    const owner = tried.get(id);
    return owner !== undefined && refused.failureOf(owner.desired) === undefined;
  };
  for (let changed = true; changed;) {
    changed = false;
    for (const one of wanted) {
      const entry = tried.get(one.id);
      if (entry === undefined) continue;
      const found = mapOwnerOf(one, wanted, isTried);
      if ('condition' in found) {
        tried.delete(one.id);
        verdicts.set(one.id, found);
        changed = true;
      } else if (found.owner !== entry.desired.mapOwner) {
        tried.set(one.id, { ...entry, desired: { ...entry.desired, mapOwner: found.owner } });
      }
    }
  }
}

function result(
  wanted: readonly Wanted[],
  verdicts: ReadonlyMap<string, Verdict>,
  kept: string | undefined,
): PassResult {
  let [loaded, failed, retry] = [0, 0, kept !== undefined];
  const told = wanted.map((one): Told => {
    const shared = 'sameAs' in one.goal && !verdicts.has(one.id) ? one.goal.sameAs : undefined;
    const of = verdicts.get(shared ?? one.id);
    const waiting = nodeCondition('None', '');
    if (of === undefined)
      return { wanted: one, condition: waiting, programId: undefined, isDisplaced: false };
    const once = 'attached once for the pod, because its containers share a network';
    const verdict: Verdict =
      shared === undefined || 'condition' in of ? of : { ...of, notes: [...(of.notes ?? []), once] };
    const condition = conditionOf(one, verdict);
    const outcome = 'outcome' in verdict ? verdict.outcome : undefined;
    if (outcome?.state === 'loaded') loaded++;
    else if (condition.type !== 'NotSelected' && condition.type !== 'NoContainersOnNode') failed++;
    if (outcome?.state === 'failed' && outcome.mayPass) retry = true;
    if ('problem' in one.goal || condition.type === 'None') retry = true;
    return {
      wanted: one,
      condition,
      programId: outcome?.state === 'loaded' ? outcome.programId : undefined,
      isDisplaced: outcome?.state === 'failed' && outcome.reason === 'displaced',
    };
  });
  return { told, kept, retry, loaded, failed };
}

/**
 * Programs that the kernel has refused. Verifying a large one takes a second of CPU: it is not tried again in each pass, which
 * may be caused by another program every second.
 */
type Failure = Extract<Outcome, { state: 'failed' }>;

/** The verifier's answer stays the same until somebody loads a module, and rules do; bytecode may be fixed in its registry. */
const AGAIN_MS = { load: 600_000, 'not-allowed': 600_000, bytecode: 30_000 } as const;

interface Refused {
  readonly key: string;
  readonly failure: Failure;
  readonly againAtMs: number;
}

export class RefusedPrograms {
  readonly #clock: Pick<Clock, 'monotonicMs'>;
  readonly #refused = new Map<string, Refused>();

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock;
  }

  /** What the kernel said about exactly this program, if it need not be tried again yet. */
  failureOf(desired: DesiredProgram): Failure | undefined {
    const known = this.#refused.get(desired.id);
    if (known?.key !== keyOf(desired) || known.againAtMs <= this.#clock.monotonicMs()) return undefined;
    return known.failure;
  }

  /** Records the outcome of a pass that reached the kernel. */
  note(desired: DesiredProgram, outcome: Outcome | undefined): void {
    const isRefused =
      outcome?.state === 'failed' &&
      (outcome.reason === 'load' || outcome.reason === 'not-allowed' || outcome.reason === 'bytecode');
    // For bytecode, `mayPass` means that it can be fetched later; otherwise, that something else is in the way for a moment.
    if (!isRefused || (outcome.reason !== 'bytecode' && outcome.mayPass)) {
      this.#refused.delete(desired.id);
      return;
    }
    const againAtMs = this.#clock.monotonicMs() + AGAIN_MS[outcome.reason];
    this.#refused.set(desired.id, { key: keyOf(desired), failure: outcome, againAtMs });
  }

  /** Forgets the programs that are not among these. */
  keepOnly(ids: ReadonlySet<string>): void {
    for (const id of this.#refused.keys()) if (!ids.has(id)) this.#refused.delete(id);
  }
}

/** Everything that the kernel's answer may depend on. */
function keyOf({ digest, functionName, globals, mapOwner, attach }: DesiredProgram): string {
  return JSON.stringify([digest, functionName, globals, mapOwner, attach], (_, value: unknown) =>
    typeof value === 'bigint' ? String(value) : value,
  );
}
