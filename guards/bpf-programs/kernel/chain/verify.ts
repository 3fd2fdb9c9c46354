/** Compares the state of the kernel with what was applied. */
import { join } from 'node:path';

import { linkInfo, linkTypes } from '../info.ts';
import { openPin } from '../pins/pin.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { findInterface } from '../../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { withHook } from './chain-hooks.ts';
import type { Drift } from '../desired.ts';
import { openProgram, type Pins } from '../pins/pins.ts';
import type { ChainRecord, ProgramRecord } from '../records.ts';

/** Drift of programs whose pins or links have changed. */
export function missingPrograms(
  pins: Pins,
  programs: Iterable<ProgramRecord>,
  chains: Iterable<ChainRecord>,
): Drift[] {
  const inChains = new Set([...chains].flatMap(({ members }) => members.map(({ id }) => id)));
  return [...programs].flatMap((record) => {
    using program = openProgram(join(pins.program(record), 'program'), record.programId);
    const of = (what: string): Drift => ({ what, owners: [record.owner] });
    if (program === undefined)
      return [of(`The pin of ${record.owner} (program ${record.programId}) is gone.`)];
    if (record.attachKey === '' || inChains.has(record.id) || isWithoutFile(record)) return [];
    using link = openPin(join(pins.program(record), 'link'));
    const info = link && linkInfo(link.fd);
    const detached = info?.type === linkTypes.tcx && info.interfaceIndex === 0;
    return info === undefined || detached
      ? [of(`${record.owner} is no longer attached to ${record.attachPoint}.`)]
      : [];
  });
}

/** Whether it is a uprobe whose target did not exist, so that it is attached to nothing. */
function isWithoutFile({ type, probed }: ProgramRecord): boolean {
  return (type === 'uprobe' || type === 'uretprobe') && probed === undefined;
}

/** Drift of chains that are no longer attached as they were applied. */
export function missingChains(
  pins: Pins,
  chains: Iterable<ChainRecord>,
  programs: ReadonlyMap<string, ProgramRecord>,
): Drift[] {
  return [...chains].flatMap((record) => {
    const owners = record.members.map(({ id }) => programs.get(id)?.owner ?? id);
    const why = withHook(pins, record, (hook) => {
      if (hook === undefined) return 'its network namespace is gone';
      using socket = new RouteSocket();
      const now = findInterface(socket, record.interface)?.index;
      if (now !== record.interfaceIndex)
        return now === undefined ? 'the interface is gone' : 'the interface was replaced';
      try {
        const { programId } = hook.look(record.madeQdisc);
        if (programId === record.programId) return undefined;
        const what = record.kind === 'tc' ? 'its filter, or its clsact qdisc,' : 'its link';
        return programId === undefined ? `${what} was removed` : `program ${programId} is in its place`;
      } catch (error) {
        if (error instanceof KernelRefusal) return error.message;
        throw error;
      }
    });
    const shown = `${record.interface}${record.direction === undefined ? '' : ` ${record.direction}`}`;
    return why === undefined ? [] : [{ what: `${record.kind} on ${shown}: ${why}.`, owners }];
  });
}
