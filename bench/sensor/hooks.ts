/**
 * The sensor's cost for the processes of the machine: the time of a system call with nothing attached, with
 * empty programs on the sensor's hooks, and with the sensor, from 1 to 65,536 watched files none of which is
 * the accessed one.
 */
import { spawnSync } from 'node:child_process';
import { closeSync, existsSync, mkdtempSync, openSync, rmSync, writeFileSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';

import { everyAccess, type FileIdentity } from '../../lib/sensor/access.ts';
import { Sensor } from '../../lib/sensor/sensor.ts';
import { pinned } from '../pinned.ts';
import { median, type PartOptions, quantile, type Report, type ReportRow, type Verdict } from '../report.ts';
import { absentFiles, Attached, attachedTracingPrograms } from './attachments.ts';
import { Build } from './build.ts';
import { type LoopName, NativeLoop } from './native-loop.ts';

/** Iterations of a burst, about a millisecond each: short enough to be left alone by the scheduler now and then. */
const loops: Readonly<Record<LoopName, { readonly title: string; readonly iterations: number }>> = {
  open: { title: 'open+close', iterations: 500 },
  getppid: { title: 'getppid (no file)', iterations: 6000 },
  read: { title: 'pread 1 byte', iterations: 3000 },
};
const loopNames = Object.keys(loops) as LoopName[];
const BURSTS = 40;
const MAX_RATIO_TO_EMPTY = 1.3;
const MAX_GROWTH = 1.1;
/** A machine noisier than this says nothing about so small a difference. */
const MAX_NOISE = 1.05;
const MIN_ADDED = 0.05;
const FOREIGN_WAIT_MS = 5000;

/** Loop -> configuration -> the best burst of each round, in nanoseconds per iteration. */
type Samples = Readonly<Record<LoopName, Map<string, number[]>>>;

const OFF = 'off';
const EMPTY = 'empty programs';
const EMPTY_AGAIN = 'empty programs again';
/** Ten seconds after each of them, an access to a file that is not watched costs a second lookup. */
const COMING = 'sensor, while files come';
const oursLabel = (targets: number): string => `sensor, ${targets.toLocaleString('en')} files`;

/** @throws {Error} without a C compiler; {RampartError} what Sensor.open throws. */
export async function hooks(options: PartOptions): Promise<Report> {
  using build = new Build();
  options.progress('hooks: compiling what it compares with');
  const binary = build.nativeLoop();
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  const file = join(directory, 'file');
  writeFileSync(file, 'x');
  const cpus = availableParallelism();
  // The loop on the last CPU, this process (the agent) on the first.
  using _ = cpus > 1 ? pinned('0') : undefined;
  try {
    using loop = new NativeLoop(binary, cpus > 1 ? cpus - 1 : -1, file);
    return await new HookBench(options, build, loop, file).run();
  } finally {
    rmSync(directory, { recursive: true });
  }
}

class HookBench {
  readonly #options: PartOptions;
  readonly #build: Build;
  readonly #loop: NativeLoop;
  readonly #file: string;
  readonly #samples: Samples = { open: new Map(), getppid: new Map(), read: new Map() };
  readonly #seen32 = new Map<string, boolean>();
  readonly #counts: readonly number[];
  #mode: Sensor<{ filter: number }>['mode'] = 'raw_tracepoint';
  #foreign = 0;

  constructor(options: PartOptions, build: Build, loop: NativeLoop, file: string) {
    this.#options = options;
    this.#build = build;
    this.#loop = loop;
    this.#file = file;
    // Filling the map is quick: only the tests, which shrink a lot, have fewer files.
    const shrink = Math.max(1, options.shrink / 100);
    this.#counts = [1, 1000, 10_000, 65_536].map((count) => Math.ceil(count / shrink));
  }

  async run(): Promise<Report> {
    const { rounds, progress } = this.#options;
    {
      using sensor = this.#openSensor();
      this.#mode = sensor.mode;
    }
    const empty = this.#build.bpfObject('empty');
    const steps: (() => Promise<void>)[] = [
      () => this.#measure(OFF),
      () => this.#measureWith(EMPTY, () => Attached.empty(empty, this.#mode)),
      () => this.#ours(),
      () => this.#measureWith(EMPTY_AGAIN, () => Attached.empty(empty, this.#mode)),
    ];
    if (this.#mode === 'raw_tracepoint') steps.push(...this.#alternatives());
    for (let round = 0; round < rounds; round++) {
      progress(`hooks: ${this.#mode}, round ${round + 1} of ${rounds}`);
      // Each round starts elsewhere, so that no configuration always follows the same one.
      for (let i = 0; i < steps.length; i++) {
        this.#options.signal.throwIfAborted();
        await this.#quiet();
        await steps[(i + round) % steps.length]?.();
      }
    }
    return this.#report();
  }

  #openSensor(): Sensor<{ filter: number }> {
    return Sensor.open<{ filter: number }>({
      mode: this.#options.mode,
      onAccess: () => undefined,
      onProblem: (problem) => this.#options.progress(String(problem)),
    });
  }

  #identify(by: { identify(fd: number): FileIdentity }, path = this.#file): FileIdentity {
    const fd = openSync(path, 'r');
    try {
      return by.identify(fd);
    } finally {
      closeSync(fd);
    }
  }

  async #ours(): Promise<void> {
    using sensor = this.#openSensor();
    const identity = this.#identify(sensor);
    const watcher = { filter: everyAccess };
    let from = 0;
    for (const count of this.#counts) {
      for (const target of absentFiles(identity.device, from, count)) sensor.targets.add(target, watcher);
      from = count;
      await this.#measure(oursLabel(count));
    }
    const directory = dirname(this.#file);
    sensor.expectFilesIn(this.#identify(sensor, directory), watcher);
    // Not by this process, whose own accesses the sensor leaves out.
    spawnSync('touch', [join(directory, 'came')]);
    await this.#measure(COMING);
    for (const target of absentFiles(identity.device, 0, 1)) sensor.targets.delete(target, watcher);
    sensor.targets.add(identity, watcher);
    await this.#try32(oursLabel(this.#counts[0] ?? 1), () => sensor.stats().produced);
  }

  #alternatives(): (() => Promise<void>)[] {
    const probeReads = this.#build.bpfObject('probe_reads');
    const perSyscall = this.#build.bpfObject('per_syscall');
    const variants: readonly (readonly [string, () => Attached])[] = [
      ['probe reads only', () => Attached.probeReads(probeReads)],
      ...(hasTracefs()
        ? ([
            ['tracepoints of the opens', () => Attached.perSyscall(perSyscall, false)],
            ['tracepoints of all file calls', () => Attached.perSyscall(perSyscall, true)],
          ] as const)
        : []),
    ];
    return variants.map(([label, attach]) => async () => {
      using attached = attach();
      const identity = this.#identify(attached);
      attached.watch(absentFiles(identity.device, 0, 1));
      await this.#measure(label);
      attached.watch([identity]);
      await this.#try32(label, () => attached.produced);
    });
  }

  async #measureWith(label: string, attach: () => Attached): Promise<void> {
    using _attached = attach();
    await this.#measure(label);
  }

  async #measure(label: string): Promise<void> {
    const { signal, shrink } = this.#options;
    for (const name of loopNames) {
      const iterations = Math.max(1, Math.ceil(loops[name].iterations / Math.sqrt(shrink)));
      const bursts = Math.max(3, Math.ceil(BURSTS / Math.sqrt(shrink)));
      const took = await this.#loop.measure(name, iterations, bursts, signal);
      const samples = this.#samples[name];
      samples.set(label, [...(samples.get(label) ?? []), Math.min(...took)]);
    }
  }

  /** Whether an open by the 32-bit gate is seen. */
  async #try32(label: string, produced: () => number): Promise<void> {
    const before = produced();
    if (await this.#loop.open32(this.#options.signal)) this.#seen32.set(label, produced() > before);
  }

  /** Waits until no other process traces; less for a run that is too short to mean anything. */
  async #quiet(): Promise<void> {
    const giveUpMs = performance.now() + FOREIGN_WAIT_MS / this.#options.shrink;
    while (attachedTracingPrograms() > 0) {
      if (performance.now() > giveUpMs) {
        this.#foreign++;
        return;
      }
      await sleep(50, undefined, { signal: this.#options.signal });
    }
  }

  /** The medians over the rounds; ratios within each round first, because the machine's speed drifts. */
  #ratio(name: LoopName, label: string, base: string): number {
    return median(this.#ratios(name, label, base));
  }

  #ratios(name: LoopName, label: string, base: string): number[] {
    const values = this.#samples[name].get(label) ?? [];
    const bases = this.#samples[name].get(base) ?? [];
    return values.map((value, round) => value / (bases[round] ?? Number.NaN));
  }

  #row(name: LoopName, label: string): ReportRow {
    const values = this.#samples[name].get(label) ?? [];
    const ns = median(values);
    const spread = (quantile(values, 0.9) - Math.min(...values)) / ns;
    const [toOff, toEmpty] = [this.#ratio(name, label, OFF), this.#ratio(name, label, EMPTY)];
    const off = median(this.#samples[name].get(OFF) ?? []);
    const emptyAdds = median(this.#samples[name].get(EMPTY) ?? []) - off;
    // A hook that this loop does not pass adds noise only, and multiples of noise say nothing.
    const added = emptyAdds > off * MIN_ADDED ? (ns - off) / emptyAdds : undefined;
    const seen = name === 'open' ? this.#seen32.get(label) : undefined;
    return {
      label: `${loops[name].title}, ${label}`,
      cells: {
        ns: ns.toFixed(0),
        spread: `${(100 * spread).toFixed(0)} %`,
        'x off': toOff.toFixed(2),
        'x empty': toEmpty.toFixed(2),
        ...(added !== undefined && label !== OFF && { 'added x empty': added.toFixed(2) }),
        ...(seen !== undefined && { 'sees int 0x80': seen ? 'yes' : 'NO' }),
      },
      values: {
        nanoseconds: ns,
        spread,
        toOff,
        toEmpty,
        ...(added !== undefined && { added }),
        ...(seen !== undefined && { seen32: seen }),
      },
    };
  }

  #report(): Report {
    const labels = [...this.#samples.open.keys()];
    const order = [OFF, EMPTY, EMPTY_AGAIN, ...this.#counts.map(oursLabel), COMING];
    const sorted = [...new Set([...order, ...labels])];
    return {
      title: `What the sensor costs at its hooks (mode ${this.#mode})`,
      columns: ['ns', 'spread', 'x off', 'x empty', 'added x empty', 'sees int 0x80'],
      rows: loopNames.flatMap((name) => sorted.map((label) => this.#row(name, label))),
      verdicts: this.#verdicts(),
      notes: [
        ...(hasTracefs()
          ? []
          : [
              'Without tracefs one tracepoint per system call could not be measured: mount -t tracefs nodev /sys/kernel/tracing',
            ]),
        `${this.#options.rounds} rounds; of each round and configuration the best of many bursts of about 1 ms; medians over the rounds.`,
        'spread: from the lowest to the 9th decile of the rounds. added: what this adds to "off", as a multiple of what empty programs add.',
        ...(this.#foreign > 0
          ? [`DISTURBED: tracing programs of others were attached in ${this.#foreign} measurements.`]
          : []),
      ],
    };
  }

  #verdicts(): Verdict[] {
    const ours = this.#counts.map(oursLabel);
    const worst = Math.max(...[...ours, COMING].map((label) => this.#ratio('open', label, EMPTY)));
    const growth = this.#ratio('open', ours.at(-1) ?? '', ours[0] ?? '');
    const noFile = Math.max(...ours.map((label) => this.#ratio('getppid', label, EMPTY)));
    const twice = this.#ratios('getppid', EMPTY_AGAIN, EMPTY);
    const noise = quantile(
      twice.map((ratio) => Math.max(ratio, 1 / ratio)),
      0.9,
    );
    return [
      {
        target: `open+close at most ${MAX_RATIO_TO_EMPTY} x what empty programs cost`,
        measured: `${worst.toFixed(2)} x`,
        met: worst <= MAX_RATIO_TO_EMPTY,
      },
      {
        target: `flat from ${this.#counts[0]} to ${this.#counts.at(-1)} files`,
        measured: `${growth.toFixed(2)} x`,
        met: growth <= MAX_GROWTH,
      },
      {
        target: 'a call that touches no file costs what empty programs cost',
        measured: `${noFile.toFixed(2)} x, where empty programs measured twice differ by up to ${noise.toFixed(2)} x`,
        met: noFile <= Math.min(noise, MAX_NOISE),
      },
    ];
  }
}

/** Where perf events find their tracepoints (libbpf, tracefs_path). */
function hasTracefs(): boolean {
  return existsSync('/sys/kernel/tracing/events') || existsSync('/sys/kernel/debug/tracing/events');
}
