/**
 * The eBPF programs that this agent answers for.
 *
 * @module
 */
import { createHash } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';

import { isBpffs, openPin } from '../../../shared/ebpf/pin.ts';
import { findInterface } from '../../../shared/netlink/interface.ts';
import { RouteSocket } from '../../../shared/netlink/route.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { Logger } from '../../../shared/observe/log.ts';
import { attachPoint } from './attach-point.ts';
import { type ChainHook, tcHook, xdpHook } from './chain-hook.ts';
import { type ChainPlace, Chains, type WantedMember } from './chain.ts';
import type { DesiredProgram, InterfaceHook, Outcome, ProgramHost, RunningProgram } from './desired.ts';
import { failureOf, ProgramFailure } from './failure.ts';
import { loadAlone, type SharedMap } from './load-alone.ts';
import { NetworkPlace } from './network-place.ts';
import { openProgram, Pins } from './pins.ts';
import { type ChainRecord, keyOf, type ProgramRecord, Records } from './records.ts';
import { Refusals } from './refusals.ts';

export interface ProgramHostOptions {
  /** A bpffs of the host: `/sys/fs/bpf`. */
  readonly bpffs: string;
  /** Of the directory in it that is ours alone. Without dots. */
  readonly name: string;
  /** On tmpfs: for what the kernel does not keep. */
  readonly stateDirectory: string;
  readonly logger: Logger;
}

/**
 * Adopts what an earlier process left, and changes nothing.
 *
 * @throws {RampartError} `UNSUPPORTED` when `bpffs` is none: what is pinned elsewhere would be gone with this process.
 */
export async function openProgramHost(options: ProgramHostOptions): Promise<ProgramHost> {
  const { bpffs, name, stateDirectory } = options;
  if (!/^[\w-]+$/.test(name))
    throw new RampartError(errorCodes.INPUT, {
      what: `${JSON.stringify(name)} cannot name a directory of bpffs`,
      why: 'it may only have letters, digits, - and _',
    });
  if (!isBpffs(bpffs)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot keep eBPF programs in ${bpffs}`,
      why: 'it is not a bpffs',
      next: `Mount it on the host (mount -t bpf bpf ${bpffs}), and give it to the agent's pod as a hostPath with mountPropagation: HostToContainer`,
    });
  }
  mkdirSync(stateDirectory, { recursive: true, mode: 0o700 });
  return new KernelProgramHost(join(bpffs, name), new Records(stateDirectory), options.logger);
}

class KernelProgramHost implements ProgramHost {
  readonly #pins: Pins;
  readonly #records: Records;
  readonly #logger: Logger;
  readonly #chains: Chains;
  readonly #refusals = new Refusals();
  readonly #programs = new Map<string, ProgramRecord>();

