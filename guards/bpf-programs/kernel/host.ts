/** The eBPF programs that this agent manages. */
import { statSync } from 'node:fs';
import { join } from 'node:path';

import { isBpffs } from './pins/pin.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { settleChains } from './chain/chain-hooks.ts';
import { Chains } from './chain/chain.ts';
import type { DesiredProgram, Drift, Outcome, ProgramHost, RunningProgram } from './desired.ts';
import { oncePerPod } from './once-per-pod.ts';
import { failureOf, type ProgramFailure } from './failure.ts';
import { Pins } from './pins/pins.ts';
import { settleProbes } from './probe/probes.ts';
import { type LoadedProgram, ownersFirst, Programs } from './load/programs.ts';
import { type ProgramRecord, Records, runningProgram } from './records.ts';
import { Refusals } from './refusals.ts';
import { settleTcx } from './chain/tcx-hooks.ts';
import type { MapRoom } from './tenant/map-room.ts';
import { defaultTenantRules, type TenantRules } from './tenant/rules.ts';
import { missingChains, missingPrograms } from './chain/verify.ts';
import { Verdicts } from './verdicts.ts';

export interface ProgramHostOptions {
  /** A bpffs of the host: `/sys/fs/bpf`. */
  readonly bpffs: string;
  /** The name of the directory in it that is ours alone; without dots. */
  readonly name: string;
  /** On tmpfs: for state that the kernel does not keep. */
  readonly stateDirectory: string;
  readonly logger: Logger;
  /** Where the root of the node is: targets of uprobes are below. */
  readonly hostRoot: string;
  /** For programs of namespaced kinds. */
  readonly tenants?: TenantRules | undefined;
}

/**
 * Adopts what an earlier process left, and changes nothing.
 *
 * @throws {RampartError} `UNSUPPORTED` if `bpffs` is not one: what is pinned elsewhere would disappear with this process.
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
 * A registry that does not respond is no reason to remove what runs. A rule for namespaced programs is one; and so is that nobody but this
 * program has the maps that it shares, which nobody would count then.
 */
function mayGoOn(
  { namespace, sharedWith }: ProgramRecord,
  { mayPass, reason }: ProgramFailure,
  loaded: readonly LoadedProgram[],
): boolean {
  if (!mayPass || reason === 'not-allowed') return false;
  const isShared = namespace !== undefined && sharedWith !== undefined;
  return !isShared || loaded.some(({ record }) => record.programId === sharedWith.programId);
}

/** Whether process 1 has it mounted too; assumed if that cannot be seen. */
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
  readonly #hostRoot: string;

  constructor(root: string, records: Records, { logger, hostRoot, tenants }: ProgramHostOptions) {
    this.#pins = new Pins(root);
    this.#records = records;
    this.#logger = logger;
    this.#hostRoot = hostRoot;
    this.#chains = new Chains(this.#pins, records);
    this.#programs = new Programs(this.#pins, records, tenants ?? defaultTenantRules);
  }

  async apply(
    desired: readonly DesiredProgram[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const verdicts = new Verdicts(this.#refusals, this.#logger);
    const { once, others } = oncePerPod(desired, this.#programs, this.#chains.known);
    if (new Set(desired.map(({ id }) => id)).size < desired.length)
      throw new TypeError('program IDs must be unique on a node');
    const byId = new Map(once.map((program) => [program.id, program]));
    const loaded: LoadedProgram[] = [];
    const room = this.#programs.mapRoom(byId);
    for (const program of ownersFirst(once, byId)) {
      signal?.throwIfAborted();
      try {
        loaded.push(await this.#programs.ensureLoaded(program, byId, verdicts.outcomes, room));
      } catch (error) {
        const before = this.#programs.known.get(program.id);
        const goesOn =
          before?.type === program.attach.type &&
          mayGoOn(before, failureOf(error, 'load'), loaded) &&
          this.#keepsToRules(before, room);
        if (goesOn) loaded.push({ program, record: before, previous: undefined });
        verdicts.failed(program, error, 'load', { goesOn });
      }
    }
    // From here on, nothing is awaited.
    signal?.throwIfAborted();
    settleChains(this.#chains, this.#pins, loaded, verdicts);
    settleTcx(this.#programs, this.#pins, loaded, verdicts);
    settleProbes(this.#programs, this.#pins, this.#records, loaded, verdicts, this.#hostRoot);
    this.#programs.sweep(new Set(loaded.map(({ program }) => program.id)));
    for (const key of this.#pins.chains()) if (!this.#chains.known.has(key)) this.#pins.removeChain(key);
    for (const [id, first] of others) {
      const outcome = verdicts.outcomes.get(first);
      if (outcome !== undefined) verdicts.outcomes.set(id, outcome);
    }
    return verdicts.outcomes;
  }

  #keepsToRules(record: ProgramRecord, room: MapRoom): boolean {
    try {
      this.#programs.checkAgain(record, room);
      return true;
    } catch (error) {
      const { message } = failureOf(error, 'load');
      // Once: it is not known any more after this pass. The condition says why the new one failed.
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
    return [...drift, ...missingChains(this.#pins, this.#chains.known.values(), this.#programs.known)];
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

  /** Everything stays in the kernel. */
  async [Symbol.asyncDispose](): Promise<void> {}
}
