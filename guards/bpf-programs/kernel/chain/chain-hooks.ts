/** Settles all desired XDP and TC chains: their hooks, network namespaces and members. */
import { findInterface } from '../../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { type ChainHook, tcHook, xdpHook } from './chain-hook.ts';
import type { ChainResult, Chains } from './chain.ts';
import type { DesiredProgram, InterfaceHook } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { NetworkPlace } from '../place/network-place.ts';
import type { Pins } from '../pins/pins.ts';
import type { LoadedProgram } from '../load/loaded-program.ts';
import { type ChainRecord, keyOf, type ProgramRecord } from '../records.ts';
import type { Verdicts } from '../verdicts.ts';
import type { ChainPlace, WantedMember } from './chain-member.ts';

interface WantedHook {
  readonly place: ChainPlace;
  readonly network: NetworkPlace;
  readonly members: Map<DesiredProgram, WantedMember>;
  /** Members whose place is currently unknown. */
  readonly held: WantedMember[];
}

/**
 * Makes every hook run its programs, and removes unwanted chains.
 *
 * @param held - Programs that stay in the chains that they are in.
 */
export function settleChains(
  chains: Chains,
  pins: Pins,
  loaded: readonly LoadedProgram[],
  held: readonly ProgramRecord[],
  verdicts: Verdicts,
): void {
  const hooks = new Map<string, WantedHook>();
  /** Programs whose places could not be determined; they stay where they are. */
  const unknown = new Set<string>();
  const indexOf = interfaceIndexes();
  try {
    for (const { program, record, previous: fallback } of loaded) {
      const { attach } = program;
      if (attach.type !== 'xdp' && attach.type !== 'tc') continue;
      verdicts.attempt([program], () => {
        let network: NetworkPlace | undefined;
        try {
          network = NetworkPlace.of(attach.hook);
          const place = chainPlace(pins, network, indexOf(network, attach.hook), attach);
          const members = new Map<DesiredProgram, WantedMember>();
          const hook = hooks.get(place.key) ?? { place, network, members, held: [] };
          hooks.set(place.key, hook);
          hook.members.set(program, { record, fallback, ...attach.order });
        } catch (error) {
          if (!(error instanceof ProgramFailure)) unknown.add(program.id);
          throw error;
        } finally {
          if (![...hooks.values()].some((hook) => hook.network === network)) network?.[Symbol.dispose]();
        }
      });
    }
    for (const record of held) holdIn(chains, pins, hooks, record);
    const isUnsure = (record: ChainRecord | undefined): boolean =>
      record?.members.some(({ id }) => unknown.has(id)) ?? false;
    for (const record of chains.known.values())
      if (!hooks.has(record.key) && !isUnsure(record))
        withHook(pins, record, (hook) => chains.remove(record.key, hook));
    for (const hook of hooks.values()) {
      const known = chains.known.get(hook.place.key);
      if (known !== undefined && isUnsure(known)) leave(known, hook, verdicts);
      else settleHook(chains, hook, verdicts);
    }
  } finally {
    for (const { network } of hooks.values()) network[Symbol.dispose]();
  }
}

/** Makes a program, whose place is currently unknown, stay in the chains that it is in: adds it to `held` of their hooks. */
function holdIn(chains: Chains, pins: Pins, hooks: Map<string, WantedHook>, record: ProgramRecord): void {
  for (const chain of chains.known.values()) {
    const { key, kind } = chain;
    const member = chain.members.find(
      ({ id, programId }) => id === record.id && programId === record.programId,
    );
    if (member === undefined) continue;
    let hook = hooks.get(key);
    if (hook === undefined) {
      const network = NetworkPlace.find(BigInt(chain.namespaceInode));
      if (network === undefined) continue;
      const { direction, inContainer, interface: name, interfaceIndex, namespaceInode } = chain;
      const where = { direction, inContainer, interface: name, interfaceIndex, namespaceInode };
      const place = { key, kind, hook: hookOf(pins, chain), where };
      hook = { place, network, members: new Map(), held: [] };
      hooks.set(key, hook);
    }
    hook.held.push({ record, priority: member.priority, proceedOn: member.proceedOn });
  }
}

