/** The sensor: reports accesses to watched files. */
import type { BpfObject } from '../ebpf/object.ts';
import { probeFeatures } from '../ebpf/features/features.ts';
import type { BpfLink } from '../ebpf/link.ts';
import type { MappedMemory } from '../ebpf/map.ts';
import { openRingBuffer, type RingBuffer } from '../ebpf/ring-buffer.ts';
import type { RingBatch } from '../ebpf/ring.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { ANY_OPERATION, may, type FileIdentity } from './access.ts';
import { monotonicNs, WallClock } from './clock.ts';
import { FoldLedger } from './fold-ledger.ts';
import { Identifier } from './identify.ts';
import { arrivalNs, counters as counterAt, pending as pendingAt, state as stateAt } from './layout.ts';
import { loadSensor, type LoadedSensor } from './load.ts';
import { attachKindsOfModes, firstLine, sensorMode, sensorModes, type SensorModeName } from './modes.ts';
import {
  checkOptions,
  defaultRingSizeBytes,
  type RefusedMode,
  type SensorOptions,
  type SensorStats,
} from './options.ts';
import { AccessRecord } from './record.ts';
import { Targets, type Watcher } from './targets.ts';

/** `struct work.record` of bpf/record.h, where each record is made. */
const MAX_RECORD_BYTES = 8192;
const HOUSEKEEPING_MS = 1000;
const NS_PER_S = 1_000_000_000n;
/** A bucket is swept this long after its last access, and its last folded accesses are reported. */
const QUIET_NS = NS_PER_S;
/** A permission check in a slow file system may take long. If it has not returned after this time, its return was missed. */
const NO_RETURN_NS = 60n * NS_PER_S;

/**
 * The loaded programs, attached or not. The caller disposes it.
 *
 * @throws {RampartError} see {@link Sensor.open}.
 * @example
 * using sensor = Sensor.open<Watcher & { readonly path: string }>({
 *   // The record is read where it lies: take what you need before you return.
 *   onAccess: ({ pid, comm }, { path }) => print(`${comm} (${pid}) touched ${path}`),
 *   onLoss: (lost) => print(`${lost} accesses were lost`),
 *   onProblem: (problem) => print(String(problem)),
 * });
 * const path = '/etc/shadow';
 * const fd = openSync(path, 'r');
 * sensor.targets.add(sensor.identify(fd), { path, filter: accessFilter(['read', 'write']) });
 * closeSync(fd);
 */
export class Sensor<W extends Watcher> implements Disposable {
  readonly mode: SensorModeName;
  /** Better modes that this kernel refused, best first. */
  readonly refused: readonly RefusedMode[];
  readonly targets: Targets<W>;
  /** Directories in which files are watched from the moment that they appear, see {@link expectFilesIn}. */
  readonly #expected: Targets<W>;
  /** Created only once, because it is used for each record. */
  readonly #allTargets: readonly Targets<W>[];
  readonly #options: SensorOptions<W>;
  readonly #object: BpfObject;
  #links: readonly BpfLink[] = [];
  readonly #memory: MappedMemory;
  readonly #counters: DataView;
  readonly #identifier: Identifier;
  readonly #ring: RingBuffer;
  readonly #clock = new WallClock();
  readonly #record = new AccessRecord(this.#clock);
  readonly #ledger = new FoldLedger();
  readonly #housekeeping: NodeJS.Timeout;
  #ringMemory: Uint8Array | undefined;
  #received = 0;
  #reportedLost = 0;
  #refusedDirectories = 0;
  #foldedAtSweep = 0n;
  #foldsWaiting = false;
  #reading = false;
  #final: SensorStats | undefined;

