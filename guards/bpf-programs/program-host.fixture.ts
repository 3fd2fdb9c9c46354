/**
 * A simulated kernel with programs: for tests of code that requests them. The real host has tests of its own.
 */
import {
  type AttachType,
  type DesiredProgram,
  type Drift,
  type Failure,
  type Outcome,
  type ProgramHost,
  programTypeOf,
  type RunningProgram,
} from './kernel/desired.ts';

/** Outlives the hosts that are opened on it, as a kernel does. */
export class FixtureKernel {
  readonly programs = new Map<string, RunningProgram & { readonly desired: DesiredProgram }>();
  /** Interfaces that are there. */
  readonly interfaces = new Set(['lo', 'eth0', 'eth1']);
  /** Types that it refuses, with its words. */
  readonly refused = new Map<AttachType, string>();
  /** Interfaces that are taken by what is not ours. */
  readonly displaced = new Set<string>();
  /** Found by the next `verify`. */
  drift: Drift[] = [];
  /** Thrown by the next calls of `apply`. */
  failure: Error | undefined;
  applied = 0;
  /** Loads of bytecode, by id of the program. */
  readonly loads: string[] = [];
  readonly #asked = new Map<AttachType, number>();
  #nextId = 100;

  /** How often programs of a type were asked for. */
  asked(type: AttachType): number {
    return this.#asked.get(type) ?? 0;
  }

  open(): ProgramHost {
    return {
      apply: (desired, _signal, held) => this.#apply(desired, held),
      verify: async () => this.drift.splice(0),
      list: async () => [...this.programs.values()],
      remove: async () => {
        const lines = [...this.programs.keys()].map((id) => `program ${id}`);
        this.programs.clear();
        return lines;
      },
      [Symbol.asyncDispose]: async () => undefined,
    };
  }

  async #apply(
    desired: readonly DesiredProgram[],
    held: ReadonlySet<string> = new Set(),
  ): Promise<ReadonlyMap<string, Outcome>> {
    this.applied++;
    if (this.failure !== undefined) throw this.failure;
    const wanted = new Set(desired.map(({ id }) => id));
    for (const id of this.programs.keys()) if (!wanted.has(id) && !held.has(id)) this.programs.delete(id);
    const outcomes = new Map<string, Outcome>();
    for (const one of desired) outcomes.set(one.id, await this.#one(one));
    return outcomes;
  }

  async #one(desired: DesiredProgram): Promise<Outcome> {
    const { attach, id, digest, mapOwner } = desired;
    const type = programTypeOf(attach);
    const { blocked } = desired;
    if (blocked === undefined) this.#asked.set(type, this.asked(type) + 1);
    const fail = (reason: Failure['reason'], message: string, mayPass = false): Outcome => {
      const failure: Failure = { state: 'failed', reason, message, mayPass };
      const before = this.programs.get(id);
      if (before !== undefined && !['attach', 'displaced', 'not-allowed'].includes(reason))
        return { state: 'kept', programId: before.programId, digest: before.digest, notes: [], failure };
      this.programs.delete(id);
      return failure;
    };
    const refusal = blocked === undefined ? this.refused.get(type) : undefined;
    if (refusal !== undefined) return fail('load', refusal);
    if ('hook' in attach && !this.interfaces.has(attach.hook.interface)) {
      return fail('attach', `There is no interface ${attach.hook.interface}.`, true);
    }
    if ('hook' in attach && this.displaced.has(attach.hook.interface)) {
      return fail('displaced', `Another program has ${attach.hook.interface}.`, true);
    }
    if (mapOwner !== undefined && !this.programs.has(mapOwner)) {
      return fail('map-owner-not-loaded', `${mapOwner} is not loaded.`, true);
    }
    const known = this.programs.get(id);
    if (known?.digest === digest && same(known.desired, desired)) {
      return { state: 'loaded', programId: known.programId, notes: [] };
    }
    if (blocked !== undefined) return fail(blocked.reason, blocked.message, blocked.mayPass);
    try {
      await desired.bytecode();
    } catch (error) {
      return fail('bytecode', String(error), true);
    }
    this.loads.push(id);
    const programId = this.#nextId++;
    this.programs.set(id, {
      ...{ id, digest, programId, desired, mapIds: [] },
      owner: desired.owner,
      source: desired.source,
      type,
      functionName: desired.functionName,
      attachPoint: 'hook' in attach ? attach.hook.interface : type,
      ...{ pod: desired.pod, container: desired.container },
    });
    return { state: 'loaded', programId, notes: [] };
  }
}

function same(a: DesiredProgram, b: DesiredProgram): boolean {
  const text = ({ attach, globals, functionName, mapOwner }: DesiredProgram): string =>
    JSON.stringify([attach, globals, functionName, mapOwner], (_, value: unknown) =>
      typeof value === 'bigint' ? String(value) : value,
    );
  return text(a) === text(b);
}
