/**
 * From the API's acknowledgement of a policy to the moment that an access is alerted, for each of 200 real containers.
 */
import { mkdirSync, writeFileSync } from 'node:fs';
import { setTimeout as sleep } from 'node:timers/promises';

import { median, type PartOptions, quantile, type Report } from '../report.ts';
import { AgentProcess } from './agent-process.ts';
import { bareLoop } from './bare-loop.ts';
import { Prober } from './prober.ts';
import { usageOf } from './usage.ts';
import { Scene } from './scene.ts';

const PODS = 50;
const CONTAINERS_PER_POD = 4;
const POLICIES = 5;
const TARGET_MS = 500;
const REST_MS = 500;
const DIRECTORY = '/srv';

/** The traps of one policy: two on files that are there, one on a file that is created. */
const pathsOf = (round: number): readonly string[] =>
  ['a', 'b', 'created'].map((name) => `${DIRECTORY}/${round}-${name}`);

/** @throws where containers or the sensor cannot be run. */
export async function watched(options: PartOptions): Promise<Report> {
  const { signal, progress } = options;
  const pods = Math.max(1, Math.round(PODS / options.shrink));
  const policies = Math.max(2, Math.round(POLICIES / options.shrink));
  const count = pods * CONTAINERS_PER_POD;
  progress(`watched: starting ${count} containers`);
  await using scene = await Scene.start({ pods, containersPerPod: CONTAINERS_PER_POD, signal });
  const roots = scene.containers.map(({ pid }) => `/proc/${pid}/root`);
  for (const root of roots) {
    mkdirSync(root + DIRECTORY, { recursive: true });
    for (let round = 0; round < policies; round++) {
      for (const path of pathsOf(round).slice(0, 2)) writeFileSync(root + path, 'x');
    }
  }
  const files = roots.flatMap((root) =>
    pathsOf(0)
      .slice(0, 2)
      .map((path) => ({ root, path })),
  );
  progress('watched: the bare loop');
  const bareMs = median(bareLoop(files, options.mode, options.rounds)) * 1.5;

  await using agent = new AgentProcess(scene, options);
  const prober = new Prober(agent.stdout);
  await agent.until('agent_ready', 1, signal);
  await agent.until('file_access_loader', 1, signal);
  await agent.until('file_access_containers', count, signal);
  const perContainer: number[] = [];
  const lasts: number[] = [];
  const written: number[] = [];
  const cpu: number[] = [];
  for (let round = 0; round < policies; round++) {
    progress(`watched: policy ${round + 1} of ${policies}`);
    const paths = pathsOf(round);
    const name = `policy-${round}`;
    const before = usageOf(agent.pid).cpuMs;
    const probing = prober.probe(
      scene.containers.flatMap(({ pid, fullId }) =>
        paths.map((path) => ({ file: `/proc/${pid}/root${path}`, key: `${name} ${fullId} ${path}` })),
      ),
      signal,
    );
    await scene.createPolicy(
      name,
      paths.map((path) => ({
        path,
        create: path.endsWith('created'),
        matchAny: [{ containerName: 'c.*' }],
      })),
    );
    const appliedMs = performance.timeOrigin + performance.now();
    const alertedMs = await probing;
    const each = scene.containers.map(({ fullId }) =>
      Math.max(...paths.map((path) => (alertedMs.get(`${name} ${fullId} ${path}`) ?? NaN) - appliedMs)),
    );
    await agent.until('file_access_kivedata', (round + 1) * count * paths.length, signal);
    cpu.push(usageOf(agent.pid).cpuMs - before);
    written.push(performance.timeOrigin + performance.now() - appliedMs);
    // The first policy finds code that was never run: it is shown by itself, and it counts.
    perContainer.push(...each);
    lasts.push(Math.max(...each));
    await sleep(REST_MS, undefined, { signal });
  }
  const figures = [0.5, 0.9, 0.99, 1].map((q) => quantile(perContainer, q));
  const [p50 = NaN, p90 = NaN, p99 = NaN, worst = NaN] = figures;
  const ms = (value: number): string => `${value.toFixed(0)} ms`;
  const ratio = median(lasts) / bareMs;
  return {
    title: `Policies with 3 traps, one after the other, for ${count} containers: ${count * 3} files each`,
    columns: ['p50', 'p90', 'p99', 'worst', 'last of a policy', 'x bare loop'],
    rows: [
      {
        label: 'acknowledged to all three alerted',
        cells: {
          p50: ms(p50),
          p90: ms(p90),
          p99: ms(p99),
          worst: ms(worst),
          'last of a policy': lasts.map((last) => last.toFixed(0)).join(', '),
          'x bare loop': ratio.toFixed(1),
        },
        values: {
          p50Ms: p50,
          p90Ms: p90,
          p99Ms: p99,
          worstMs: worst,
          ratioToBare: ratio,
          samples: perContainer.length,
        },
      },
      {
        label: 'bare loop: resolve, identify, put in the map',
        cells: { 'last of a policy': bareMs.toFixed(1), 'x bare loop': '1.0' },
        values: { bareMs },
      },
      {
        label: 'acknowledged to all KiveData in the API',
        cells: { 'last of a policy': written.map((last) => last.toFixed(0)).join(', ') },
        values: { writtenMs: median(written), writtenWorstMs: Math.max(...written) },
      },
      {
        label: "the agent's CPU time for it",
        cells: { 'last of a policy': cpu.map((each) => each.toFixed(0)).join(', ') },
        values: { cpuMs: median(cpu) },
      },
    ],
    verdicts: [{ target: `p99 at most ${TARGET_MS} ms`, measured: ms(p99), met: p99 <= TARGET_MS }],
    notes: [
      `Seen from outside: all files are opened over and over (${prober.pace}), and what counts is the kernel's time of the first access that is`,
      'alerted. A container counts when its last file does. API server, agent, container runtime and opener share the CPUs.',
    ],
  };
}
