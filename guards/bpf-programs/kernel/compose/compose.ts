/**
 * Composes many programs into one: each becomes a function, and a generated main calls them in turn. It is as fast as tail calls or faster,
 * works where the kernel refuses freplace (BPF_PROG_TYPE_EXT), and can be replaced atomically.
 *
 * Pure: it converts instructions to instructions. Members refer to maps by descriptors of the process that will load the result. Limits of
 * the verifier: a member's stack is at most 480 bytes on 6.1, 496 from 6.12 on, since main has a stack frame too; a member loses
 * the BTF of its own types, and so cannot allocate objects of them (bpf_obj_new).
 */
import { INSTRUCTION_BYTES, type InstructionParts, Instructions } from '../../../../lib/ebpf/instructions.ts';
import { btfOf } from '../../../../lib/ebpf/kernel-types.ts';

/** Determines the lowest return code: 0 for XDP (XDP_ABORTED), -1 for TC (TC_ACT_UNSPEC). */
export type ChainKind = 'tc' | 'xdp';

export interface Member {
  readonly name: string;
  readonly instructions: Instructions;
  /** Return codes after which the next member runs: bit 1 << code for XDP, 1 << (code + 1) for TC. */
  readonly proceedOn: number;
  /** Its slot in the runs map. */
  readonly slot: number;
}

export interface Composition {
  readonly instructions: Instructions;
  /** Raw BTF: the kernel requires a type for each function before it allows callbacks and tail calls in it. */
  readonly types: Uint8Array;
  /** For `func_info`: where each function begins, and the id of its type. */
  readonly functions: readonly { readonly at: number; readonly typeId: number }[];
}

/** Restricts which processes a program sees. */
export type Gate =
  /** `device` in the kernel's format: major << 20 | minor of the file system of /proc/PID/ns/pid. */
  | { readonly by: 'pid-namespace'; readonly device: bigint; readonly inode: bigint }
  /** `level` is the depth of the cgroup below the root of version 2, which has level 0; `id` is the cgroup's inode. */
  | { readonly by: 'cgroup'; readonly level: number; readonly id: bigint };

/** XDP_PASS of include/uapi/linux/bpf.h. */
const XDP_PASS = 2;
/** TC_ACT_UNSPEC: filters of others that come after Rampart's run too. */
const TC_ACT_UNSPEC = -1;
const helpers = { mapLookup: 1, tailCall: 12, nsCurrentPidTgid: 120, currentAncestorCgroupId: 123 } as const;

/** Opcodes, named after what they do. `w` is the lower half of a register. */
const op = {
  copy: 0xbf,
  copyW: 0xbc,
  set: 0xb7,
  setW: 0xb4,
  add: 0x07,
  addW: 0x04,
  andW: 0x54,
  shiftRightW: 0x7c,
  store32: 0x62,
  load64: 0x79,
  store64: 0x7b,
  loadImmediate64: 0x18,
  skip: 0x05,
  skipUnlessZero: 0x55,
  skipIfZeroW: 0x16,
  skipIfAboveW: 0x26,
  skipIfSame: 0x1d,
  call: 0x85,
  exit: 0x95,
} as const;
const PSEUDO_MAP_FD = 1;
const PSEUDO_CALL = 1;
/** The highest return code that a mask of 32 bits can contain. */
const LAST_CODE = 31;

/** A jump to the end of main, or a call of a member: its offset is known only once main is complete. */
interface Unfinished extends InstructionParts {
  readonly toEnd?: true;
  readonly member?: number;
}

interface ChainOptions {
  /**
   * A per-CPU array with one value, which has each member's count of runs at byte 8 * slot. Without it nothing is counted, which saves
   * about 4 ns for each packet.
   */
  readonly runsFd?: number;
  /** The entry of a program array where the chain continues after the last member; undefined: it ends. */
  readonly next?: { readonly arrayFd: number; readonly index: number } | undefined;
}

/**
 * Composes a chain. A return code that is not in the member's mask ends the chain with that code; after the last member, the chain returns
 * XDP_PASS or TC_ACT_UNSPEC.
 */
export function composeChain(
  kind: ChainKind,
  members: readonly Member[],
  { runsFd, next }: ChainOptions = {},
): Composition {
  const onwards = kind === 'xdp' ? XDP_PASS : TC_ACT_UNSPEC;
  const main: Unfinished[] = [{ code: op.copy, to: 6, from: 1 }];
  if (runsFd !== undefined) {
    main.push(
      { code: op.store32, to: 10, offset: -4, immediate: 0 },
      { code: op.copy, to: 2, from: 10 },
      { code: op.add, to: 2, immediate: -4 },
      { code: op.loadImmediate64, to: 1, from: PSEUDO_MAP_FD, immediate: runsFd },
      { code: 0 },
      { code: op.call, immediate: helpers.mapLookup },
      { code: op.copy, to: 9, from: 0 },
      // An array always has its first element, but the verifier requires the check.
      { code: op.skipUnlessZero, to: 9, offset: 2 },
      { code: op.set, to: 0, immediate: onwards },
      { code: op.skip, toEnd: true },
    );
  }
  members.forEach(({ proceedOn, slot }, member) => {
    if (runsFd !== undefined) {
      main.push(
        { code: op.load64, to: 1, from: 9, offset: slot * 8 },
        { code: op.add, to: 1, immediate: 1 },
        { code: op.store64, to: 9, from: 1, offset: slot * 8 },
      );
    }
    main.push(
      { code: op.copy, to: 1, from: 6 },
      { code: op.call, from: PSEUDO_CALL, member },
      { code: op.copyW, to: 7, from: 0 },
      ...(kind === 'tc' ? [{ code: op.addW, to: 7, immediate: 1 }] : []),
      { code: op.skipIfAboveW, to: 7, immediate: LAST_CODE, toEnd: true },
      { code: op.setW, to: 8, immediate: proceedOn },
      { code: op.shiftRightW, to: 8, from: 7 },
      { code: op.andW, to: 8, immediate: 1 },
      { code: op.skipIfZeroW, to: 8, immediate: 0, toEnd: true },
    );
  });
  if (next !== undefined) {
    main.push(
      { code: op.copy, to: 1, from: 6 },
      { code: op.loadImmediate64, to: 2, from: PSEUDO_MAP_FD, immediate: next.arrayFd },
      { code: 0 },
      { code: op.set, to: 3, immediate: next.index },
      { code: op.call, immediate: helpers.tailCall },
    );
  }
  main.push({ code: op.set, to: 0, immediate: onwards }, { code: op.exit });
  return joined(main, members);
}

