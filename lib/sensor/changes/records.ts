/** Decodes the records of the programs of changes.bpf.c: processes, and their changes. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { RingBatch } from '../../ebpf/ring.ts';
import type { WallClock } from '../clock.ts';
import { record as processAt } from '../layout.ts';
import { AccessRecord, joinPath } from '../record.ts';
import type { ByteString, ChangeProcess } from './change.ts';
import {
  change as at,
  changeCalls,
  changeFlags,
  processRecord,
  recordTypes,
  type ChangeCall,
} from './layout.ts';

/** How many different texts are remembered. Each process is sent once between two reports, so few texts come twice. */
const REMEMBERED_TEXTS = 16;

export interface SeenChange {
  /** Undefined when its record was lost. */
  readonly process: ChangeProcess | undefined;
  /** Id of the watched directory. */
  readonly directory: number;
  /** The name in the directory; undefined: the directory itself. */
  readonly name: ByteString | undefined;
  /** Inode of the file of that name, or of the one created in the directory; 0n if unknown. */
  readonly inode: bigint;
  readonly device: number;
  readonly generation: number;
  /** Mask of the inotify event; 0: the inode was seen to change without an event, and only `call` may say how. */
  readonly mask: number;
  readonly call: ChangeCall;
  /** How the inode got a name in the directory, whichever that is: `made`: it is new; `named`: it was renamed or linked. */
  readonly put: 'made' | 'named' | undefined;
  /** Wall clock, ms since 1970. */
  readonly atMs: number;
}

/**
 * Keeps the processes from records for two generations. A change names its process by PID and `facts`, the number of a state of the
 * process; the record of that state may have come before the last call of {@link ChangeRecords.forget}.
 */
export class ChangeRecords {
  readonly #clock: WallClock;
  readonly #process: AccessRecord;
  readonly #ownPid: number;
  #bytes: Buffer = Buffer.alloc(0);
  #view: DataView = new DataView(new ArrayBuffer(0));
  #memory: Uint8Array | undefined;
  #processes = new Map<number, ChangeProcess>();
  #before = new Map<number, ChangeProcess>();

  constructor(clock: WallClock, ownPid: number) {
    this.#clock = clock;
    this.#process = new AccessRecord(clock, REMEMBERED_TEXTS);
    this.#ownPid = ownPid;
  }

  get size(): number {
    return this.#processes.size + this.#before.size;
  }

  /** @throws {RampartError} `DECODE` when the bytes are not records of this version. */
  read(batch: RingBatch, onSeen: (seen: SeenChange) => void): void {
    if (this.#memory !== batch.bytes) {
      this.#memory = batch.bytes;
      this.#bytes = Buffer.from(batch.bytes.buffer, batch.bytes.byteOffset, batch.bytes.byteLength);
      this.#view = new DataView(batch.bytes.buffer, batch.bytes.byteOffset, batch.bytes.byteLength);
      this.#process.setMemory(batch.bytes);
    }
    for (let i = 0; i < batch.count; i++) {
      const offset = batch.offsets[i] ?? 0;
      const length = batch.lengths[i] ?? 0;
      const type = length >= processRecord.sizeBytes ? this.#view.getUint32(offset, true) : 0;
      if (type === recordTypes.change) onSeen(this.#change(offset, length));
      else if (type === recordTypes.process) this.#remember(offset, length);
      else throw malformed(`type ${type} in ${length} bytes`);
    }
  }

  /** Forgets records from before the previous call. */
  forget(): void {
    this.#before = this.#processes;
    this.#processes = new Map();
  }

  #remember(offset: number, length: number): void {
    const view = this.#view;
    const parentBytes = view.getUint32(offset + processRecord.parentBytes, true);
    const record = this.#process;
    record.moveTo(offset + processRecord.sizeBytes, length - processRecord.sizeBytes - parentBytes);
    const end = offset + length;
    const facts = view.getUint32(offset + processRecord.facts, true);
    this.#processes.set(keyOf(record.pid, facts), {
      executable: record.executable,
      arguments: record.arguments,
      cwd: record.cwd,
      comm: record.comm,
      uid: record.uid,
      gid: record.gid,
      pid: record.pid,
      ppid: record.ppid,
      parentExecutable: parentBytes > 0 ? joinPath(this.#bytes.toString('utf8', end - parentBytes, end)) : '',
      mountNamespace: view.getUint32(offset + processRecord.sizeBytes + processAt.mountNamespace, true),
      cgroupId: record.cgroupId,
      cgroup: record.cgroup,
      own: record.pid === this.#ownPid,
    });
  }

  #change(offset: number, length: number): SeenChange {
    const view = this.#view;
    const nameBytes = length >= at.sizeBytes ? view.getUint16(offset + at.nameBytes, true) : -1;
    if (length !== at.sizeBytes + nameBytes) throw malformed(`a change of ${length} bytes`);
    const flags = view.getUint8(offset + at.flags);
    const nameAt = offset + at.sizeBytes;
    const key = keyOf(view.getUint32(offset + at.pid, true), view.getUint32(offset + at.facts, true));
    return {
      process: this.#processes.get(key) ?? this.#before.get(key),
      directory: view.getUint32(offset + at.directory, true),
      name:
        flags & changeFlags.ofName ? this.#bytes.toString('latin1', nameAt, nameAt + nameBytes) : undefined,
      inode: view.getBigUint64(offset + at.inode, true),
      device: view.getUint32(offset + at.device, true),
      generation: view.getUint32(offset + at.generation, true),
      mask: view.getUint32(offset + at.mask, true),
      call: changeCalls[view.getUint8(offset + at.call)] ?? 'unknown',
      put: flags & changeFlags.made ? 'made' : flags & changeFlags.named ? 'named' : undefined,
      atMs: Number(this.#clock.wallNs(view.getBigUint64(offset + at.timeNs, true)) / 1000n) / 1000,
    };
  }
}

/** A pid has at most 22 bits and facts 31: together exact in a number. */
function keyOf(pid: number, facts: number): number {
  return pid * 0x8000_0000 + facts;
}

function malformed(why: string): RampartError {
  return new RampartError(errorCodes.DECODE, {
    what: 'cannot decode the record of a change',
    why,
    next: 'The eBPF object and this program are from different versions; reinstall',
  });
}
