/** The eBPF programs that this agent manages. */
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';

import { isBpffs } from './pins/pin.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { settleChains } from './chain/chain-hooks.ts';
import { Chains } from './chain/chain.ts';
import {
  type AttachType,
  type DesiredProgram,
  type Drift,
  type Failure,
  type Outcome,
  type ProgramHost,
  programTypeOf,
  type RunningProgram,
} from './desired.ts';
import { oncePerPod } from './once-per-pod.ts';
import { failureOf, ProgramFailure } from './failure.ts';
import { Pins } from './pins/pins.ts';
import { settleProbes } from './probe/probes.ts';
import { Uprobes } from './probe/uprobes.ts';
import { loadUnits } from './load/load-key.ts';
import type { LoadedProgram } from './load/loaded-program.ts';
import { Programs } from './load/programs.ts';
import { type ProgramRecord, Records, runningProgram } from './records.ts';
import { Refusals } from './refusals.ts';
import { settleTcx } from './chain/tcx-hooks.ts';
import type { MapRoom } from './tenant/map-room.ts';
import { defaultTenantRules, type TenantRules } from './tenant/rules.ts';
import { Unreached } from './chain/unreached.ts';
import { missingChains, missingPrograms } from './chain/verify.ts';
import { Verdicts } from './verdicts.ts';

export interface ProgramHostOptions {
  /** The mount point of the host's bpffs: `/sys/fs/bpf`. */
  readonly bpffs: string;
  /** The name of a directory in the bpffs that only this host uses; without dots. */
  readonly name: string;
  /** A directory on tmpfs for state that the kernel does not keep. */
  readonly stateDirectory: string;
  readonly logger: Logger;
  /** The path of the node's root: targets of uprobes are resolved below it. */
  readonly hostRoot: string;
  /** The rules for programs of namespaced kinds. */
  readonly tenants?: TenantRules | undefined;
  /** Called when a uprobe's target may have become another file: `apply` moves the uprobe there. */
  readonly onTargetChange?: (() => void) | undefined;
}

/**
 * Adopts what an earlier process left, and changes nothing.
 *
 * @throws {RampartError} `UNSUPPORTED` if `bpffs` is not a bpffs of the host: pins elsewhere would disappear with this process.
 */
