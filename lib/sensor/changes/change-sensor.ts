/** The kernel's side of the change watch: which process changes what is in a watched directory. */
import { readFileSync } from 'node:fs';

import { probeFeatures } from '../../ebpf/features/features.ts';
import type { BpfLink } from '../../ebpf/link.ts';
import type { BpfMap, MappedMemory } from '../../ebpf/map.ts';
import { BpfObject } from '../../ebpf/object.ts';
import { openRingBuffer, type RingBuffer } from '../../ebpf/ring-buffer.ts';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { FileIdentity } from '../access.ts';
import { WallClock } from '../clock.ts';
import { Identifier } from '../identify.ts';
import { counters as counterAt, settings as settingsAt, state as stateAt, targetKey } from '../layout.ts';
import {
  attachAll,
  attachIfThere,
  changeTimeTracepoints,
  dirtyTracepoint,
  firstLine,
  firstMissing,
  needs,
} from '../modes.ts';
import { directory as directoryAt } from './layout.ts';
import { ChangeRecords, type SeenChange } from './records.ts';
import { changeTablesOf } from './syscalls.ts';

const OBJECT_FILE = new URL('../bpf/changes.bpf.o', import.meta.url);
/** Holds some 10,000 changes, or 1,000 processes. */
const RING_BYTES = 1024 * 1024;
/** `struct work.record` of bpf/record.h. */
const MAX_RECORD_BYTES = 8192;
const KERNEL_BTF_MISSING = 'this kernel has no BTF';

/**
 * How changes are seen. `raw_tracepoint`: when the kernel sets an inode's change time (since 6.13) or marks it dirty.
 * `kprobe`: in addition at each inotify event, in the process that caused it.
 */
const changeSensorModes = ['kprobe', 'raw_tracepoint'] as const;
export type ChangeSensorMode = (typeof changeSensorModes)[number];

interface ChangeSensorOptions {
  readonly mode: ChangeSensorMode | 'auto';
  readonly onSeen: (seen: SeenChange) => void;
  /** Called after each batch of seen changes. */
  readonly onBatchEnd: () => void;
  readonly onProblem: (problem: unknown) => void;
}

/** Counts since it was opened. */
export interface ChangeSensorStats {
  /** Changes in watched directories that the programs saw. */
  readonly produced: number;
  /** How many of these were reported. */
  readonly emitted: number;
  /** Events left out, because an equal one was already reported since user space last read everything. */
  readonly folded: number;
  /** Records that were lost because the ring was full. */
  readonly lost: number;
}

/** Loaded and attached programs. The caller disposes it; the kernel drops everything when the process ends. */
export class ChangeSensor implements Disposable {
  readonly mode: ChangeSensorMode;
  readonly #object: BpfObject;
  readonly #memory: MappedMemory;
  readonly #counters: DataView;
  readonly #identifier: Identifier;
  readonly #directories: BpfMap;
  readonly #devices: BpfMap;
  readonly #deviceUses = new Map<number, number>();
  readonly #clock = new WallClock();
  readonly #records: ChangeRecords;
  readonly #ring: RingBuffer;
  readonly #links: readonly BpfLink[];
  #reading = false;
  #final: ChangeSensorStats | undefined;

