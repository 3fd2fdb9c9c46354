/**
 * Where a chain is attached: an interface's XDP hook, or one direction of its clsact qdisc. All calls have to be made during one visit of
 * the network namespace.
 */
import { constants } from 'node:os';
import { join } from 'node:path';

import type { Descriptor } from '../../../../lib/ebpf/bpf-call.ts';
import { linkInfo } from '../info.ts';
import { attachXdp, detach, replaceProgram } from '../link/xdp.ts';
import { openPin, pin, unpin } from '../pins/pin.ts';
import { KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import {
  addClsact,
  deleteClsact,
  deleteFilter,
  type FilterPlace,
  filters,
  ingressQdisc,
  setFilter,
} from '../link/traffic-control.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import type { Direction } from '../desired.ts';
import { ProgramFailure } from '../failure.ts';

export interface HookState {
  /** Rampart's program that is attached there; undefined without one. */
  readonly programId: number | undefined;
  /** Whether Rampart has created the qdisc. */
  readonly madeQdisc: boolean;
}

export interface ChainHook {
  /** In readable form: `eth0`, `eth0 ingress`. */
  readonly shown: string;
  /** @param madeQdisc - Whether the record says that Rampart has created the qdisc. */
  look(madeQdisc: boolean): HookState;
  /**
   * Attaches the program; a program of Rampart that is already attached is replaced in one step.
   *
   * @param old - The program that is attached, if a descriptor of it is available.
   * @returns notes for the user.
   * @throws {KernelRefusal}
   * @throws {ProgramFailure} `displaced`: something that is not Rampart's is in the way.
   */
  put(program: Descriptor, state: HookState, old: Descriptor | undefined): PutResult;
  /** Detaches the program. It is not an error if it is already gone. */
  take(madeQdisc: boolean): void;
}

export interface PutResult {
  readonly notes: readonly string[];
  readonly madeQdisc: boolean;
}

export function xdpHook(interfaceName: string, interfaceIndex: number, pins: string): ChainHook {
  const linkPath = join(pins, 'link');
  return {
    shown: interfaceName,
    look: () => {
      using link = openPin(linkPath);
      if (link === undefined) return { programId: undefined, madeQdisc: false };
      const info = linkInfo(link.fd);
      // Once its interface is gone, the link is attached to nothing, and the kernel reports index 0.
      const programId = info.interfaceIndex === interfaceIndex ? info.programId : undefined;
      return { programId, madeQdisc: false };
    },
    put: (program, state, old) => {
      if (state.programId !== undefined) {
        using link = openPin(linkPath);
        if (link !== undefined) {
          replaceProgram(link, program, old);
          return { notes: [], madeQdisc: false };
        }
      }
      const { link, why } = attaching(interfaceName, () => attachXdp(program, interfaceIndex));
      using held = link;
      unpin(linkPath);
      pin(held.fd, linkPath);
      const note = `${interfaceName} runs it in generic mode, which is slower: ${why}`;
      return { notes: why === undefined ? [] : [note], madeQdisc: false };
    },
    take: () => {
      using link = openPin(linkPath);
      if (link !== undefined) detach(link);
      unpin(linkPath);
    },
  };
}

function attaching<T>(interfaceName: string, attach: () => T): T {
  try {
    return attach();
  } catch (error) {
    const { EBUSY, EEXIST } = constants.errno;
    if (!(error instanceof KernelRefusal) || (error.errno !== EBUSY && error.errno !== EEXIST)) throw error;
    throw new ProgramFailure(
      'displaced',
      `Another XDP program, which is not Rampart's, is attached to ${interfaceName}; it is left alone. Remove it (ip link set dev ${interfaceName} xdp off, or the program that attached it), or use another interface.`,
      true,
      error,
    );
  }
}

/** Between the priorities that people choose, from 1 up, and those that tc assigns itself, from 49152 down. */
const PRIORITY = 50;
/** "RMP" */
const HANDLE = 0x524d50;
const FILTER_NAME = 'rampart';

export function tcHook(interfaceName: string, interfaceIndex: number, direction: Direction): ChainHook {
  const place: FilterPlace = { interfaceIndex, direction, priority: PRIORITY, handle: HANDLE };
  const shown = `${interfaceName} ${direction}`;
  const there = (socket: RouteSocket) =>
    filters(socket, interfaceIndex, direction).find(
      (one) => one.priority === PRIORITY && one.handle === HANDLE,
    );
  return {
    shown,
    look: (madeQdisc) => {
      using socket = new RouteSocket();
      if (ingressQdisc(socket, interfaceIndex) !== 'clsact')
        return { programId: undefined, madeQdisc: false };
      const filter = there(socket);
      return { programId: filter?.name === FILTER_NAME ? filter.programId : undefined, madeQdisc };
    },
    put: (program, state) => {
      using socket = new RouteSocket();
      let { madeQdisc } = state;
      const kind = ingressQdisc(socket, interfaceIndex);
      if (kind === undefined) {
        addClsact(socket, interfaceIndex);
        madeQdisc = true;
      } else if (kind !== 'clsact') {
        throw new ProgramFailure(
          'displaced',
          `${interfaceName} has the qdisc ${kind}, which is not Rampart's and does not support egress; it is left alone. Delete it (tc qdisc del dev ${interfaceName} ${kind}) to let clsact replace it.`,
          true,
        );
      }
      const foreign = there(socket);
      if (foreign !== undefined && foreign.name !== FILTER_NAME) {
        throw new ProgramFailure(
          'displaced',
          `A filter that is not Rampart's (${foreign.kind} ${foreign.name}) has priority ${PRIORITY} and handle 0x${HANDLE.toString(16)} on ${shown}; it is left alone. Move it to another priority.`,
          true,
        );
      }
      setFilter(socket, place, program, FILTER_NAME, { replace: foreign !== undefined });
      return { notes: [], madeQdisc };
    },
    take: (madeQdisc) => {
      using socket = new RouteSocket();
      if (ingressQdisc(socket, interfaceIndex) !== 'clsact') return;
      if (there(socket)?.name === FILTER_NAME) deleteFilter(socket, place);
      if (!madeQdisc) return;
      const left = (['ingress', 'egress'] as const).some(
        (one) => filters(socket, interfaceIndex, one).length > 0,
      );
      if (!left) deleteClsact(socket, interfaceIndex);
    },
  };
}
