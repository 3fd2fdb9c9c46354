/**
 * bpf(2) and perf_event_open(2) without libbpf, so that feature probes get the kernel's own answer to a single
 * request: errno and verifier log. Field offsets are those of `union bpf_attr` (include/uapi/linux/bpf.h) and
 * `struct perf_event_attr` (include/uapi/linux/perf_event.h); both architectures that Rampart runs on are
 * little-endian.
 */
import { constants } from 'node:os';

import { addressOf, errno, libc, syscallNumbers } from './ffi.ts';

export interface Refusal {
  readonly errno: number;
  /** The verifier's log; '' if the kernel refused before verifying. */
  readonly log: string;
}

/** A file descriptor of this process. Disposing closes it, which also unloads or detaches the kernel object. */
export class Descriptor implements Disposable {
  readonly fd: number;
  #open = true;

  constructor(fd: number) {
    this.fd = fd;
  }

  [Symbol.dispose](): void {
    if (!this.#open) return;
    this.#open = false;
    libc.close(this.fd);
  }
}

export type Outcome = Descriptor | Refusal;

/** Turns the result of a call that returns a file descriptor or -1 into an {@link Outcome}. */
export function outcomeOf(result: number, log: () => string = () => ''): Outcome {
  return result >= 0 ? new Descriptor(result) : { errno: errno(), log: log() };
}

/** enum bpf_cmd. */
export const command = {
  MAP_CREATE: 0,
  MAP_UPDATE_ELEM: 2,
  PROG_LOAD: 5,
  OBJ_PIN: 6,
  OBJ_GET: 7,
  PROG_GET_NEXT_ID: 11,
  MAP_GET_NEXT_ID: 12,
  PROG_GET_FD_BY_ID: 13,
  MAP_GET_FD_BY_ID: 14,
  OBJ_GET_INFO_BY_FD: 15,
  PROG_QUERY: 16,
  RAW_TRACEPOINT_OPEN: 17,
  BTF_LOAD: 18,
  BTF_GET_FD_BY_ID: 19,
  LINK_CREATE: 28,
  LINK_UPDATE: 29,
  LINK_GET_FD_BY_ID: 30,
  LINK_GET_NEXT_ID: 31,
  ENABLE_STATS: 32,
  LINK_DETACH: 34,
} as const;

/** A kernel structure, zeroed and then filled field by field. Keeps the buffers to which it points reachable. */
export class Structure {
  readonly bytes: Uint8Array;
  readonly #view: DataView;
  readonly #referenced: Uint8Array[] = [];

  constructor(sizeBytes: number) {
    this.bytes = new Uint8Array(sizeBytes);
    this.#view = new DataView(this.bytes.buffer);
  }

  u32(offset: number, value: number): this {
    this.#view.setUint32(offset, value, true);
    return this;
  }

  u64(offset: number, value: bigint): this {
    this.#view.setBigUint64(offset, value, true);
    return this;
  }

  u32At(offset: number): number {
    return this.#view.getUint32(offset, true);
  }

  u64At(offset: number): bigint {
    return this.#view.getBigUint64(offset, true);
  }

  pointer(offset: number, target: Uint8Array): this {
    this.#referenced.push(target);
    return this.u64(offset, addressOf(target));
  }