  private constructor(options: SensorOptions<W>, loaded: LoadedSensor, refused: readonly RefusedMode[]) {
    this.#options = options;
    this.mode = loaded.mode.name;
    this.refused = refused;
    this.#object = loaded.object;
    this.#memory = loaded.memory;
    const state = loaded.memory.view;
    this.#counters = new DataView(state.buffer, stateAt.counters, counterAt.sizeBytes);
    this.#identifier = new Identifier(this.#object, state);
    // From here on, the agent's own accesses are left out.
    state.setUint32(stateAt.agentPid, this.#identifier.ownPid(), true);
    const ids = { next: 1 };
    this.targets = new Targets<W>(this.#object.map('targets'), () => this.drain(), ids);
    this.#expected = new Targets<W>(this.#object.map('directories'), () => this.drain(), ids);
    this.#allTargets = [this.targets, this.#expected];
    this.#ring = openRingBuffer({
      mapFd: this.#object.map('ring').fd,
      sizeBytes: options.ringSizeBytes ?? defaultRingSizeBytes,
      maxRecordBytes: MAX_RECORD_BYTES,
      onBatch: (batch) => this.#deliver(batch),
      onError: (problem) => options.onProblem(problem),
    });
    try {
      if (options.attached !== false) this.attach();
    } catch (error) {
      this.#ring[Symbol.dispose]();
      throw error;
    }
    this.#housekeeping = setInterval(() => this.#keepHouse(), HOUSEKEEPING_MS);
  }

