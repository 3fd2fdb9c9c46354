/**
 * The programs on the hooks while a loop is measured: nothing, empty programs, the sensor, and the ways of
 * doing its work that were not chosen.
 */
import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

import { errno, libbpf, libc, syscallNumbers } from '../../lib/ebpf/ffi.ts';
import type { BpfLink } from '../../lib/ebpf/link.ts';
import type { BpfMap, MappedMemory } from '../../lib/ebpf/map.ts';
import { BpfObject } from '../../lib/ebpf/object.ts';
import { everyAccess, type FileIdentity } from '../../lib/sensor/access.ts';
import { counters, identity, settings, state } from '../../lib/sensor/layout.ts';
import { sensorMode, type SensorModeName } from '../../lib/sensor/modes.ts';
import { syscallTablesOf } from '../../lib/sensor/syscalls.ts';
import { Targets } from '../../lib/sensor/targets.ts';

const ENOENT = 2;
/** enum bpf_cmd and enum bpf_link_type, include/uapi/linux/bpf.h */
const command = { LINK_GET_FD_BY_ID: 30, LINK_GET_NEXT_ID: 31 } as const;
const tracingLinkTypes: ReadonlySet<number> = new Set([1, 2, 7, 8]); // raw tracepoint, tracing, perf event, kprobe multi

/** The programs of the variant that has one tracepoint per system call. */
const openFamily = ['open', 'creat', 'openat', 'openat2'] as const;
const dataFamily = ['read', 'pread64', 'readv', 'write', 'pwrite64', 'writev', 'mmap', 'truncate'] as const;

/** Inode numbers that no file here has, on the device of the measured file. */
export function* absentFiles(device: number, from: number, to: number): Generator<FileIdentity> {
  for (let i = from; i < to; i++) yield { inode: 2n ** 40n + BigInt(i), device, generation: 0 };
}

/** An object of bench/sensor/bpf, loaded and attached; dispose it to detach and unload. */
export class Attached implements Disposable {
  readonly #object: BpfObject;
  #links: readonly BpfLink[] = [];
  #memory: MappedMemory | undefined;

  private constructor(objectFile: string) {
    this.#object = BpfObject.open(readFileSync(objectFile), basename(objectFile, '.bpf.o'));
  }

  /** Empty programs on the hooks of a mode: empty.bpf.c. */
  static empty(objectFile: string, mode: SensorModeName): Attached {
    return new Attached(objectFile).#start(sensorMode(mode).programs, (object) =>
      sensorMode(mode).attach(object),
    );
  }

  /** The raw tracepoint mode as on kernels that have no typed loads: probe_reads.bpf.c. */
  static probeReads(objectFile: string): Attached {
    const mode = sensorMode('raw_tracepoint');
    const attached = new Attached(objectFile).#configure();
    return attached.#start([...mode.programs, 'identify'], (object) => mode.attach(object));
  }

  /** One tracepoint per system call instead of one for all, the opens or all that touch files: per_syscall.bpf.c. */
  static perSyscall(objectFile: string, all: boolean): Attached {
    const programs = [...openFamily, ...(all ? dataFamily : [])].map((name) => `after_${name}`);
    const attached = new Attached(objectFile).#configure();
    return attached.#start([...programs, 'identify'], (object) =>
      programs.map((program) => object.program(program).attach()),
    );
  }

  #configure(): this {
    const tables = syscallTablesOf(process.arch);
    const rodata = this.#object.initialValue('.rodata');
    rodata.set(tables.native, settings.nativeSyscalls);
    rodata.set(tables.compat, settings.compatSyscalls);
    return this;
  }

  #start(programs: readonly string[], attach: (object: BpfObject) => readonly BpfLink[]): this {
    try {
      const wanted = new Set(programs);
      for (const program of this.#object.programs()) program.autoload = wanted.has(program.name);
      this.#object.load();
      this.#links = attach(this.#object);
      return this;
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** Puts files into the map of targets. */
  watch(files: Iterable<FileIdentity>): void {
    const targets = new Targets(this.#targets, () => undefined);
    const watcher = { filter: everyAccess };
    for (const file of files) targets.add(file, watcher);
  }

  get #targets(): BpfMap {
    return this.#object.map('targets');
  }

  /** The programs' identity of the file behind `fd`. */
  identify(fd: number): FileIdentity {
    this.#object.program('identify').testRun(new Uint8Array(new BigUint64Array([BigInt(fd), 0n]).buffer));
    const at = (field: number): number => state.identity + field;
    const { view } = this.#state;
    return {
      inode: view.getBigUint64(at(identity.inode), true),
      device: view.getUint32(at(identity.device), true),
      generation: view.getUint32(at(identity.generation), true),
    };
  }

  /** Accesses the programs have seen. */
  get produced(): number {
    return Number(this.#state.view.getBigUint64(state.counters + counters.produced, true));
  }

  get #state(): MappedMemory {
    this.#memory ??= this.#object.map('.bss').mapMemory();
    return this.#memory;
  }

  [Symbol.dispose](): void {
    for (const link of this.#links) link[Symbol.dispose]();
    this.#memory?.[Symbol.dispose]();
    this.#object[Symbol.dispose]();
  }
}

/**
 * How many tracing programs are attached on this machine, by any process: should be 0 before a measurement.
 */
export function attachedTracingPrograms(): number {
  const attr = new Uint32Array(4);
  const bytes = new Uint8Array(attr.buffer);
  const info = new Uint8Array(256);
  let count = 0;
  for (let id = 0; ;) {
    attr.set([id, 0, 0, 0]);
    if (libc.bpf(syscallNumbers.bpf, command.LINK_GET_NEXT_ID, bytes, bytes.byteLength) < 0) {
      if (errno() === ENOENT) return count;
      throw new Error(`cannot list the eBPF links: errno ${errno()}`);
    }
    id = attr[1] ?? 0;
    attr.set([id, 0, 0, 0]);
    const fd = libc.bpf(syscallNumbers.bpf, command.LINK_GET_FD_BY_ID, bytes, bytes.byteLength);
    if (fd < 0) continue; // gone meanwhile
    if (libbpf().infoByFd(fd, info, [info.byteLength]) === 0) {
      if (tracingLinkTypes.has(new DataView(info.buffer).getUint32(0, true))) count++;
    }
    libc.close(fd);
  }
}
