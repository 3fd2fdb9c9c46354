/** How long a policy server takes to answer, and how much CPU time, beside a server that only reads and answers. */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { cpuMs } from '../apiserver/server-process.ts';
import { median, type PartOptions, quantile, type Report, type ReportRow } from '../report.ts';
import { type Posted, ReviewLoad } from './review-load.ts';
import { expressions, reviewOf } from './reviews.ts';
import { type WebhookProcess, WebhookProcesses } from './webhook-processes.ts';

const WARM_UP_MS = 4000;
const MEASURE_MS = 4000;
const MAX_ROUNDS = 5;
const REVIEWS = 500;
const [RATE, OBJECT_RATE] = [3000, 50];
const TARGETS = { p99Ms: 5, objectP99Ms: 10, cpuRatio: 1.5, rssMib: 200 };
const wasmRuntimes = ['wapc', 'wasi', 'opa', 'gatekeeper'] as const;
const modules = join(import.meta.dirname, '../../test/policies');

const celPaths = expressions.map((_, index) => `/validate/clusterwide-rule-${index}`);
const wasmPaths = wasmRuntimes.map((runtime) => `/validate/clusterwide-labels-${runtime}`);

interface Load {
  readonly label: string;
  readonly server: 'policyServer' | 'bare';
  readonly perSecond: number;
  /** The policies that are asked about the object with this number. */
  readonly pathsOf: (number: number) => readonly string[];
}

const oneOf = (number: number): readonly string[] => [celPaths[number % celPaths.length] ?? ''];
const loads = {
  slow: {
    label: '1,000 reviews/s, by one policy each',
    server: 'policyServer',
    perSecond: 1000,
    pathsOf: oneOf,
  },
  bare: { label: '3,000 reviews/s, bare node:https', server: 'bare', perSecond: RATE, pathsOf: oneOf },
  fast: {
    label: '3,000 reviews/s, by one policy each',
    server: 'policyServer',
    perSecond: RATE,
    pathsOf: oneOf,
  },
  bareObjects: {
    label: `50 objects/s, ${celPaths.length} reviews at once for each, bare`,
    server: 'bare',
    perSecond: OBJECT_RATE,
    pathsOf: () => celPaths,
  },
  objects: {
    label: `50 objects/s, ${celPaths.length} reviews at once for each`,
    server: 'policyServer',
    perSecond: OBJECT_RATE,
    pathsOf: () => celPaths,
  },
  mixed: {
    label: `the same, ${wasmPaths.length} of them by WebAssembly`,
    server: 'policyServer',
    perSecond: OBJECT_RATE,
    pathsOf: () => [...celPaths.slice(wasmPaths.length), ...wasmPaths],
  },
} as const satisfies Record<string, Load>;

interface Measured {
  readonly p50Ms: number;
  readonly p99Ms: number;
  readonly lateP99Ms: number;
  readonly cpuMsPerReview: number;
  /** How long a thread that could have run had no CPU, in ms a second. */
  readonly serverWaitedMs: number;
  readonly clientWaitedMs: number;
}

const columnsOf = {
  'p50 ms': ({ p50Ms }: Measured) => p50Ms.toFixed(2),
  'p99 ms': ({ p99Ms }: Measured) => p99Ms.toFixed(2),
  'CPU ms/review': ({ cpuMsPerReview }: Measured) => cpuMsPerReview.toFixed(3),
  'late, p99 ms': ({ lateP99Ms }: Measured) => lateP99Ms.toFixed(2),
  'no CPU, ms/s': (row: Measured) => `${row.serverWaitedMs.toFixed(0)}, ${row.clientWaitedMs.toFixed(0)}`,
};

