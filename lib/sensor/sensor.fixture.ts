/**
 * A sensor for tests: opened in the mode that the environment asks for, its accesses collected.
 *
 * `RAMPART_SENSOR_MODE` (auto, fentry, kprobe, raw_tracepoint) chooses the mode, so that the same
 * tests run in every mode; a mode the kernel refuses is a failure then, not a skip.
 */
import { existsSync } from 'node:fs';

import { AT_FDCWD, openat2, openFlags } from '../ebpf/libc.ts';
import { everyAccess, type Access, type FileIdentity } from './access.ts';
import type { Folded } from './fold-ledger.ts';
import { sensorModeNames, type SensorModeName } from './modes.ts';
import type { SensorOptions, SensorStats } from './options.ts';
import { Sensor } from './sensor.ts';
import type { Watcher } from './targets.ts';
import { snapshotOf } from './snapshot.fixture.ts';
import { patience } from '../testing/until.fixture.ts';

/** For `skip` of node:test: why the sensor can't run here, or false. */
export const sensorSkip: string | false =
  process.geteuid?.() !== 0
    ? 'needs root to load eBPF programs'
    : !existsSync('/sys/kernel/btf/vmlinux') && 'this kernel has no BTF';

/** The mode for the tests. */
export function testMode(): SensorModeName | 'auto' {
  const wanted = process.env['RAMPART_SENSOR_MODE'] ?? 'auto';
  const mode = (['auto', ...sensorModeNames] as const).find((name) => name === wanted);
  if (mode === undefined) throw new Error(`RAMPART_SENSOR_MODE=${wanted} is no mode`);
  return mode;
}

/** An access with the watcher it was handed to. */
export interface Seen {
  readonly access: Access;
  readonly watcher: TestWatcher;
}

interface TestWatcher extends Watcher {
  readonly path: string;
}

/** One call of onFolded or onLoss. */
interface Loss {
  readonly lost: number;
  readonly stats: SensorStats;
}

/** One watched file; disposing it ends the watch. */
interface WatchedFile extends Disposable {
  readonly identity: FileIdentity;
  readonly watcher: TestWatcher;
}

type TestSensorOptions = Partial<Omit<SensorOptions<TestWatcher>, 'onAccess' | 'onProblem'>>;

/** See {@link openTestSensor}. */
export class TestSensor implements Disposable {
  readonly sensor: Sensor<TestWatcher>;
  /** The accesses so far, with their watcher. */
  readonly seen: Seen[] = [];
  readonly folded: Folded[] = [];
  readonly losses: Loss[] = [];
  /** The calls of onProblem. Disposal throws unless it is empty. */
  readonly problems: unknown[] = [];
  #wake: (() => void) | undefined;
  #closed = false;

  constructor(options: TestSensorOptions) {
    this.sensor = Sensor.open<TestWatcher>({
      mode: testMode(),
      onFolded: (folded) => this.folded.push(folded),
      onLoss: (lost, stats) => this.losses.push({ lost, stats }),
      ...options,
      onAccess: (record, watcher) => this.seen.push({ access: snapshotOf(record), watcher }),
      onProblem: (problem) => this.problems.push(problem),
      onBatchEnd: () => {
        options.onBatchEnd?.();
        this.#wake?.();
      },
    });
  }

  /**
   * All accesses so far, those still in the ring included: the programs put a record there before
   * the system call returns, so after `spawnSync` nothing of the child can be missing.
   */
  accesses(): Access[] {
    this.sensor.drain();
    return this.seen.map(({ access }) => access);
  }

  /** The accesses since the last call of `take`. */
  take(): Access[] {
    const accesses = this.accesses();
    this.seen.length = 0;
    return accesses;
  }

  /**
   * Resolves with the accesses when there are as many, or when the predicate holds for one of them.
   * Waits for the event loop to deliver them; rejects when `signal` aborts, by default when none comes any longer.
   */
  async waitFor(
    wanted: number | ((access: Access) => boolean),
    signal: AbortSignal = patience(),
  ): Promise<Access[]> {
    const enough = (): boolean =>
      typeof wanted === 'number'
        ? this.seen.length >= wanted
        : this.seen.some(({ access }) => wanted(access));
    while (!enough()) {
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = (): void =>
        reject(
          new Error(`waited in vain; ${this.seen.length} accesses, ${JSON.stringify(this.sensor.stats())}`),
        );
      signal.addEventListener('abort', onAbort, { once: true });
      this.#wake = resolve;
      if (signal.aborted) onAbort();
      try {
        await promise;
      } finally {
        signal.removeEventListener('abort', onAbort);
        this.#wake = undefined;
      }
    }
    return this.seen.map(({ access }) => access);
  }

  /** The identity of the file at `path`, links followed, as the kernel has it. */
  identify(path: string): FileIdentity {
    using fd = openat2(AT_FDCWD, path, { flags: openFlags.PATH });
    return this.sensor.identify(fd.number);
  }

  /** Watches the file that `path` leads to now; every access by default. */
  watchFile(path: string, filter: number = everyAccess): WatchedFile {
    const identity = this.identify(path);
    const watcher: TestWatcher = { filter, path };
    this.sensor.targets.add(identity, watcher);
    return {
      identity,
      watcher,
      [Symbol.dispose]: () => {
        if (!this.#closed) this.sensor.targets.delete(identity, watcher);
      },
    };
  }

  /** Ends it and returns the final counts; watches that are disposed later need no call. */
  close(): SensorStats {
    this.#closed = true;
    return this.sensor.close();
  }

  [Symbol.dispose](): void {
    this.close();
    if (this.problems.length > 0) throw new AggregateError(this.problems, 'the sensor reported problems');
  }
}

/** Opens a sensor and collects what it hands out. The caller disposes it. */
export function openTestSensor(options: TestSensorOptions = {}): TestSensor {
  return new TestSensor(options);
}
