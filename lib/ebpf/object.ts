/** eBPF objects: the programs and maps of one `.bpf.o`, opened, configured, loaded and released. */
import { errorCodes, RampartError } from '../errors/errors.ts';
import {
  errno,
  fileCalls,
  libbpf,
  libc,
  type Pointer,
  syscallNumbers,
  viewMemory,
  withLibbpfLog,
  type Libbpf,
} from './ffi.ts';
import {
  doNotAskForModules,
  type KernelTypes,
  mayAskForModules,
  openOptions,
  typesWithModule,
} from './kernel-types.ts';
import { INSTRUCTION_BYTES, Instructions } from './instructions.ts';
import { errnoName, FixedBuffer } from './libc.ts';
import { BpfLink } from './link.ts';
import { BpfMap } from './map.ts';
import { shownLog } from './verifier-log.ts';

/** Runs a libbpf call. If `failed` is true for its result, throws an error with libbpf's log. */
export function checked<T>(what: string, call: (lib: Libbpf) => T, failed: (result: T) => boolean): T {
  const { result, log } = withLibbpfLog(call);
  if (!failed(result)) return result;
  throw failure(what, errno(), log);
}

function failure(what: string, code: number, log: string): RampartError {
  // EACCES is the verifier's answer to a program, but EPERM is the kernel's answer to the caller.
  const permission = code === 1;
  return new RampartError(errorCodes.EBPF, {
    what,
    why: errnoName(code),
    ...(permission && {
      next: 'The kernel refuses it: root with CAP_BPF, CAP_PERFMON or CAP_SYS_ADMIN is required, and some kernels forbid this kind of program; see `rampart doctor`',
    }),
    detail: shownLog(log),
  });
}

const BPF_PROG_TEST_RUN = 10;
/** Offsets of the fields of `test` in `union bpf_attr` (include/uapi/linux/bpf.h). */
const testRunAt = {
  programFd: 0,
  result: 4,
  contextSizeBytes: 40,
  context: 48,
  sizeBytes: 80,
} as const;

/** One program of an object, which is released with the object. */
export class BpfProgram {
  readonly name: string;
  readonly #owned: () => Pointer;

  /** @param owned - Returns the program; throws `DISPOSED` if its object is closed, since the memory is then freed. */
  constructor(owned: () => Pointer, name: string) {
    this.#owned = owned;
    this.name = name;
  }