export async function openProgramHost(options: ProgramHostOptions): Promise<ProgramHost> {
  const { bpffs, name, stateDirectory } = options;
  if (!/^[\w-]+$/.test(name))
    throw new RampartError(errorCodes.INPUT, {
      what: `${JSON.stringify(name)} cannot name a directory of bpffs`,
      why: 'only letters, digits, - and _ are allowed',
    });
  if (!isBpffs(bpffs)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot keep eBPF programs in ${bpffs}`,
      why: 'it is not a bpffs',
      next: `Mount it on the host (mount -t bpf bpf ${bpffs}), and mount it into the agent's pod as a hostPath with mountPropagation: HostToContainer`,
    });
  }
  if (!isOfHost(bpffs)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot keep eBPF programs in ${bpffs}`,
      why: 'it is private to this container: pinned programs disappear with the container',
      next: `Mount the host's ${bpffs} into the agent's pod as a hostPath with mountPropagation: HostToContainer`,
    });
  }
  return new KernelProgramHost(join(bpffs, name), Records.open(stateDirectory), options);
}

/**
 * Whether an earlier version can stay attached instead of the requested one: both have the same type, or both are probes, each of which has
 * its own link.
 */
function mayGoOn({ type }: ProgramRecord, { attach }: DesiredProgram): boolean {
  const isProbe = (one: AttachType): boolean => one !== 'xdp' && one !== 'tc' && one !== 'tcx';
  const wanted = programTypeOf(attach);
  return type === wanted || (isProbe(type) && isProbe(wanted));
}

/** The failure of a program that violates the rules although an earlier version runs: says that the running version is removed. */
function removed(error: unknown): ProgramFailure {
  const { reason, message, mayPass } = failureOf(error, 'not-allowed');
  return new ProgramFailure(reason, `${message} The version that ran is removed.`, mayPass, error);
}

/** Drops `mapOwner` if the owner is in the same group: programs of a group have the same maps anyway. */
function withoutInnerOwner(program: DesiredProgram, owner: DesiredProgram | undefined): DesiredProgram {
  const isInner = program.mapGroup !== undefined && owner?.mapGroup === program.mapGroup;
  return isInner ? { ...program, mapOwner: undefined } : program;
}

/** Whether process 1 has this bpffs mounted too; assumed if that cannot be determined. */
function isOfHost(bpffs: string): boolean {
  const deviceOf = (path: string): bigint => statSync(path, { bigint: true }).dev;
  try {
    return deviceOf(bpffs) === deviceOf(join('/proc/1/root', bpffs));
  } catch (error) {
    return (error as NodeJS.ErrnoException).code !== 'ENOENT';
  }
}

class KernelProgramHost implements ProgramHost {
  readonly #pins: Pins;
  readonly #records: Records;
  readonly #logger: Logger;
  readonly #chains: Chains;
  readonly #programs: Programs;
  readonly #refusals = new Refusals();
  readonly #uprobes: Uprobes;
  readonly #unreached = new Unreached();

  constructor(root: string, records: Records, options: ProgramHostOptions) {
    const { logger, hostRoot, tenants, onTargetChange: onChange = () => undefined } = options;
    this.#pins = new Pins(root);
    this.#records = records;
    this.#logger = logger;
    this.#chains = new Chains(this.#pins, records);
    this.#programs = new Programs(this.#pins, records, tenants ?? defaultTenantRules);
    const parts = { programs: this.#programs, pins: this.#pins, records };
    this.#uprobes = new Uprobes({ ...parts, hostRoot, logger, onChange });
  }

  async apply(
    desired: readonly DesiredProgram[],
    signal?: AbortSignal,
    held: ReadonlySet<string> = new Set(),
  ): Promise<ReadonlyMap<string, Outcome>> {
    const verdicts = new Verdicts(this.#refusals, this.#logger);
    const all = new Map(desired.map((program) => [program.id, program]));
    if (all.size < desired.length) throw new TypeError('program IDs must be unique on a node');
    const { once, others } = oncePerPod(
      desired.map((program) => withoutInnerOwner(program, all.get(program.mapOwner ?? ''))),
      held,
      this.#programs,
      this.#chains.known,
    );
    const byId = new Map(once.map((program) => [program.id, program]));
    const loaded: LoadedProgram[] = [];
    const settled = new Map<string, Failure | ProgramRecord>();
    const staying = new Set([...byId.keys(), ...held]);
    const room = this.#programs.mapRoom(staying);
    const pass = { desired: byId, staying, settled, room };
    for (const unit of loadUnits(once, byId)) {
      signal?.throwIfAborted();
      for (const one of await this.#programs.ensureLoaded(unit, pass)) {
        if ('record' in one) {
          loaded.push(one);
          settled.set(one.program.id, one.record);
          continue;
        }
        const kept = this.#previous(one.program, one.error, room, verdicts);
        if (kept !== undefined) loaded.push(kept);
        settled.set(one.program.id, kept?.record ?? failureOf(one.error, 'load').outcome);
      }
    }
    await this.#uprobes.look(signal);
    // Synchronous from here on, so that a pass is never aborted halfway.
    signal?.throwIfAborted();
    const stay = [...this.#programs.known.values()].filter(
      (record) => held.has(record.id) && this.#keepsToRules(record, room),
    );
    settleChains(this.#chains, this.#pins, loaded, stay, verdicts);
    settleTcx(this.#programs, this.#pins, loaded, verdicts);
    settleProbes(this.#programs, this.#pins, this.#records, loaded, verdicts);
    this.#uprobes.settle(loaded, verdicts);
    const waiting = this.#take(loaded, verdicts);
    const wanted = [...loaded.map(({ program }) => program.id), ...stay.map(({ id }) => id)];
    this.#programs.sweep(new Set(wanted), waiting);
    for (const key of this.#pins.chains()) if (!this.#chains.known.has(key)) this.#pins.removeChain(key);
    this.#noteRefused(loaded, verdicts.outcomes);
    this.#noteUnreached(verdicts.outcomes);
    for (const [id, first] of others) {
      const outcome = verdicts.outcomes.get(first);
      if (outcome === undefined) continue;
      verdicts.outcomes.set(id, outcome.state === 'loaded' ? { ...outcome, lost: [] } : outcome);
    }
    return verdicts.outcomes;
  }

  /** Adds refused versions to the records, for `rampart bpf list`. */
  #noteRefused(loaded: readonly LoadedProgram[], outcomes: ReadonlyMap<string, Outcome>): void {
    for (const { program } of loaded) {
      const { id, source, digest, functionName } = program;
      const [record, outcome] = [this.#programs.known.get(id), outcomes.get(id)];
      if (record === undefined || outcome === undefined) continue;
      const refused =
        outcome.state === 'kept' ? { source, digest, functionName, why: outcome.failure.message } : undefined;
      if (!isDeepStrictEqual(refused, record.refused)) this.#programs.remember({ ...record, refused });
    }
  }

  /** Adds the notes about unreached programs to the outcomes, and to the records for `rampart bpf chain`. */
  #noteUnreached(outcomes: Map<string, Outcome>): void {
    for (const record of [...this.#programs.known.values()]) {
      const note = this.#unreached.noteOf(record.id);
      const notes = note === undefined ? [] : [note];
      if (JSON.stringify(notes) !== JSON.stringify(record.notes))
        this.#programs.remember({ ...record, notes });
      const outcome = outcomes.get(record.id);
      if (outcome !== undefined && outcome.state !== 'failed')
        outcomes.set(record.id, { ...outcome, notes: [...outcome.notes, ...notes] });
    }
  }

  /** The version that keeps running because the new one cannot be loaded; undefined without one, or if the rules forbid it. */
  #previous(
    program: DesiredProgram,
    error: unknown,
    room: MapRoom,
    verdicts: Verdicts,
  ): LoadedProgram | undefined {
    const before = this.#programs.known.get(program.id);
    const { reason } = failureOf(error, 'load');
    const goesOn =
      before !== undefined &&
      reason !== 'not-allowed' &&
      mayGoOn(before, program) &&
      this.#keepsToRules(before, room);
    if (!goesOn) {
      verdicts.failed(
        program,
        before !== undefined && reason === 'not-allowed' ? removed(error) : error,
        'load',
      );
      return undefined;
    }
    verdicts.keep(program, before, error, 'load');
    return { program, record: before, previous: undefined, lost: [] };
  }

  /** Lets new versions that are attached replace the previous ones. @returns the ids of new versions that are not attached yet. */
  #take(loaded: readonly LoadedProgram[], { outcomes }: Verdicts): ReadonlySet<string> {
    const waiting = new Set<string>();
    for (const { program, record, previous, lost } of loaded) {
      const outcome = outcomes.get(program.id);
      if (outcome?.state === 'loaded' && lost.length > 0) outcomes.set(program.id, { ...outcome, lost });
      if (previous === undefined) continue;
      if (outcome?.state !== 'loaded') waiting.add(program.id);
      else if (this.#programs.known.get(program.id)?.programId !== record.programId)
        this.#programs.remember(record);
    }
    return waiting;
  }

  #keepsToRules(record: ProgramRecord, room: MapRoom): boolean {
    try {
      this.#programs.checkAgain(record, room);
      return true;
    } catch (error) {
      const { message } = failureOf(error, 'load');
      // Logged once: after this pass the record is gone. The condition says why the new version failed.
      this.#logger.warn(
        { program: record.owner, id: record.id },
        `the previous version is removed: ${message}`,
      );
      return false;
    }
  }

  async verify(signal?: AbortSignal): Promise<readonly Drift[]> {
    const drift = missingPrograms(this.#pins, this.#programs.known.values(), this.#chains.known.values());
    signal?.throwIfAborted();
    this.#lookForUnreached();
    return [...drift, ...missingChains(this.#pins, this.#chains.known.values(), this.#programs.known)];
  }

  #lookForUnreached(): void {
    const chains = [...this.#chains.known.values()];
    try {
      this.#unreached.look({ pins: this.#pins, programs: this.#programs.known, chains });
    } catch (error) {
      // The counts are only information for users: programs run without them.
      if (!(error instanceof RampartError)) throw error;
      this.#logger.debug({ err: error }, 'cannot count runs of programs');
    }
  }

  async list(): Promise<readonly RunningProgram[]> {
    return [...this.#programs.known.values()].map(runningProgram).toSorted((a, b) => (a.id < b.id ? -1 : 1));
  }

  async remove(signal?: AbortSignal): Promise<readonly string[]> {
    const lines = [
      ...[...this.#chains.known.values()].map(
        ({ kind, interface: name, direction }) =>
          `chain ${kind} ${name}${direction === undefined ? '' : ` ${direction}`}`,
      ),
      ...[...this.#programs.known.values()].map(({ owner, programId }) => `program ${programId} of ${owner}`),
    ];
    await this.apply([], signal);
    this.#pins.removeEmpty();
    return lines;
  }

  /** Closes this process's resources; everything stays in the kernel. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#uprobes[Symbol.dispose]();
    this.#unreached[Symbol.dispose]();
  }
}