  /** Call after the system call: the buffers need not stay reachable any longer. */
  release(): void {
    this.#referenced.length = 0;
  }
}

/** bpf(2) for commands that return a descriptor. */
export function bpf(commandNumber: number, attr: Structure, log?: Uint8Array): Outcome {
  const result = libc.bpf(syscallNumbers.bpf, commandNumber, attr.bytes, attr.bytes.byteLength);
  const outcome = outcomeOf(result, () => (log === undefined ? '' : cString(log)));
  attr.release();
  return outcome;
}

/** Text up to the first NUL. */
export function cString(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return Buffer.from(bytes.subarray(0, end < 0 ? bytes.length : end)).toString('latin1');
}

export function nulTerminated(text: string): Uint8Array {
  return Buffer.from(`${text}\0`);
}

/** One eBPF instruction (`struct bpf_insn`): opcode, the two registers, offset 0, immediate. */
export type Instruction = readonly [code: number, destination: number, source: number, immediate: number];

/** The instructions of which the probes consist. */
export const instructions = {
  setRegister: (register: number, value: number): Instruction => [0xb7, register, 0, value],
  copyRegister: (to: number, from: number): Instruction => [0xbf, to, from, 0],
  addToRegister: (register: number, value: number): Instruction => [0x07, register, 0, value],
  call: (helper: number): Instruction => [0x85, 0, 0, helper],
  exit: (): Instruction => [0x95, 0, 0, 0],
} as const;

function assemble(program: readonly Instruction[]): Uint8Array {
  const bytes = new Uint8Array(program.length * 8);
  const view = new DataView(bytes.buffer);
  program.forEach(([code, destination, source, immediate], index) => {
    view.setUint8(index * 8, code);
    view.setUint8(index * 8 + 1, (source << 4) | destination);
    view.setInt32(index * 8 + 4, immediate, true);
  });
  return bytes;
}

/** Arguments of BPF_PROG_LOAD. Omitted numbers are 0. */
export interface ProgramRequest {
  /** enum bpf_prog_type. */
  readonly type: number;
  /** enum bpf_attach_type; for struct_ops the index of the member. */
  readonly expectedAttachType?: number;
  /** The BTF type ID of the program's target, in the kernel or in `attachProgram`. */
  readonly attachBtfId?: number;
  readonly attachProgram?: Descriptor;
  /** BPF_F_* of bpf.h. */
  readonly flags?: number;
  readonly instructions: readonly Instruction[];
  /** BTF of the program and the type id of its only function. */
  readonly btf?: { readonly descriptor: Descriptor; readonly functionId: number };
}

/** BPF_PROG_LOAD. The caller disposes the descriptor. */
export function loadProgram(request: ProgramRequest): Outcome {
  const log = new Uint8Array(64 * 1024);
  const code = assemble(request.instructions);
  // A pending signal makes the verifier give up with EAGAIN. libbpf also tries five times.
  for (let attempt = 1; ; attempt++) {
    log.fill(0);
    const attr = new Structure(144)
      .u32(0, request.type)
      .u32(4, request.instructions.length)
      .pointer(8, code)
      .pointer(16, nulTerminated('GPL'))
      .u32(24, 1)
      .u32(28, log.byteLength)
      .pointer(32, log)
      .u32(44, request.flags ?? 0)
      .u32(68, request.expectedAttachType ?? 0)
      .u32(108, request.attachBtfId ?? 0)
      .u32(112, request.attachProgram?.fd ?? 0);
    if (request.btf !== undefined) {
      const functionInfo = new Structure(8).u32(0, 0).u32(4, request.btf.functionId);
      attr.u32(72, request.btf.descriptor.fd).u32(76, 8).pointer(80, functionInfo.bytes).u32(88, 1);
    }
    const outcome = bpf(command.PROG_LOAD, attr, log);
    if (outcome instanceof Descriptor || outcome.errno !== constants.errno.EAGAIN || attempt === 5)
      return outcome;
  }
}

/** BPF_MAP_CREATE. A ring buffer has neither keys nor values. */
export function createMap(
  type: number,
  maxEntries: number,
  { keySizeBytes = 0, valueSizeBytes = 0, name = '' } = {},
): Outcome {
  const attr = new Structure(72).u32(0, type).u32(4, keySizeBytes).u32(8, valueSizeBytes).u32(12, maxEntries);
  attr.bytes.set(Buffer.from(name.slice(0, 15), 'latin1'), 28);
  return bpf(command.MAP_CREATE, attr);
}

/** BPF_MAP_CREATE of an array with separate values for each CPU (since 4.6). */
export function createPerCpuArray(valueSizeBytes: number, maxEntries: number, name: string): Outcome {
  const BPF_MAP_TYPE_PERCPU_ARRAY = 6;
  return createMap(BPF_MAP_TYPE_PERCPU_ARRAY, maxEntries, { keySizeBytes: 4, valueSizeBytes, name });
}

/** BPF_MAP_CREATE of an array of programs. The kernel empties it once it has no pin and no open descriptor, even if programs use it. */
export function createProgramArray(maxEntries: number, name: string): Outcome {
  const BPF_MAP_TYPE_PROG_ARRAY = 3;
  return createMap(BPF_MAP_TYPE_PROG_ARRAY, maxEntries, { keySizeBytes: 4, valueSizeBytes: 4, name });
}

/** BPF_MAP_UPDATE_ELEM of an array of programs, whose keys and values have 4 bytes. */
export function setProgram(array: Descriptor, index: number, program: Descriptor): Refusal | undefined {
  const [key, value] = [new Structure(4).u32(0, index), new Structure(4).u32(0, program.fd)];
  return bpfDo(
    command.MAP_UPDATE_ELEM,
    new Structure(32).u32(0, array.fd).pointer(8, key.bytes).pointer(16, value.bytes),
  );
}

/** bpf(2) for commands that return 0. @returns undefined if the kernel accepted the command */
export function bpfDo(commandNumber: number, attr: Structure): Refusal | undefined {
  const result = libc.bpf(syscallNumbers.bpf, commandNumber, attr.bytes, attr.bytes.byteLength);
  const refusal = result < 0 ? { errno: errno(), log: '' } : undefined;
  attr.release();
  return refusal;
}

/** BPF_BTF_LOAD. */
export function loadBtf(btf: Uint8Array): Outcome {
  const log = new Uint8Array(16 * 1024);
  const attr = new Structure(32)
    .pointer(0, btf)
    .pointer(8, log)
    .u32(16, btf.byteLength)
    .u32(20, log.byteLength)
    .u32(24, 1);
  return bpf(command.BTF_LOAD, attr, log);
}

/**
 * BPF_RAW_TRACEPOINT_OPEN: attaches to the tracepoint `name`, or, with `null`, to the function that
 * the program was loaded for (fentry, fexit, LSM and freplace programs). Closing detaches.
 */
export function openRawTracepoint(program: Descriptor, name: string | null): Outcome {
  const attr = new Structure(16).u32(8, program.fd);
  if (name !== null) attr.pointer(0, nulTerminated(name));
  return bpf(command.RAW_TRACEPOINT_OPEN, attr);
}

/** BPF_LINK_CREATE on a file descriptor or an interface index. */
export function createLink(
  program: Pick<Descriptor, 'fd'>,
  target: number,
  attachType: number,
  flags = 0,
): Outcome {
  const attr = new Structure(64).u32(0, program.fd).u32(4, target).u32(8, attachType).u32(12, flags);
  return bpf(command.LINK_CREATE, attr);
}

/** BPF_LINK_CREATE of a kprobe.multi link on one kernel function, since 5.18. */
export function createKprobeMultiLink(program: Descriptor, attachType: number, symbol: string): Outcome {
  const symbols = new Structure(8).pointer(0, nulTerminated(symbol));
  const attr = new Structure(64).u32(0, program.fd).u32(8, attachType).u32(20, 1).pointer(24, symbols.bytes);
  const outcome = bpf(command.LINK_CREATE, attr);
  symbols.release();
  return outcome;
}

/** Arguments of perf_event_open(2). */
export interface PerfEventRequest {
  /** A fixed type of perf_event.h or the number in /sys/bus/event_source/devices/NAME/type. */
  readonly type: number;
  readonly config: bigint;
  /** `config1` as a C string: the function of a kprobe, the file of a uprobe. */
  readonly name?: string;
  /** `config2`: the offset in that function or file. */
  readonly probeOffset?: bigint;
  readonly samplePeriod?: bigint;
  /** PERF_SAMPLE_* of perf_event.h. */
  readonly sampleType?: bigint;
  /** After how many samples a poller is woken. */
  readonly wakeupEvents?: number;
  /** -1 for all processes, 0 for this one. */
  readonly pid: number;
  /** -1 for all CPUs, which is possible only for a single process. */
  readonly cpu: number;
}

const PERF_FLAG_FD_CLOEXEC = 8;
const PERF_EVENT_IOC_SET_BPF = 0x40042408;
const PERF_EVENT_IOC_ENABLE = 0x2400;

/** perf_event_open(2) of a disabled event. The caller disposes the descriptor. */
export function openPerfEvent(request: PerfEventRequest): Outcome {
  const attr = new Structure(112)
    .u32(0, request.type)
    .u32(4, 112)
    .u64(8, request.config)
    .u64(16, request.samplePeriod ?? 0n)
    .u64(24, request.sampleType ?? 0n)
    .u32(40, 1)
    .u32(48, request.wakeupEvents ?? 0)
    .u64(64, request.probeOffset ?? 0n);
  if (request.name !== undefined) attr.pointer(56, nulTerminated(request.name));
  const { pid, cpu } = request;
  const outcome = outcomeOf(
    libc.perfEventOpen(syscallNumbers.perfEventOpen, attr.bytes, pid, cpu, -1, PERF_FLAG_FD_CLOEXEC),
  );
  attr.release();
  return outcome;
}

/** Attaches a program to an event; closing the event detaches it. @returns undefined if the kernel accepted it */
export function setPerfEventProgram(event: Descriptor, program: Descriptor): Refusal | undefined {
  const result = libc.ioctl(event.fd, PERF_EVENT_IOC_SET_BPF, program.fd);
  return result < 0 ? { errno: errno(), log: '' } : undefined;
}

/** Enables an event, which counts from now on. @returns undefined if the kernel accepted it */
export function enablePerfEvent(event: Descriptor): Refusal | undefined {
  return libc.ioctl(event.fd, PERF_EVENT_IOC_ENABLE, 0) < 0 ? { errno: errno(), log: '' } : undefined;
}