  constructor(root: string, records: Records, logger: Logger) {
    this.#pins = new Pins(root);
    this.#records = records;
    this.#logger = logger;
    this.#chains = new Chains(this.#pins, records);
    for (const record of records.programs()) {
      using program = openProgram(join(this.#pins.program(record), 'program'), record.programId);
      if (program !== undefined) this.#programs.set(record.id, record);
    }
  }

  async apply(
    desired: readonly DesiredProgram[],
    signal?: AbortSignal,
  ): Promise<ReadonlyMap<string, Outcome>> {
    const outcomes = new Map<string, Outcome>();
    const fail = ({ id, owner, attach }: DesiredProgram, error: unknown, reason: 'attach' | 'load') => {
      const failure = this.#refusals.explain(failureOf(error, reason), attach.type);
      this.#logger.warn({ program: owner, id, reason: failure.reason }, failure.message);
      outcomes.set(id, failure.outcome);
    };
    const loaded: { readonly program: DesiredProgram; readonly record: ProgramRecord }[] = [];
    const byId = new Map(desired.map((program) => [program.id, program]));
    for (const program of ownersFirst(desired, byId)) {
      signal?.throwIfAborted();
      try {
        loaded.push({ program, record: await this.#ensureLoaded(program, byId, outcomes) });
      } catch (error) {
        fail(program, error, 'load');
      }
    }
    signal?.throwIfAborted();
    this.#settleChains(loaded, outcomes, fail);
    for (const { program, record } of loaded) {
      if (outcomes.has(program.id)) continue;
      fail(program, new ProgramFailure('attach', `${record.type} is not built yet`), 'attach');
    }
    this.#sweep(new Set(loaded.map(({ record }) => record)));
    return outcomes;
  }

  async #ensureLoaded(
    program: DesiredProgram,
    desired: ReadonlyMap<string, DesiredProgram>,
    outcomes: ReadonlyMap<string, Outcome>,
  ): Promise<ProgramRecord> {
    const before = this.#programs.get(program.id);
    const owner = this.#mapOwner(program, desired, outcomes);
    const loadKey = loadKeyOf(program);
    const current = await this.#stillThere(before, loadKey, owner);
    if (current !== undefined) {
      const renamed = {
        ...current,
        owner: program.owner,
        name: program.name,
        attachPoint: attachPoint(program.attach),
      };
      if (JSON.stringify(renamed) === JSON.stringify(current)) return current;
      this.#remember(renamed);
      return renamed;
    }
    let bytes: Uint8Array;
    try {
      bytes = await program.bytecode();
    } catch (error) {
      throw failureOf(error, 'bytecode', true);
    }
    const { attach } = program;
    const generation = 1 + Math.max(0, before?.generation ?? 0, ...this.#generations(program.id));
    const place = { id: program.id, generation };
    const shared = this.#sharedMaps(owner);
    try {
      const alone = loadAlone(
        {
          shown: program.owner,
          bytes,
          functionName: program.functionName,
          type: attach.type,
          kernelFunction:
            attach.type === 'fentry' || attach.type === 'fexit' ? attach.functionName : undefined,
          globals: program.globals,
        },
        shared,
        this.#pins.program(place),
      );
      const record: ProgramRecord = {
        version: 1,
        ...place,
        owner: program.owner,
        name: program.name,
        namespace: program.namespace,
        digest: program.digest,
        functionName: program.functionName,
        type: attach.type,
        loadKey,
        attachKey: '',
        attachPoint: attachPoint(attach),
        programId: alone.programId,
        gpl: alone.gpl,
        hasFrags: alone.hasFrags,
        sharedWith: owner && { id: owner.id, programId: owner.programId },
        maps: alone.maps,
        notes: [],
      };
      this.#remember(record, alone.instructions);
      return record;
    } catch (error) {
      this.#pins.removeProgram({ key: keyOf(program.id), generation: String(generation) });
      throw error;
    } finally {
      for (const { map } of shared) map[Symbol.dispose]();
    }
  }

  #remember(record: ProgramRecord, instructions?: Parameters<Records['putProgram']>[1]): void {
    this.#records.putProgram(record, instructions);
    this.#programs.set(record.id, record);
  }

  /** What is in the kernel, where it is what is wanted. */
  async #stillThere(
    record: ProgramRecord | undefined,
    loadKey: string,
    owner: ProgramRecord | undefined,
  ): Promise<ProgramRecord | undefined> {
    if (record?.loadKey !== loadKey || record.sharedWith?.programId !== owner?.programId) return undefined;
    using program = openProgram(join(this.#pins.program(record), 'program'), record.programId);
    if (program === undefined) return undefined;
    for (const { pin } of record.maps) {
      using map = openPin(join(this.#pins.program(record), 'maps', pin));
      if (map === undefined) return undefined;
    }
    return record;
  }

  #generations(id: string): readonly number[] {
    const key = keyOf(id);
    return this.#pins
      .programs()
      .filter((one) => one.key === key)
      .map(({ generation }) => Number(generation) || 0);
  }

  /** The program whose maps it shares. @throws {ProgramFailure} `map-owner-not-found`, `map-owner-not-loaded` */
  #mapOwner(
    program: DesiredProgram,
    desired: ReadonlyMap<string, DesiredProgram>,
    outcomes: ReadonlyMap<string, Outcome>,
  ): ProgramRecord | undefined {
    if (program.mapOwner === undefined) return undefined;
    const owner = desired.get(program.mapOwner);
    // A tenant is not told of another one's programs.
    if (owner === undefined || owner.namespace !== program.namespace) {
      const where = program.namespace === undefined ? 'cluster-scoped' : `in namespace ${program.namespace}`;
      throw new ProgramFailure(
        'map-owner-not-found',
        `There is no program ${program.mapOwner} whose maps it could share; it has to be on this node, and ${where}.`,
        true,
      );
    }
    const record = this.#programs.get(owner.id);
    const outcome = outcomes.get(owner.id);
    if (outcome?.state !== 'failed' && record?.loadKey === loadKeyOf(owner)) return record;
    const why =
      outcome?.state === 'failed' ? `: ${outcome.message}` : ': it waits for the maps of this one itself.';
    throw new ProgramFailure(
      'map-owner-not-loaded',
      `${owner.owner}, whose maps it shares, is not loaded${why}`,
      true,
    );
  }

  #sharedMaps(owner: ProgramRecord | undefined): readonly SharedMap[] {
    if (owner === undefined) return [];
    return owner.maps.flatMap(({ name, internal, pin }) => {
      if (internal) return [];
      const map = openPin(join(this.#pins.program(owner), 'maps', pin));
      return map === undefined ? [] : [{ name, owner: owner.owner, map }];
    });
  }

  #settleChains(
    loaded: readonly { readonly program: DesiredProgram; readonly record: ProgramRecord }[],
    outcomes: Map<string, Outcome>,
    fail: (program: DesiredProgram, error: unknown, reason: 'attach') => void,
  ): void {
    const hooks = new Map<
      string,
      { place: ChainPlace; network: NetworkPlace; members: Map<DesiredProgram, WantedMember> }
    >();
    try {
      for (const { program, record } of loaded) {
        const { attach } = program;
        if (attach.type !== 'xdp' && attach.type !== 'tc') continue;
        try {
          const network = NetworkPlace.of(attach.hook.container);
          const place = this.#chainPlace(network, attach);
          const known = hooks.get(place.key);
          if (known !== undefined) network[Symbol.dispose]();
          const hook = known ?? { place, network, members: new Map<DesiredProgram, WantedMember>() };
          hooks.set(place.key, hook);
          hook.members.set(program, { record, ...attach.order });
        } catch (error) {
          fail(program, error, 'attach');
        }
      }
      for (const record of this.#chains.known.values()) if (!hooks.has(record.key)) this.#removeChain(record);
      for (const { place, network, members } of hooks.values()) {
        try {
          const { failures, notes } = network.visit(() => this.#chains.settle(place, [...members.values()]));
          for (const [program, { record }] of members) {
            const failure = failures.get(program.id);
            if (failure !== undefined) fail(program, failure, 'attach');
            else outcomes.set(program.id, { state: 'loaded', programId: record.programId, notes });
          }
        } catch (error) {
          for (const program of members.keys()) fail(program, error, 'attach');
        }
      }
    } finally {
      for (const { network } of hooks.values()) network[Symbol.dispose]();
    }
  }

  #chainPlace(
    network: NetworkPlace,
    attach: Extract<DesiredProgram['attach'], { type: 'tc' | 'xdp' }>,
  ): ChainPlace {
    const { interface: name } = attach.hook;
    const index = interfaceIndex(network, attach.hook);
    const direction = attach.type === 'tc' ? attach.direction : undefined;
    const key = keyOf([attach.type, name, direction ?? '', network.inode].join(' ').trim());
    return {
      key,
      kind: attach.type,
      hook: this.#hook(key, attach.type, name, index, direction),
      where: {
        interface: name,
        interfaceIndex: index,
        direction,
        namespaceInode: String(network.inode),
        inContainer: network.inContainer,
      },
    };
  }

  #hook(
    key: string,
    kind: ChainRecord['kind'],
    name: string,
    index: number,
    direction: ChainRecord['direction'],
  ): ChainHook {
    return kind === 'tc' && direction !== undefined
      ? tcHook(name, index, direction)
      : xdpHook(name, index, this.#pins.chain(key));
  }

  /** Also where its interface or its network namespace is gone. */
  #removeChain(record: ChainRecord): void {
    using network = NetworkPlace.find(BigInt(record.namespaceInode));
    const hook = this.#hook(
      record.key,
      record.kind,
      record.interface,
      record.interfaceIndex,
      record.direction,
    );
    if (network === undefined) this.#chains.remove(record.key, undefined);
    else network.visit(() => this.#chains.remove(record.key, hook));
  }

  /** What nobody asks for any more, or left by a process that was interrupted. */
  #sweep(wanted: ReadonlySet<ProgramRecord>): void {
    for (const record of this.#programs.values()) if (!wanted.has(record)) this.#programs.delete(record.id);
    const kept = new Set<string>();
    for (const record of this.#programs.values()) kept.add(`${keyOf(record.id)}/${record.generation}`);
    for (const one of this.#pins.programs())
      if (!kept.has(`${one.key}/${one.generation}`)) this.#pins.removeProgram(one);
    for (const key of this.#pins.chains()) if (!this.#chains.known.has(key)) this.#pins.removeChain(key);
    this.#records.keepPrograms(this.#programs);
  }

  async verify(): Promise<readonly string[]> {
    return [];
  }

  async list(): Promise<readonly RunningProgram[]> {
    return [...this.#programs.values()].map((record) => ({
      id: record.id,
      owner: record.owner,
      programId: record.programId,
      type: record.type,
      functionName: record.functionName,
      digest: record.digest,
      attachPoint: record.attachPoint,
      mapIds: record.maps.map(({ id }) => id),
    }));
  }

  async remove(): Promise<readonly string[]> {
    const lines = [
      ...[...this.#chains.known.values()].map(
        ({ kind, interface: name, direction }) =>
          `chain ${kind} ${name}${direction === undefined ? '' : ` ${direction}`}`,
      ),
      ...[...this.#programs.values()].map(({ owner, programId }) => `program ${programId} of ${owner}`),
    ];
    await this.apply([]);
    this.#pins.removeEmpty();
    return lines;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#programs.clear();
  }
}

function interfaceIndex(network: NetworkPlace, { interface: name }: InterfaceHook): number {
  const found = network.visit(() => {
    using socket = new RouteSocket();
    return findInterface(socket, name);
  });
  if (found !== undefined) return found.index;
  const where = network.inContainer ? 'in the container' : 'on this node';
  throw new ProgramFailure(
    'target',
    `There is no interface ${name} ${where}. It is attached when there is one.`,
    true,
  );
}

/** All that a program in the kernel was made of. Another order or place of attachment needs no other program. */
function loadKeyOf({ attach, digest, functionName, globals, mapOwner }: DesiredProgram): string {
  const kernelFunction = attach.type === 'fentry' || attach.type === 'fexit' ? attach.functionName : '';
  const values = Object.keys(globals)
    .toSorted()
    .map((name) => [name, Buffer.from(globals[name] ?? []).toString('hex')]);
  const parts = [attach.type, kernelFunction, digest, functionName, values, mapOwner];
  return createHash('sha256').update(JSON.stringify(parts)).digest('hex');
}

/** Each behind the one whose maps it shares; a circle ends somewhere. */
function ownersFirst(
  desired: readonly DesiredProgram[],
  byId: ReadonlyMap<string, DesiredProgram>,
): readonly DesiredProgram[] {
  const sorted = new Set<DesiredProgram>();
  const visiting = new Set<DesiredProgram>();
  const visit = (program: DesiredProgram): void => {
    if (visiting.has(program)) return;
    visiting.add(program);
    const owner = program.mapOwner === undefined ? undefined : byId.get(program.mapOwner);
    if (owner !== undefined) visit(owner);
    sorted.add(program);
  };
  for (const program of desired) visit(program);
  return [...sorted];
}