/** @throws {Error} where a server does not start, or refuses what it has to allow. {MissingPrograms} */
export async function server(options: PartOptions): Promise<Report> {
  const { shrink, signal, progress } = options;
  const rounds = Math.min(options.rounds, MAX_ROUNDS);
  await using processes = await WebhookProcesses.start(policies());
  const texts = Array.from({ length: REVIEWS }, (_, index) => reviewOf(index));
  using stack = new DisposableStack();
  const clients = {
    policyServer: stack.use(new ReviewLoad(processes.policyServer.endpoint)),
    bare: stack.use(new ReviewLoad(processes.bare.endpoint)),
  };
  await clients.policyServer.open([...celPaths, ...wasmPaths], texts[0] ?? '');
  await clients.bare.open(celPaths, texts[0] ?? '');
  const run = async (load: Load, ms: number): Promise<Measured> => {
    const { pid } = processes[load.server];
    const [beforeMs, startMs] = [cpuMs(pid), performance.now()];
    const waitedMs = [waitedForCpuMs(pid), waitedForCpuMs(process.pid)] as const;
    let reviews = 0;
    const reviewsOf = (number: number): readonly Posted[] => {
      const paths = load.pathsOf(number);
      reviews += paths.length;
      return paths.map((path) => [path, texts[number % REVIEWS] ?? '']);
    };
    const { perSecond } = load;
    const { timesMs, lateMs } = await clients[load.server].run(reviewsOf, {
      ...{ perSecond, forMs: ms / shrink, signal },
    });
    const seconds = (performance.now() - startMs) / 1000;
    return {
      p50Ms: quantile(timesMs, 0.5),
      p99Ms: quantile(timesMs, 0.99),
      lateP99Ms: quantile(lateMs, 0.99),
      cpuMsPerReview: (cpuMs(pid) - beforeMs) / reviews,
      serverWaitedMs: (waitedForCpuMs(pid) - waitedMs[0]) / seconds,
      clientWaitedMs: (waitedForCpuMs(process.pid) - waitedMs[1]) / seconds,
    };
  };
  const rows: ReportRow[] = [];
  const measured = new Map<Load, Measured>();
  const ratios: number[] = [];
  for (const names of [['slow'], ['bare', 'fast'], ['bareObjects', 'objects'], ['mixed']] as const) {
    const runs = new Map<Load, Measured[]>(names.map((name) => [loads[name], []]));
    for (const load of runs.keys()) {
      progress(`server: warming up: ${load.label}`);
      await run(load, WARM_UP_MS);
    }
    for (let round = 0; round < rounds; round++) {
      for (const [load, all] of runs) {
        progress(`server: ${load.label}, round ${round + 1} of ${rounds}`);
        all.push(await run(load, MEASURE_MS));
      }
      const [bare, fast] = [runs.get(loads.bare)?.at(-1), runs.get(loads.fast)?.at(-1)];
      if (bare && fast) ratios.push(fast.cpuMsPerReview / Math.max(bare.cpuMsPerReview, 0.001));
    }
    for (const [load, all] of runs) {
      const middle = (name: keyof Measured): number => median(all.map((one) => one[name]));
      const row: Measured = {
        p50Ms: middle('p50Ms'),
        p99Ms: middle('p99Ms'),
        lateP99Ms: middle('lateP99Ms'),
        cpuMsPerReview: middle('cpuMsPerReview'),
        serverWaitedMs: middle('serverWaitedMs'),
        clientWaitedMs: middle('clientWaitedMs'),
      };
      measured.set(load, row);
      rows.push({
        label: load.label,
        cells: Object.fromEntries(Object.entries(columnsOf).map(([name, cell]) => [name, cell(row)])),
        values: { perSecond: load.perSecond, ...row },
      });
    }
  }
  const ratio = median(ratios);
  const p99 = (load: Load): number => measured.get(load)?.p99Ms ?? Number.NaN;
  const atMost = (target: string, value: number, max: number, unit: string, bare?: number) => ({
    target: `${target} at most ${max} ${unit}`,
    measured: `${value.toFixed(unit === 'MiB' ? 0 : 2)} ${unit}${bare === undefined ? '' : `, bare ${bare.toFixed(2)} ${unit}`}`,
    met: value <= max,
  });
  return {
    title: `A policy server with ${celPaths.length} policies of CEL and ${wasmPaths.length} of WebAssembly, reviews of pods, HTTPS over persistent connections`,
    columns: Object.keys(columnsOf),
    rows,
    verdicts: [
      atMost('3,000 reviews/s on one core: p99', p99(loads.fast), TARGETS.p99Ms, 'ms', p99(loads.bare)),
      atMost('CPU time of a review:', ratio, TARGETS.cpuRatio, 'x bare node:https'),
      atMost(
        `an object that ${celPaths.length} policies apply to: p99`,
        p99(loads.objects),
        TARGETS.objectP99Ms,
        'ms',
        p99(loads.bareObjects),
      ),
      atMost('peak RSS', peakMib(processes.policyServer), TARGETS.rssMib, 'MiB'),
    ],
    notes: [
      `A review is evaluated by the one policy in its URL. An object is answered when all of its ${celPaths.length} reviews are.`,
      'Times count from when an object was due, or from when the client came to it if that was later ("late").',
      'Each server has one CPU, and the client the others; other processes may use them, too. CPU time is that of all threads. Medians of the rounds.',
      '"no CPU": how long the main threads of the server and of the client waited for a CPU. Times are those of a machine without other load if it is little.',
      'bare node:https: reads the body, parses its JSON, and allows it.',
    ],
  };
}

function policies(): Record<string, object> {
  return Object.fromEntries([
    ...expressions.map((expression, index) => [
      `clusterwide-rule-${index}`,
      { module: 'cel-policy', settings: { validations: [{ expression }] } },
    ]),
    ...wasmRuntimes.map((runtime) => [
      `clusterwide-labels-${runtime}`,
      {
        module: pathToFileURL(join(modules, `labels.${runtime}.wasm`)).href,
        settings: { required: ['app', 'tier'] },
      },
    ]),
  ]) as Record<string, object>;
}

/** For the main thread, since it began. 0 if the kernel does not count it. */
function waitedForCpuMs(pid: number): number {
  return Number(readFileSync(`/proc/${pid}/task/${pid}/schedstat`, 'utf8').split(' ')[1] ?? 0) / 1e6;
}

function peakMib({ pid }: WebhookProcess): number {
  return Number(/^VmHWM:\s+(\d+)/m.exec(readFileSync(`/proc/${pid}/status`, 'utf8'))?.[1]) / 1024;
}