  private constructor(mode: ChangeSensorMode, object: BpfObject, options: ChangeSensorOptions) {
    this.mode = mode;
    this.#object = object;
    using undo = new DisposableStack();
    this.#memory = undo.use(object.map('.bss').mapMemory());
    const state = this.#memory.view;
    this.#counters = new DataView(state.buffer, stateAt.counters, counterAt.sizeBytes);
    this.#identifier = new Identifier(object, state);
    this.#records = new ChangeRecords(this.#clock, this.#identifier.ownPid());
    this.#directories = object.map('directories');
    this.#devices = object.map('devices');
    this.#ring = undo.use(
      openRingBuffer({
        mapFd: object.map('ring').fd,
        sizeBytes: RING_BYTES,
        maxRecordBytes: MAX_RECORD_BYTES,
        onBatch: (batch) => {
          this.#reading = true;
          try {
            this.#records.read(batch, options.onSeen);
          } finally {
            this.#reading = false;
          }
          options.onBatchEnd();
        },
        onError: (problem) => options.onProblem(problem),
      }),
    );
    this.#links = attach(object, mode);
    undo.move();
  }

  /** Takes the better mode that the kernel accepts. @throws {RampartError} `UNSUPPORTED` with each reason. */
  static open(options: ChangeSensorOptions): ChangeSensor {
    const candidates = options.mode === 'auto' ? changeSensorModes : [options.mode];
    const features = probeFeatures(['kprobe', 'raw_tracepoint']);
    const reasons: string[] = [];
    for (const mode of candidates) {
      const hooks =
        mode === 'kprobe' ? (['kprobe', 'raw_tracepoint'] as const) : (['raw_tracepoint'] as const);
      const missing = features.btf.available ? firstMissing(needs(features, ...hooks)) : KERNEL_BTF_MISSING;
      if (missing !== undefined) {
        reasons.push(`${mode}: ${missing}`);
        continue;
      }
      let object: BpfObject | undefined;
      try {
        object = load(mode);
        return new ChangeSensor(mode, object, options);
      } catch (error) {
        object?.[Symbol.dispose]();
        if (!(error instanceof RampartError) || error.code !== errorCodes.EBPF) throw error;
        reasons.push(`${mode}: ${options.mode === 'auto' ? firstLine(error.message) : error.message}`);
      }
    }
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'this kernel does not report who changes files',
      why: reasons.join('; '),
      next: 'See `rampart doctor`',
    });
  }

  /** @throws {RampartError} `SYSTEM` when `fd` is not open. */
  identify(fd: number): FileIdentity {
    return this.#identifier.identify(fd);
  }

  /** From now on reports changes of this directory and the names in it. @throws {RampartError} `LIMIT` when the map is full. */
  add(identity: FileIdentity, id: number): void {
    const value = new DataView(new ArrayBuffer(directoryAt.sizeBytes));
    value.setUint32(directoryAt.id, id, true);
    this.#directories.set(keyBytes(identity), new Uint8Array(value.buffer));
    const uses = this.#deviceUses.get(identity.device) ?? 0;
    this.#deviceUses.set(identity.device, uses + 1);
    if (uses > 0) return;
    try {
      this.#devices.set(deviceBytes(identity.device), deviceBytes(1));
    } catch (error) {
      // The map has room for 1,024 devices. On further ones, the author of a new name is unknown if the file has no other change.
      if (!(error instanceof RampartError) || error.code !== errorCodes.LIMIT) throw error;
    }
  }

  /** @param id - The one given to `add`: by now the inode number may belong to another directory, with another id. */
  delete(identity: FileIdentity, id: number): void {
    const key = keyBytes(identity);
    const value = this.#directories.lookup(key);
    if (value !== undefined && new DataView(value.buffer).getUint32(directoryAt.id, true) === id) {
      this.#directories.delete(key);
    }
    const uses = this.#deviceUses.get(identity.device) ?? 0;
    if (uses > 1) {
      this.#deviceUses.set(identity.device, uses - 1);
    } else if (this.#deviceUses.delete(identity.device)) {
      this.#devices.delete(deviceBytes(identity.device));
    }
  }

  /** From here on, a process and a change that were reported before are reported again. */
  nextEpoch(): void {
    const { view } = this.#memory;
    view.setUint32(stateAt.epoch, (view.getUint32(stateAt.epoch, true) + 1) >>> 0, true);
  }

  /** Delivers the records that are in the ring now; within a callback it does nothing. */
  drain(): void {
    if (!this.#reading && this.#final === undefined) this.#ring.drain();
  }

  /** Call it now and then while changes are reported, and after them: forgets processes. */
  forget(): void {
    this.nextEpoch();
    this.drain();
    this.#records.forget();
    this.#clock.refresh();
  }

  stats(): ChangeSensorStats {
    if (this.#final !== undefined) return this.#final;
    const count = (field: number): number => Number(this.#counters.getBigUint64(field, true));
    return {
      produced: count(counterAt.produced),
      emitted: count(counterAt.emitted),
      folded: count(counterAt.folded),
      lost: count(counterAt.lostRingFull) + this.#ring.totals.failed,
    };
  }

  [Symbol.dispose](): void {
    if (this.#final !== undefined) return;
    for (const link of this.#links) link[Symbol.dispose]();
    this.#final = this.stats();
    this.#ring[Symbol.dispose]();
    this.#memory[Symbol.dispose]();
    this.#object[Symbol.dispose]();
  }
}

function load(mode: ChangeSensorMode): BpfObject {
  const object = BpfObject.open(readFileSync(OBJECT_FILE), 'changes');
  try {
    for (const program of object.programs()) {
      program.autoload = program.name !== 'inotify_event' || mode === 'kprobe';
    }
    object.map('ring').maxEntries = RING_BYTES;
    const rodata = object.initialValue('.rodata');
    const tables = changeTablesOf(process.arch);
    rodata.set(tables.native, settingsAt.nativeSyscalls);
    rodata.set(tables.compat, settingsAt.compatSyscalls);
    object.load();
    return object;
  } catch (error) {
    object[Symbol.dispose]();
    throw error;
  }
}

function attach(object: BpfObject, mode: ChangeSensorMode): readonly BpfLink[] {
  const links = attachAll(
    changeTimeTracepoints.map((name) => () => attachIfThere(object, 'change_time', name)),
  );
  try {
    if (links.length === 0) {
      links.push(
        ...attachAll(
          // ext4 has a tracepoint of its own, because it marks inodes dirty in its journal (include/trace/events/ext4.h).
          [dirtyTracepoint, 'ext4_mark_inode_dirty'].map(
            (name) => () => attachIfThere(object, 'inode_dirty', name),
          ),
        ),
      );
    }
    if (mode === 'kprobe') links.push(object.program('inotify_event').attach());
    if (links.length > 0) return links;
    throw new RampartError(errorCodes.EBPF, {
      what: 'cannot see changes of inodes',
      why: 'this kernel has none of the tracepoints that report them',
    });
  } catch (error) {
    for (const link of links) link[Symbol.dispose]();
    throw error;
  }
}

function keyBytes(identity: FileIdentity): Uint8Array {
  const key = new DataView(new ArrayBuffer(targetKey.sizeBytes));
  key.setBigUint64(targetKey.inode, identity.inode, true);
  key.setUint32(targetKey.device, identity.device, true);
  return new Uint8Array(key.buffer);
}

function deviceBytes(value: number): Uint8Array {
  return new Uint8Array(Uint32Array.of(value).buffer);
}