  get #pointer(): Pointer {
    return this.#owned();
  }

  /** Whether {@link BpfObject.load} loads this program. Set it before loading. */
  set autoload(load: boolean) {
    libbpf().programSetAutoload(this.#pointer, load);
  }

  /** The section name in the object file: `xdp.frags`, `fentry/do_unlinkat`. */
  get section(): string {
    return libbpf().programSectionName(this.#pointer);
  }

  /** enum bpf_prog_type, determined by the section or {@link setType}; 0 for a section that libbpf does not know. */
  get type(): number {
    return libbpf().programType(this.#pointer);
  }

  /** Overrides the types that the section determines: enum bpf_prog_type and bpf_attach_type. Call before loading. */
  setType(type: number, expectedAttachType: number): void {
    const lib = libbpf();
    lib.programSetType(this.#pointer, type);
    lib.programSetExpectedAttachType(this.#pointer, expectedAttachType);
  }

  /** Sets the target of a fentry or fexit program. Call before loading. @throws {RampartError} `EBPF`; ESRCH: no such kernel function. */
  setAttachTarget(functionName: string): void {
    checked(
      `cannot attach eBPF program ${this.name} to ${functionName}`,
      (lib) => lib.programSetAttachTarget(this.#pointer, 0, functionName),
      (result) => result !== 0,
    );
  }

  /**
   * Sends the verifier's log to `buffer`, even if it accepts the program. Call before loading.
   *
   * @param level - BPF_LOG_*: 4 for only its statistics, 1 for its path through the program.
   */
  logTo(buffer: FixedBuffer, level: number): void {
    buffer.bytes.fill(0);
    const lib = libbpf();
    lib.programSetLogBuffer(this.#pointer, buffer.bytes, buffer.bytes.byteLength);
    lib.programSetLogLevel(this.#pointer, level);
  }

  /** A copy of the instructions that the verifier got: relocated, with subprograms and with the descriptors of the object's maps. */
  instructions(): Instructions {
    const lib = libbpf();
    const address = lib.programInsns(this.#pointer);
    const sizeBytes = Number(lib.programInsnCount(this.#pointer)) * INSTRUCTION_BYTES;
    if (address === null || sizeBytes === 0)
      throw new RampartError(errorCodes.EBPF, { what: `eBPF program ${this.name} is not loaded` });
    return new Instructions(Uint8Array.from(new Uint8Array(viewMemory(address, sizeBytes))));
  }

  /** The descriptor of the loaded program; owned by the object. */
  get fd(): number {
    return libbpf().programFd(this.#pointer);
  }

  /**
   * Attaches to the target in the section name (`fexit/FUNCTION`, `kprobe/FUNCTION`, `raw_tp/NAME`). The caller disposes
   * the link; the kernel also removes it when this process ends.
   *
   * @throws {RampartError} `EBPF` with the kernel's reason.
   */
  attach(): BpfLink {
    const link = checked(
      `cannot attach eBPF program ${this.name}`,
      (lib) => lib.programAttach(this.#pointer),
      (result) => result === null,
    );
    return new BpfLink(link as Pointer, this.name);
  }

  /** Attaches to the raw tracepoint `name`; otherwise like {@link attach}. */
  attachRawTracepoint(name: string): BpfLink {
    const link = checked(
      `cannot attach eBPF program ${this.name} to raw tracepoint ${name}`,
      (lib) => lib.programAttachRawTracepoint(this.#pointer, name),
      (result) => result === null,
    );
    return new BpfLink(link as Pointer, `${this.name}@${name}`);
  }

  /** Runs the program once (BPF_PROG_TEST_RUN; raw tracepoints since 5.10) and returns its return value. */
  testRun(context: Uint8Array): number {
    const memory = new FixedBuffer(context.byteLength);
    memory.bytes.set(context);
    return this.prepareRun(memory)();
  }

  /** Like {@link testRun}, for many runs: a call allocates no JavaScript object, and reads the present content of `context`. */
  prepareRun(context: FixedBuffer): () => number {
    const request = new FixedBuffer(testRunAt.sizeBytes);
    request.bytes.fill(0);
    request.bytes.writeUInt32LE(this.fd, testRunAt.programFd);
    request.bytes.writeUInt32LE(context.bytes.byteLength, testRunAt.contextSizeBytes);
    request.bytes.writeBigUInt64LE(BigInt(context.address), testRunAt.context);
    // The kernel reads the context by its address, so it has to stay referenced as long as the request.
    const held = { request, context };
    return () => {
      // Throws if the object is closed: then the descriptor may belong to another file.
      this.#owned();
      const { bytes, address } = held.request;
      if (fileCalls.bpf(syscallNumbers.bpf, BPF_PROG_TEST_RUN, address, testRunAt.sizeBytes) !== 0)
        throw failure(`cannot run eBPF program ${this.name}`, errno(), '');
      return bytes.readUInt32LE(testRunAt.result);
    };
  }

  /** How often the kernel skipped this program because it was already running on that CPU (since 5.12). */
  get recursionMisses(): bigint {
    // struct bpf_prog_info, include/uapi/linux/bpf.h: recursion_misses at byte 208.
    const info = new Uint8Array(216);
    const size: [number] = [info.byteLength];
    if (libbpf().infoByFd(this.fd, info, size) !== 0) return 0n;
    return size[0] >= 216 ? new DataView(info.buffer).getBigUint64(208, true) : 0n;
  }
}

/** An opened `.bpf.o`. Disposing it unloads its programs and maps; dispose the links first. */
export class BpfObject implements Disposable {
  readonly name: string;
  #pointer: Pointer | null;
  // libbpf keeps pointers into these bytes until the object is closed.
  readonly #bytes: Uint8Array;
  // libbpf reads these when the object is loaded.
  #types: KernelTypes | undefined;

  private constructor(pointer: Pointer, name: string, bytes: Uint8Array, types: KernelTypes | undefined) {
    this.#pointer = pointer;
    this.name = name;
    this.#bytes = bytes;
    this.#types = types;
  }

  /** Opens an object without loading it. @throws {RampartError} `EBPF`: not an eBPF object; `UNSUPPORTED`: no libbpf */
  static open(bytes: Uint8Array, name: string): BpfObject {
    const asks = mayAskForModules();
    const types = asks ? undefined : typesWithModule();
    try {
      const held = types && openOptions(types.path);
      const pointer = checked(
        `cannot open eBPF object ${name}`,
        (lib) => lib.objectOpenMem(bytes, bytes.byteLength, held?.options.bytes ?? null),
        (result) => result === null,
      ) as Pointer;
      if (!asks) doNotAskForModules(pointer);
      return new BpfObject(pointer, name, bytes, types);
    } catch (error) {
      types?.[Symbol.dispose]();
      throw error;
    }
  }

  /**
   * Creates the maps, relocates the programs for this kernel and has its verifier check them.
   *
   * @throws {RampartError} `EBPF` with the verifier's last lines.
   */
  load(): void {
    const pointer = this.#alive();
    checked(
      `cannot load eBPF object ${this.name}`,
      (lib) => lib.objectLoad(pointer),
      (result) => result !== 0,
    );
    this.#closeTypes();
    // libbpf parsed the kernel's BTF, some megabytes, and freed it: this returns the memory to the kernel.
    libc.mallocTrim(0);
  }

  /** All programs, in the order of the file. */
  programs(): readonly BpfProgram[] {
    const pointer = this.#alive();
    const lib = libbpf();
    const found: BpfProgram[] = [];
    for (
      let program = lib.objectNextProgram(pointer, null);
      program !== null;
      program = lib.objectNextProgram(pointer, program)
    ) {
      found.push(new BpfProgram(this.#owning(program), lib.programName(program)));
    }
    return found;
  }

  /** All maps, including those of global variables, in the order of the file. */
  maps(): readonly BpfMap[] {
    const pointer = this.#alive();
    const lib = libbpf();
    const found: BpfMap[] = [];
    for (let map = lib.objectNextMap(pointer, null); map !== null; map = lib.objectNextMap(pointer, map))
      found.push(new BpfMap(this.#owning(map), lib.mapName(map)));
    return found;
  }

  /** A copy of the object's raw BTF; undefined if it has no BTF. */
  types(): Uint8Array | undefined {
    const lib = libbpf();
    const btf = lib.objectBtf(this.#alive());
    if (btf === null) return undefined;
    const size: [number] = [0];
    const address = lib.btfRawData(btf, size);
    return address === null ? undefined : Uint8Array.from(new Uint8Array(viewMemory(address, size[0])));
  }

  program(name: string): BpfProgram {
    const pointer = libbpf().objectFindProgram(this.#alive(), name);
    if (pointer === null) throw this.#missing('program', name);
    return new BpfProgram(this.#owning(pointer), name);
  }

  map(name: string): BpfMap {
    const pointer = libbpf().objectFindMap(this.#alive(), name);
    if (pointer === null) throw this.#missing('map', name);
    return new BpfMap(this.#owning(pointer), name);
  }

  /** The initial bytes of a data map (`.rodata`), which can be written before {@link load}. A view: do not keep it. */
  initialValue(mapName: string): Uint8Array {
    const lib = libbpf();
    const map = lib.objectFindMap(this.#alive(), mapName);
    if (map === null) throw this.#missing('map', mapName);
    const size: [bigint | number] = [0];
    const address = lib.mapInitialValue(map, size);
    if (address === null) throw this.#missing('initial value of map', mapName);
    return new Uint8Array(viewMemory(address, Number(size[0])));
  }

  #alive(): Pointer {
    if (this.#pointer === null) {
      throw new RampartError(errorCodes.DISPOSED, { what: `eBPF object ${this.name} is closed` });
    }
    return this.#pointer;
  }

  /** Returns a function that gives a pointer into the object, or throws `DISPOSED` once it is closed. */
  #owning(pointer: Pointer): () => Pointer {
    return () => {
      this.#alive();
      return pointer;
    };
  }

  #missing(kind: string, name: string): RampartError {
    return new RampartError(errorCodes.EBPF, {
      what: `eBPF object ${this.name} has no ${kind} ${name}`,
      why: `the file of ${this.#bytes.byteLength} bytes is from another version`,
      next: 'Reinstall, or rebuild it with scripts/build-bpf',
    });
  }

  #closeTypes(): void {
    this.#types?.[Symbol.dispose]();
    this.#types = undefined;
  }

  [Symbol.dispose](): void {
    this.#closeTypes();
    if (this.#pointer === null) return;
    libbpf().objectClose(this.#pointer);
    this.#pointer = null;
  }
}