/** Composes one program behind a gate: for processes that do not pass the gate it returns 0 at once. */
export function composeGated(gate: Gate, member: Omit<Member, 'proceedOn' | 'slot'>): Composition {
  const asked: readonly Unfinished[] =
    gate.by === 'pid-namespace'
      ? [
          ...setTo64(1, gate.device),
          ...setTo64(2, gate.inode),
          { code: op.copy, to: 3, from: 10 },
          // struct bpf_pidns_info.
          { code: op.add, to: 3, immediate: -8 },
          { code: op.set, to: 4, immediate: 8 },
          { code: op.call, immediate: helpers.nsCurrentPidTgid },
          { code: 0x15, to: 0, immediate: 0, offset: 2 },
        ]
      : [
          { code: op.set, to: 1, immediate: gate.level },
          { code: op.call, immediate: helpers.currentAncestorCgroupId },
          ...setTo64(2, gate.id),
          { code: op.skipIfSame, to: 0, from: 2, offset: 2 },
        ];
  return joined(
    [
      { code: op.copy, to: 6, from: 1 },
      ...asked,
      { code: op.set, to: 0, immediate: 0 },
      { code: op.skip, toEnd: true },
      { code: op.copy, to: 1, from: 6 },
      { code: op.call, from: PSEUDO_CALL, member: 0 },
      { code: op.exit },
    ],
    [member],
  );
}

function setTo64(register: number, value: bigint): readonly Unfinished[] {
  const halves = [Number(BigInt.asIntN(32, value)), Number(BigInt.asIntN(32, value >> 32n))] as const;
  return [
    { code: op.loadImmediate64, to: register, immediate: halves[0] },
    { code: 0, immediate: halves[1] },
  ];
}

/** Joins main, whose last instruction is its exit, and the members. */
function joined(
  main: readonly Unfinished[],
  members: readonly Omit<Member, 'proceedOn' | 'slot'>[],
): Composition {
  const begins: number[] = [];
  let next = main.length;
  for (const { instructions } of members) {
    begins.push(next);
    next += instructions.count;
  }
  const finished = main.map((parts, index): InstructionParts => {
    if (parts.toEnd === true) return { ...parts, offset: main.length - 1 - (index + 1) };
    if (parts.member === undefined) return parts;
    return { ...parts, immediate: (begins[parts.member] ?? 0) - (index + 1) };
  });
  const bytes = Buffer.alloc(next * INSTRUCTION_BYTES);
  Instructions.of(finished).bytes.copy(bytes);
  const starts: { at: number; name: string }[] = [{ at: 0, name: 'main' }];
  members.forEach(({ instructions, name }, member) => {
    const begin = begins[member] ?? 0;
    instructions.bytes.copy(bytes, begin * INSTRUCTION_BYTES);
    for (const start of instructions.functionStarts())
      starts.push({ at: begin + start, name: start === 0 ? `m${member}_${name}` : `m${member}_${start}` });
  });
  const { bytes: types, ids } = functionTypes(starts.map(({ name }) => name));
  return {
    instructions: new Instructions(bytes),
    types,
    functions: starts.map(({ at }, index) => ({ at, typeId: ids[index] ?? 0 })),
  };
}

/**
 * Generated BTF (Documentation/bpf/btf.rst): functions without parameters that return an int. Nothing more is needed, since the functions
 * are static: the verifier checks them with the arguments of each call.
 */
const kind = { INT: 1 << 24, FUNC: 12 << 24, FUNC_PROTO: 13 << 24 } as const;
/** BTF_INT_SIGNED, of 32 bits. */
const SIGNED_32 = (1 << 24) | 32;
/** The type id of the prototype; the int has id 1. */
const PROTOTYPE = 2;
const STATIC = 0;

/** @returns raw BTF, and the type's id of each name. */
export function functionTypes(names: readonly string[]): {
  readonly bytes: Uint8Array;
  readonly ids: readonly number[];
} {
  let strings = '\0int\0';
  const types = [strings.indexOf('int'), kind.INT, 4, SIGNED_32, 0, kind.FUNC_PROTO, 1];
  const ids = names.map((name, index) => {
    types.push(strings.length, kind.FUNC | STATIC, PROTOTYPE);
    strings += `${name.replaceAll(/\W/g, '_')}\0`;
    return PROTOTYPE + 1 + index;
  });
  const typeBytes = Buffer.from(new Uint32Array(types).buffer);
  return { bytes: btfOf([typeBytes], [Buffer.from(strings, 'latin1')]), ids };
}
