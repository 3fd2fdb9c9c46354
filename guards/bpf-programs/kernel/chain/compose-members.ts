/**
 * Composes the members of a chain into one program. The kernel accepts at most 64 maps and a million verified instructions in one program:
 * further members are put into more programs, called segments, which are reached by tail calls.
 */
import { createProgramArray, type Descriptor, setProgram } from '../../../../lib/ebpf/bpf-call.ts';
import { composeChain, type Member } from '../compose/compose.ts';
import { loadComposition } from '../compose/load-composition.ts';
import { done, granted, KernelRefusal } from '../../../../lib/ebpf/refusal.ts';
import { failureOf, ProgramFailure } from '../failure.ts';
import { OpenMaps } from '../load/open-maps.ts';
import type { Pins } from '../pins/pins.ts';
import { programTypes, XDP_HAS_FRAGS } from '../load/program-types.ts';
import type { Instructions } from '../../../../lib/ebpf/instructions.ts';
import type { ProgramRecord } from '../records.ts';
import type { ChainPlace, WantedMember } from './chain-member.ts';

export interface Composing {
  readonly place: { readonly kind: ChainPlace['kind']; readonly hook: Pick<ChainPlace['hook'], 'shown'> };
  /** Slots in the runs map, keyed by the id of the member. */
  readonly slots: ReadonlyMap<string, number>;
  readonly runs: Descriptor;
  readonly pins: Pins;
  /** Returns the instructions of a program with descriptors of its maps, which are open as long as `maps` is. */
  readonly instructionsOf: (record: ProgramRecord, maps: OpenMaps) => Instructions;
}

export interface Composed extends Disposable {
  /** The first segment; undefined without members. */
  readonly program: Descriptor | undefined;
  /** The program array with the other segments, which must be pinned before the program runs; undefined if there is only one segment. */
  readonly segments: Descriptor | undefined;
  readonly members: readonly WantedMember[];
  readonly refused: ReadonlyMap<string, ProgramFailure>;
}

type Segment = readonly WantedMember[];

/** MAX_USED_MAPS of include/linux/bpf_verifier.h, less two maps that are added here: the runs, and the segments. */
const MAX_MAPS = 64 - 2;

/** Composes all members or, if the verifier rejects that, as many as can run together; earlier ones have precedence. */
export function compose(composing: Composing, members: readonly WantedMember[]): Composed {
  if (members.length === 0) return composed(undefined, undefined, members);
  try {
    return loadAll(composing, byMaps(members), members);
  } catch (error) {
    if (!(error instanceof KernelRefusal)) throw error;
  }
  const { segments, refused } = byTrying(composing, members);
  const joined = segments.flat();
  return joined.length === 0
    ? composed(undefined, undefined, joined, refused)
    : loadAll(composing, segments, joined, refused);
}

function composed(
  program: Descriptor | undefined,
  segments: Descriptor | undefined,
  members: readonly WantedMember[],
  refused: ReadonlyMap<string, ProgramFailure> = new Map(),
): Composed {
  const dispose = () => {
    program?.[Symbol.dispose]();
    segments?.[Symbol.dispose]();
  };
  return { program, segments, members, refused, [Symbol.dispose]: dispose };
}

function byMaps(members: readonly WantedMember[]): readonly Segment[] {
  const segments: WantedMember[][] = [[]];
  let maps = new Set<number>();
  for (const member of members) {
    const more = new Set([...maps, ...member.record.maps.map(({ id }) => id)]);
    if (more.size > MAX_MAPS && maps.size > 0) {
      segments.push([member]);
      maps = new Set(member.record.maps.map(({ id }) => id));
    } else {
      segments.at(-1)?.push(member);
      maps = more;
    }
  }
  return segments;
}

/** Adds each member to the last segment; if that is rejected, to a new segment; if that is rejected too, the member is refused. */
function byTrying(composing: Composing, members: readonly WantedMember[]) {
  const segments: WantedMember[][] = [];
  const refused = new Map<string, ProgramFailure>();
  for (const member of members) {
    const last = segments.at(-1);
    if (last !== undefined && refusal(composing, [...last, member]) === undefined) {
      last.push(member);
      continue;
    }
    const error = refusal(composing, [member]);
    if (error === undefined) segments.push([member]);
    else refused.set(member.record.id, cannotJoin(composing.place, error));
  }
  return { segments, refused };
}

function refusal(composing: Composing, segment: Segment): KernelRefusal | ProgramFailure | undefined {
  try {
    load(
      composing,
      segment,
      undefined,
      segment.every(({ record }) => record.hasFrags),
    )[Symbol.dispose]();
    return undefined;
  } catch (error) {
    if (error instanceof KernelRefusal || error instanceof ProgramFailure) return error;
    throw error;
  }
}

function cannotJoin({ hook }: Composing['place'], error: KernelRefusal | ProgramFailure): ProgramFailure {
  const { message } = failureOf(error, 'load');
  const why = `It cannot run in a chain on ${hook.shown}: ${message}\nThe others run. In a chain, a program may use at most 480 bytes of stack and no kernel objects of types that it defines itself.`;
  return new ProgramFailure('load', why, false, error);
}

/** @throws {KernelRefusal} */
function loadAll(
  composing: Composing,
  segments: readonly Segment[],
  members: readonly WantedMember[],
  refused?: ReadonlyMap<string, ProgramFailure>,
): Composed {
  const [first = [], ...others] = segments;
  // The kernel requires the same setting for all programs in a program array.
  const frags = members.every(({ record }) => record.hasFrags);
  if (others.length === 0)
    return composed(load(composing, first, undefined, frags), undefined, members, refused);
  const array = granted('cannot create a program array', createProgramArray(segments.length, 'rampart_next'));
  try {
    const nextOf = (at: number) =>
      at + 1 < segments.length ? { arrayFd: array.fd, index: at + 1 } : undefined;
    for (const [at, segment] of others.entries()) {
      using program = load(composing, segment, nextOf(at + 1), frags);
      done('cannot add a program to an array', setProgram(array, at + 1, program));
    }
    return composed(load(composing, first, nextOf(0), frags), array, members, refused);
  } catch (error) {
    array[Symbol.dispose]();
    throw error;
  }
}

function load(
  { place, slots, runs, pins, instructionsOf }: Composing,
  segment: Segment,
  next: { readonly arrayFd: number; readonly index: number } | undefined,
  frags: boolean,
): Descriptor {
  using maps = new OpenMaps(pins);
  const members = segment.map(({ record, proceedOn }): Member => {
    const instructions = instructionsOf(record, maps);
    return { name: record.functionName, instructions, proceedOn, slot: slots.get(record.id) ?? 0 };
  });
  return loadComposition(composeChain(place.kind, members, { runsFd: runs.fd, next }), {
    ...programTypes[place.kind],
    name: `rampart_${place.kind}`,
    gpl: segment.every(({ record }) => record.gpl),
    flags: place.kind === 'xdp' && frags ? XDP_HAS_FRAGS : 0,
  });
}
