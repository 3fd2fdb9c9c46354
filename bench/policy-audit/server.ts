/** How long a policy server takes to answer at a given rate, by HTTPS, as the API server asks it. */
import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import { endProcess } from '../end-process.ts';
import { type PartOptions, quantile, type Report, type ReportRow } from '../report.ts';
import { expressions, reviewOf } from './reviews.ts';

const TARGET_MS = 20;
const TARGET_RATE = 1000;
const rates = [250, 500, TARGET_RATE];
const WARM_UP_MS = 3000;
const MEASURE_MS = 10_000;
const REVIEWS = 500;
/** Of Linux: clock ticks a second, as /proc tells CPU time. */
const TICKS = 100;

/** @throws {Error} where the server does not start, or refuses what it has to allow. */
export async function server(options: PartOptions): Promise<Report> {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-server-'));
  let child: ChildProcess | undefined;
  try {
    const authority = issueAuthority('bench', { now: new Date(), days: 1 });
    const { key, cert } = issueServerCertificate(authority, ['127.0.0.1'], { now: new Date(), days: 1 });
    const policies = expressions.map((expression, index) => [
      `clusterwide-rule-${index}`,
      { module: 'cel-policy', settings: { validations: [{ expression }] } },
    ]);
    writeFileSync(join(directory, 'policies.yml'), JSON.stringify(Object.fromEntries(policies)));
    writeFileSync(join(directory, 'tls.key'), key);
    writeFileSync(join(directory, 'tls.crt'), cert);
    const started = await startServer(directory);
    child = started.child;
    const agent = new Agent({ keepAlive: true, ca: authority.cert, maxSockets: 64 });
    const texts = Array.from({ length: REVIEWS }, (_, index) => reviewOf(index));
    const ask = async (number: number): Promise<void> => {
      const path = `/validate/clusterwide-rule-${number % expressions.length}`;
      const answer = await post(agent, started.port, path, texts[number % REVIEWS] ?? '');
      if (!answer.includes('"allowed":true')) throw new Error(`${path}: ${answer}`);
    };
    options.progress('server: warming up');
    await atRate(ask, { perSecond: TARGET_RATE, forMs: WARM_UP_MS / options.shrink, signal: options.signal });
    const rows: ReportRow[] = [];
    let p99AtTarget = Number.NaN;
    for (const perSecond of rates) {
      options.progress(`server: ${perSecond} requests/s`);
      const before = cpuSecondsOf(child);
      const forMs = MEASURE_MS / options.shrink;
      const timesMs = await atRate(ask, { perSecond, forMs, signal: options.signal });
      const cpuMs = ((cpuSecondsOf(child) - before) * 1000) / timesMs.length;
      const [p50, p99] = [quantile(timesMs, 0.5), quantile(timesMs, 0.99)];
      if (perSecond === TARGET_RATE) p99AtTarget = p99;
      const show = (value: number): string => value.toFixed(2);
      rows.push({
        label: `${perSecond} requests/s`,
        cells: { 'p50 ms': show(p50), 'p99 ms': show(p99), 'CPU ms/request': show(cpuMs) },
        values: { perSecond, p50Ms: p50, p99Ms: p99, cpuMsPerRequest: cpuMs },
      });
    }
    agent.destroy();
    return {
      title: `A policy server: ${expressions.length} policies of CEL, reviews of pods, HTTPS over connections that are kept`,
      columns: ['p50 ms', 'p99 ms', 'CPU ms/request'],
      rows,
      verdicts: [
        {
          target: `p99 at most ${TARGET_MS} ms at ${TARGET_RATE} requests/s`,
          measured: `${p99AtTarget.toFixed(1)} ms`,
          met: p99AtTarget <= TARGET_MS,
        },
      ],
      notes: [
        'Times are from when a request was due, so that one that waits makes those behind it later. The client takes a core, too.',
        'CPU is that of the server, all threads.',
      ],
    };
  } finally {
    if (child !== undefined) await endProcess(child, 5000);
    rmSync(directory, { recursive: true, force: true });
  }
}

interface Started {
  readonly child: ChildProcess;
  readonly port: number;
}

async function startServer(directory: string): Promise<Started> {
  const program = join(import.meta.dirname, '../../apps/rampart.ts');
  const flags = {
    policies: 'policies.yml',
    'policies-download-dir': '.',
    'cert-file': 'tls.crt',
    'key-file': 'tls.key',
  };
  const child = spawn(
    process.execPath,
    [
      program,
      'policy-server',
      ...Object.entries(flags).flatMap(([name, file]) => [`--${name}`, join(directory, file)]),
      ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
      '--ignore-kubernetes-connection-failure',
    ],
    {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, HOME: directory, KUBECONFIG: join(directory, 'none') },
    },
  );
  const said: string[] = [];
  let port = 0;
  for await (const line of createInterface({ input: child.stderr })) {
    said.push(line);
    port = Number(/"address":\{"host":"127\.0\.0\.1","port":(\d+)\}/.exec(line)?.[1] ?? port);
    if (line.includes('the policy server is ready')) {
      child.stderr.resume();
      return { child, port };
    }
  }
  throw new Error(`the policy server does not start:\n${said.join('\n')}`);
}

/** Asks at a rate, whether or not what was asked before is answered; how long each took from when it was due. */
async function atRate(
  ask: (number: number) => Promise<void>,
  {
    perSecond,
    forMs,
    signal,
  }: { readonly perSecond: number; readonly forMs: number; readonly signal: AbortSignal },
): Promise<number[]> {
  const timesMs: number[] = [];
  const running: Promise<void>[] = [];
  const startMs = performance.now();
  const count = Math.max(10, Math.round((perSecond * forMs) / 1000));
  for (let number = 0; number < count; number++) {
    const dueMs = startMs + (number * 1000) / perSecond;
    const leftMs = dueMs - performance.now();
    if (leftMs > 1) await delay(leftMs, undefined, { signal });
    running.push(ask(number).then(() => void timesMs.push(performance.now() - dueMs)));
  }
  await Promise.all(running);
  return timesMs;
}

async function post(agent: Agent, port: number, path: string, body: string): Promise<string> {
  const headers = { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) };
  const request = httpsRequest({ host: '127.0.0.1', port, path, method: 'POST', agent, headers });
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  request.once('error', reject);
  request.once('response', (response) => {
    let text = '';
    response.setEncoding('utf8');
    response.on('data', (chunk: string) => (text += chunk));
    response.once('end', () => resolve(text));
    response.once('error', reject);
  });
  request.end(body);
  return promise;
}

/** utime and stime of proc_pid_stat(5), behind the name, which may have spaces. */
function cpuSecondsOf({ pid }: ChildProcess): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'latin1')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) / TICKS;
}
