/** TCX: each program has its own link. The links of Rampart are kept in order; those of others stay where they are. */
import { constants } from 'node:os';
import { join } from 'node:path';

import { compareText } from '../../../../lib/output/compare-text.ts';
import { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { linkInfo } from '../info.ts';
import { attachTcx, queryTcx, type TcxPlace } from '../link/tcx.ts';
import { detach, replaceProgram } from '../link/xdp.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { interfaceIndexOf } from './chain-hooks.ts';
import type { DesiredProgram, Direction } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';
import { NetworkPlace } from '../place/network-place.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import type { LoadedProgram } from '../load/loaded-program.ts';
import type { Programs } from '../load/programs.ts';
import type { ProgramRecord } from '../records.ts';
import type { Verdicts } from '../verdicts.ts';

interface TcxMember extends LoadedProgram {
  readonly priority: number;
  /** The record of the version that is attached: that of the previous one, if the new one cannot be attached. */
  record: ProgramRecord;
  link: Descriptor | undefined;
}

interface TcxHook {
  readonly key: string;
  readonly network: NetworkPlace;
  readonly index: number;
  readonly direction: Direction;
  readonly members: TcxMember[];
}

/** Limit of retries if another process changes the hook between reading and attaching. */
const ATTEMPTS = 20;

/** Attaches members that are not attached, and moves those whose position has changed. */
export function settleTcx(
  programs: Programs,
  pins: Pins,
  loaded: readonly LoadedProgram[],
  verdicts: Verdicts,
): void {
  const hooks = new Map<string, TcxHook>();
  try {
    for (const one of loaded) {
      const { attach } = one.program;
      if (attach.type !== 'tcx') continue;
      verdicts.attempt([one.program], () => {
        const network = NetworkPlace.of(attach.hook);
        try {
          const { direction } = attach;
          const key = `tcx ${attach.hook.interface} ${direction} ${network.inode}`;
          const index = interfaceIndexOf(network, attach.hook);
          const hook = hooks.get(key) ?? { key, network, index, direction, members: [] };
          hooks.set(key, hook);
          hook.members.push({ ...one, priority: attach.priority, link: undefined });
        } finally {
          if (![...hooks.values()].some((hook) => hook.network === network)) network[Symbol.dispose]();
        }
      });
    }
    for (const hook of hooks.values()) {
      hook.members.sort(
        (a, b) =>
          a.priority - b.priority ||
          compareText(a.program.name, b.program.name) ||
          compareText(a.program.id, b.program.id),
      );
      try {
        hook.network.visit(() => settleHook(programs, pins, hook, verdicts));
      } finally {
        for (const { link } of hook.members) link?.[Symbol.dispose]();
      }
    }
  } finally {
    for (const { network } of hooks.values()) network[Symbol.dispose]();
  }
}

function settleHook(programs: Programs, pins: Pins, hook: TcxHook, verdicts: Verdicts): void {
  const { members } = hook;
  verdicts.attempt(
    members.map(({ program }) => program),
    () => {
      for (const member of members) takeLink(pins, hook, member, verdicts);
      leaveInOrder(hook);
      for (const [at, member] of members.entries()) {
        const { record: asked, previous } = member;
        const one = { ...member, previous: asked === previous ? undefined : previous };
        verdicts.attach(one, (record) => {
          member.record = record;
          member.link ??= attachAt(pins, hook, member, placeOf(members, at));
          const { priority } = member;
          if (record.attachKey !== hook.key || record.priority !== priority)
            programs.remember({ ...record, attachKey: hook.key, priority });
          return [];
        });
      }
    },
  );
}

/** Finds the member's link on this hook; a link of the version that it replaces is taken over, with its position, in one step. */
function takeLink(pins: Pins, hook: TcxHook, member: TcxMember, verdicts: Verdicts): void {
  const { program, record, previous } = member;
  member.link = liveLink(pins, hook, record);
  if (member.link !== undefined || previous === undefined) return;
  member.link = liveLink(pins, hook, previous);
  if (member.link === undefined) return;
  try {
    using own = openOwn(pins, record);
    replaceProgram(member.link, own, undefined);
  } catch (error) {
    verdicts.keep(program, previous, error);
    member.record = previous;
    return;
  }
  pin(member.link.fd, linkPath(pins, record));
  unpin(linkPath(pins, previous));
}

function liveLink(pins: Pins, hook: TcxHook, record: ProgramRecord): Descriptor | undefined {
  const link = openPin(linkPath(pins, record));
  if (link === undefined) return undefined;
  const info = linkInfo(link.fd);
  const there = queryTcx(hook.index, hook.direction).programs.some(({ linkId }) => linkId === info.id);
  if (there) {
    // A process that was killed may have switched the link to a version that is not recorded.
    if (info.programId !== record.programId) {
      using own = openOwn(pins, record);
      replaceProgram(link, own, undefined);
    }
    return link;
  }
  // The link is on another interface, or on one that is gone.
  detach(link);
  link[Symbol.dispose]();
  unpin(linkPath(pins, record));
  return undefined;
}

/** Detaches links that are out of order, so that they are attached again: the kernel cannot move a link. */
function leaveInOrder(hook: TcxHook): void {
  const there = queryTcx(hook.index, hook.direction).programs.map(({ linkId }) => linkId);
  let behind = -1;
  for (const member of hook.members) {
    if (member.link === undefined) continue;
    const at = there.indexOf(linkInfo(member.link.fd).id);
    if (at > behind) {
      behind = at;
      continue;
    }
    detach(member.link);
    member.link[Symbol.dispose]();
    member.link = undefined;
  }
}

/** Where to attach a member: after its predecessor, or before its successor. */
function placeOf(members: readonly TcxMember[], at: number): TcxPlace {
  const before = members.slice(0, at).findLast(({ link }) => link !== undefined)?.link;
  if (before !== undefined) return { at: 'after', link: before };
  const behind = members.slice(at + 1).find(({ link }) => link !== undefined)?.link;
  return behind === undefined ? { at: 'end' } : { at: 'before', link: behind };
}

function attachAt(
  pins: Pins,
  hook: TcxHook,
  { record, program: wanted }: TcxMember,
  place: TcxPlace,
): Descriptor {
  using program = openOwn(pins, record);
  for (let attempt = 1; ; attempt++) {
    try {
      const { revision } = queryTcx(hook.index, hook.direction);
      const link = attachTcx(program, hook.index, hook.direction, place, revision);
      unpin(linkPath(pins, record));
      pin(link.fd, linkPath(pins, record));
      return link;
    } catch (error) {
      if (!(error instanceof KernelRefusal)) throw error;
      if (error.errno === constants.errno.ESTALE && attempt < ATTEMPTS) continue;
      if (error.errno === constants.errno.ERANGE) throw full(wanted, error);
      throw error;
    }
  }
}

function full({ attach: { type }, name }: DesiredProgram, error: KernelRefusal): ProgramFailure {
  const text = `There is no room for ${name}: the kernel allows 63 ${type} programs for each interface and direction. Use tc, whose chains have no such limit.`;
  return new ProgramFailure('attach', text, true, error);
}

function openOwn(pins: Pins, record: ProgramRecord): Descriptor {
  const program = openProgram(join(pins.program(record), 'program'), record.programId);
  if (program instanceof Descriptor) return program;
  throw new ProgramFailure('attach', 'Its pin is gone. The program is loaded again.', true);
}

const linkPath = (pins: Pins, record: ProgramRecord): string => join(pins.program(record), 'link');