/** Leaves a chain unchanged while it is unknown whether one of its members still belongs to it. */
function leave(known: ChainRecord, { place, members }: WantedHook, verdicts: Verdicts): void {
  const why = `The chain on ${place.hook.shown} is left unchanged until the hooks of all its members are known.`;
  for (const [program, member] of members)
    goesOn(known, program, member, new ProgramFailure('attach', why, true), verdicts);
}

/** Reports the outcome of a program whose chain is unchanged. */
function goesOn(
  known: ChainRecord | undefined,
  program: DesiredProgram,
  { record, fallback }: WantedMember,
  error: unknown,
  verdicts: Verdicts,
): void {
  const isIn = (one: ProgramRecord): boolean =>
    known?.members.some(({ programId }) => programId === one.programId) ?? false;
  if (known !== undefined && isIn(record)) return verdicts.loaded(program, record.programId, known.notes);
  if (known === undefined || fallback === undefined || !isIn(fallback))
    return verdicts.failed(program, error);
  verdicts.keep(program, fallback, error);
  verdicts.loaded(program, fallback.programId, known.notes);
}

function settleHook(chains: Chains, { place, network, members, held }: WantedHook, verdicts: Verdicts): void {
  let result: ChainResult;
  try {
    result = network.visit(() => chains.settle(place, [...members.values(), ...held]));
  } catch (error) {
    const isDisplaced = error instanceof ProgramFailure && error.reason === 'displaced';
    for (const [program, member] of members) {
      // If the chain is displaced, programs that already ran fail as well: they do not run now.
      if (isDisplaced || member.fallback === undefined) verdicts.failed(program, error);
      else goesOn(chains.known.get(place.key), program, member, error, verdicts);
    }
    return;
  }
  const { failures, running, notes } = result;
  for (const [program, { record }] of members) {
    const failure = failures.get(record.programId);
    const runs = running.get(program.id);
    if (runs === undefined) verdicts.failed(program, failure);
    else {
      if (failure !== undefined) verdicts.keep(program, runs, failure);
      verdicts.loaded(program, runs.programId, notes);
    }
  }
}

/** {@link interfaceIndexOf}, called once for each interface: most chains have several members. */
function interfaceIndexes(): typeof interfaceIndexOf {
  const known = new Map<string, number>();
  return (network, hook) => {
    const key = `${network.inode} ${hook.interface}`;
    const index = known.get(key) ?? interfaceIndexOf(network, hook);
    known.set(key, index);
    return index;
  };
}

function chainPlace(
  pins: Pins,
  network: NetworkPlace,
  interfaceIndex: number,
  attach: Extract<DesiredProgram['attach'], { type: 'tc' | 'xdp' }>,
): ChainPlace {
  const { interface: name } = attach.hook;
  const direction = attach.type === 'tc' ? attach.direction : undefined;
  const key = keyOf([attach.type, name, direction ?? '', network.inode].join(' '));
  const { inode, inContainer } = network;
  const where = { interface: name, interfaceIndex, direction, namespaceInode: String(inode), inContainer };
  return { key, kind: attach.type, hook: hookOf(pins, { key, kind: attach.type, ...where }), where };
}

function hookOf(
  pins: Pins,
  record: Pick<ChainRecord, 'direction' | 'interface' | 'interfaceIndex' | 'key' | 'kind'>,
): ChainHook {
  const { kind, interface: name, interfaceIndex, direction } = record;
  return kind === 'tc' && direction !== undefined
    ? tcHook(name, interfaceIndex, direction)
    : xdpHook(name, interfaceIndex, pins.chain(record.key));
}

/** Runs `work` in the chain's network namespace; if that is gone, `hook` is undefined. */
export function withHook<T>(pins: Pins, record: ChainRecord, work: (hook: ChainHook | undefined) => T): T {
  using network = NetworkPlace.find(BigInt(record.namespaceInode));
  return network === undefined ? work(undefined) : network.visit(() => work(hookOf(pins, record)));
}

/** @throws {ProgramFailure} `target`: the interface does not exist (yet). */
export function interfaceIndexOf(network: NetworkPlace, { interface: name }: InterfaceHook): number {
  const found = network.visit(() => {
    using socket = new RouteSocket();
    return findInterface(socket, name);
  });
  if (found !== undefined) return found.index;
  const where = network.inContainer ? 'in the container' : 'on this node';
  throw new ProgramFailure(
    'target',
    `There is no interface ${name} ${where}. The program is attached as soon as there is one.`,
    true,
  );
}