  /**
   * Loads the programs, and attaches them unless the options say otherwise. In mode `auto` the best mode that the kernel accepts is taken: the
   * probes rule modes out in milliseconds, where loading the whole object to be refused takes a tenth of
   * a second and megabytes; what they let through must still load.
   *
   * @throws {RampartError} `INPUT` for a bad option, `UNSUPPORTED` without libbpf or kernel BTF or when
   *   no mode, or not the forced one, is accepted.
   */
  static open<W extends Watcher>(options: SensorOptions<W>): Sensor<W> {
    checkOptions(options);
    const wanted = options.mode ?? 'auto';
    const candidates = wanted === 'auto' ? sensorModes : [sensorMode(wanted)];
    const features = probeFeatures(attachKindsOfModes);
    const refused: RefusedMode[] = [];
    for (const mode of candidates) {
      const reason = mode.unavailable(features);
      if (reason !== undefined) {
        refused.push({ mode: mode.name, reason });
        continue;
      }
      let loaded: LoadedSensor | undefined;
      try {
        loaded = loadSensor(mode, options);
        return new Sensor(options, loaded, [...refused]);
      } catch (error) {
        loaded?.memory[Symbol.dispose]();
        loaded?.object[Symbol.dispose]();
        if (!(error instanceof RampartError) || error.code !== errorCodes.EBPF) throw error;
        // In a forced mode, the reader needs the verifier's last lines.
        refused.push({
          mode: mode.name,
          reason: wanted === 'auto' ? firstLine(error.message) : error.message,
        });
      }
    }
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what:
        wanted === 'auto'
          ? 'this kernel accepts none of the sensor modes'
          : `this kernel refuses the sensor mode ${wanted}`,
      why: refused.map(({ mode, reason }) => (wanted === 'auto' ? `${mode}: ${reason}` : reason)).join('; '),
      next: 'See `rampart doctor`',
    });
  }

  get attached(): boolean {
    return this.#links.length > 0;
  }

  /** Accesses are seen from here on. @throws {RampartError} `EBPF` when the kernel refuses it; `DISPOSED`. */
  attach(): void {
    if (this.#final !== undefined)
      throw new RampartError(errorCodes.DISPOSED, { what: 'the sensor is closed' });
    if (!this.attached) this.#links = sensorMode(this.mode).attach(this.#object);
  }

  /** Detaches, so that it costs no other process anything, and delivers what it has seen. */
  detach(): void {
    if (this.#final !== undefined) return;
    this.#detach();
    this.drain();
    this.#endWaiting();
  }

  #detach(): void {
    for (const link of this.#links) link[Symbol.dispose]();
    this.#links = [];
  }

  /** Ends calls that cannot complete without the programs. */
  #endWaiting(): void {
    if (this.mode === 'kprobe') this.#sweepPending(0n);
    this.#sweepFolded(-NS_PER_S * 3600n);
    this.#reportLoss();
  }

  /**
   * The kernel's identity of the file behind a descriptor of this process, which may be O_PATH.
   *
   * @throws {RampartError} `SYSTEM` when `fd` is not open.
   */
  identify(fd: number): FileIdentity {
    return this.#identifier.identify(fd);
  }

  /**
   * Watches files for `watcher` from the moment that they appear in this directory, for ten seconds: put them in `targets` by then.
   * An access to such a file has its name in `to`, or in `from`.
   *
   * @returns false if there is no room, which is counted: then the files are watched only as targets.
   */
  expectFilesIn(directory: FileIdentity, watcher: W): boolean {
    const [failure] = this.#expected.addAll([{ identity: directory, watcher }]);
    this.#reportExpected();
    if (failure !== undefined) this.#refusedDirectories++;
    return failure === undefined;
  }

  /** Ends {@link expectFilesIn}. */
  expectNoFilesIn(directory: FileIdentity, watcher: W): void {
    this.#expected.delete(directory, watcher);
    this.#reportExpected();
  }

  /** Call it when the filter of a watcher of {@link expectFilesIn} has changed. */
  refreshExpected(directory: FileIdentity): void {
    this.#expected.refresh(directory);
  }

  #reportExpected(): void {
    this.#memory.view.setUint32(stateAt.directories, this.#expected.size, true);
  }

  /** Delivers the records that are in the ring now; within a callback of the sensor it does nothing. */
  drain(): void {
    if (this.#reading || this.#final !== undefined) return;
    this.#ring.drain();
  }

  /** Counts so far; after disposal the final ones. */
  stats(): SensorStats {
    if (this.#final !== undefined) return this.#final;
    const count = (field: number): number => Number(this.#counters.getBigUint64(field, true));
    const received = this.#received - this.#ring.totals.failed;
    return {
      produced: count(counterAt.produced),
      received,
      folded: count(counterAt.folded),
      lost: {
        ringFull: count(counterAt.lostRingFull),
        noReturn: count(counterAt.lostNoReturn),
        consumer: this.#ring.totals.failed,
      },
      recycled: count(counterAt.recycled),
      own: count(counterAt.own),
      verdictUnknown: count(counterAt.verdictUnknown),
      hookMisses:
        Number(
          sensorMode(this.mode)
            .programs.map((name) => this.#object.program(name).recursionMisses)
            .reduce((sum, misses) => sum + misses, 0n),
        ) + count(counterAt.busy),
      targets: this.targets.size,
      capacity: this.targets.capacity,
      refusedDirectories: this.#refusedDirectories,
    };
  }

  #deliver(batch: RingBatch): void {
    const record = this.#record;
    if (this.#ringMemory !== batch.bytes) {
      this.#ringMemory = batch.bytes;
      record.setMemory(batch.bytes);
    }
    this.#received += batch.count;
    this.#reading = true;
    try {
      for (let i = 0; i < batch.count; i++) {
        record.moveTo(batch.offsets[i] ?? 0, batch.lengths[i] ?? 0);
        this.#handOut(record);
      }
      this.#options.onBatchEnd?.();
    } finally {
      this.#reading = false;
    }
    this.#reportLoss();
  }

  #handOut(record: AccessRecord): void {
    const { targetId, mask } = record;
    if (record.foldedTotal > 0) {
      record.folded = this.#ledger.sinceLast(
        record.bucketBornNs,
        record.pid,
        targetId,
        mask,
        record.foldedTotal,
      );
    }
    for (const targets of this.#allTargets) {
      const watchers =
        mask & ANY_OPERATION
          ? targets.watchersAt(targetId, record.monotonicNs)
          : targets.watchersOf(targetId);
      for (const watcher of watchers) {
        if (wants(watcher.filter, mask)) this.#options.onAccess(record, watcher);
      }
    }
  }

  /** Runs every second: reads a few counters from mapped memory, and does more only if they have changed. */
  #keepHouse(): void {
    this.#clock.refresh();
    this.targets.forgetLeft();
    this.#expected.forgetLeft();
    this.#forgetArrivals();
    // After a long pause of the event loop, this timer runs before the ring is read. Read it first: otherwise the sweep would report folded
    // accesses that records in the ring also report.
    this.drain();
    this.#sweepFolded(QUIET_NS);
    if (this.mode === 'kprobe') this.#sweepPending(NO_RETURN_NS);
    this.#reportLoss();
  }

  /** If no file has appeared for long, the programs need not look for any. */
  #forgetArrivals(): void {
    const { view } = this.#memory;
    const words = new BigUint64Array(view.buffer, view.byteOffset + stateAt.arrivedNs, 1);
    const arrivedNs = Atomics.load(words, 0);
    if (arrivedNs !== 0n && arrivedNs + arrivalNs < monotonicNs())
      Atomics.compareExchange(words, 0, arrivedNs, 0n);
  }

  #sweepFolded(quietNs: bigint): void {
    const folded = this.#counters.getBigUint64(counterAt.folded, true);
    if (folded === this.#foldedAtSweep && !this.#foldsWaiting) return;
    this.#foldedAtSweep = folded;
    const { found, waiting } = this.#ledger.sweep(this.#object.map('buckets'), monotonicNs(), quietNs);
    this.#foldsWaiting = waiting > 0;
    for (const one of found) {
      const { targetId } = one;
      this.#options.onFolded?.(one, [
        ...this.targets.watchersOf(targetId),
        ...this.#expected.watchersOf(targetId),
      ]);
    }
  }

  /** Removes accesses whose return never came; they count as produced and lost. */
  #sweepPending(olderThanNs: bigint): void {
    const map = this.#object.map('pending');
    const now = monotonicNs();
    let gone = 0n;
    for (const key of [...map.keys()]) {
      const value = map.lookup(key);
      if (value === undefined) continue;
      const enteredNs = new DataView(value.buffer).getBigUint64(pendingAt.timeNs, true);
      if (enteredNs + olderThanNs <= now && map.delete(key)) gone += 1n;
    }
    if (gone === 0n) return;
    // The programs count in the same memory, so this has to be atomic too.
    const at = this.#counters;
    const words = new BigUint64Array(at.buffer, at.byteOffset, counterAt.sizeBytes / 8);
    Atomics.add(words, counterAt.produced / 8, gone);
    Atomics.add(words, counterAt.lostNoReturn / 8, gone);
  }

  #reportLoss(): void {
    const { onLoss } = this.#options;
    const at = this.#counters;
    const lost =
      Number(at.getBigUint64(counterAt.lostRingFull, true)) +
      Number(at.getBigUint64(counterAt.lostNoReturn, true)) +
      this.#ring.totals.failed;
    if (lost <= this.#reportedLost) return;
    const since = lost - this.#reportedLost;
    this.#reportedLost = lost;
    onLoss?.(since, this.stats());
  }

  [Symbol.dispose](): void {
    this.close();
  }

  /**
   * Detaches, delivers what is still in the ring, and leaves nothing in the kernel.
   *
   * @returns the final counts.
   */
  close(): SensorStats {
    if (this.#final !== undefined) return this.#final;
    clearInterval(this.#housekeeping);
    this.#detach();
    this.#ring.drain();
    this.#endWaiting();
    this.#final = this.stats();
    this.#ring[Symbol.dispose]();
    this.#memory[Symbol.dispose]();
    this.#object[Symbol.dispose]();
    return this.#final;
  }
}

/** The same as `wanted()` in the kernel (bpf/admit.h), but for one of several watchers of a file. */
function wants(filter: number, mask: number): boolean {
  if (mask & ANY_OPERATION) return (filter & mask & ANY_OPERATION) !== 0;
  if (mask & may.ACCESS) return (filter & may.ACCESS) !== 0;
  const touches = mask & (may.READ | may.WRITE | may.EXEC | may.APPEND);
  return touches ? (filter & touches) !== 0 : (filter & may.OPEN) !== 0;
}
