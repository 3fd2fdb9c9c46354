/** `rampart apiserver` in a directory of its own, run as users run it: by bin/rampart. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { parse } from 'yaml';

import type { Endpoint } from './load-connection.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const END_WAIT_MS = 10_000;

interface Kubeconfig {
  readonly clusters: readonly [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } },
  ];
  readonly users: readonly [{ readonly user: { readonly token: string } }];
}

/** Dispose it to stop the server and remove its data. */
export class ServerProcess implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  #child: ChildProcessByStdio<null, Readable, null> | undefined;
  #endpoint: Endpoint | undefined;
  readonly #command: readonly [string, ...string[]];
  /** The file that clients find the server by; empty before the start. */
  kubeconfig = '';

  /** @param command - Takes the same options. */
  constructor(command: readonly [string, ...string[]] = [rampart, 'apiserver']) {
    this.#command = command;
  }

  get pid(): number {
    return this.#child?.pid ?? 0;
  }

  /** The files of the server's key and certificate, and where it is. */
  get tls(): { readonly key: string; readonly certificate: string; readonly endpoint: Endpoint } {
    if (this.#endpoint === undefined) throw new Error('the server was not started');
    const data = join(this.#directory, 'data');
    return { key: join(data, 'server.key'), certificate: join(data, 'server.crt'), endpoint: this.#endpoint };
  }

  /**
   * Starts the server, on the data that an earlier start has left.
   *
   * @returns where it is, and the milliseconds until it said that it is ready.
   */
  async start(signal: AbortSignal): Promise<{ readonly endpoint: Endpoint; readonly startMs: number }> {
    const beganMs = performance.now();
    const [command, ...args] = this.#command;
    const options = ['--data', join(this.#directory, 'data'), '--listen', '127.0.0.1:0'];
    const child = spawn(command, [...args, ...options], { stdio: ['ignore', 'pipe', 'inherit'] });
    this.#child = child;
    const lines = createInterface({ input: child.stdout });
    const ended = once(child, 'exit').then(([code]) => {
      throw new Error(`rampart apiserver ended with exit code ${String(code)}`);
    });
    const [path] = (await Promise.race([once(lines, 'line', { signal }), ended])) as [string];
    ended.catch(() => undefined);
    const startMs = performance.now() - beganMs;
    this.kubeconfig = path;
    const config = parse(readFileSync(path, 'utf8')) as Kubeconfig;
    const { server, 'certificate-authority-data': ca } = config.clusters[0].cluster;
    const { hostname: host, port } = new URL(server);
    this.#endpoint = {
      host,
      port: Number(port),
      ca: Buffer.from(ca, 'base64').toString(),
      token: config.users[0].user.token,
    };
    return { endpoint: this.#endpoint, startMs };
  }

  async stop(): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return;
    const exited = once(child, 'exit');
    child.kill('SIGTERM');
    const timer = setTimeout(() => child.kill('SIGKILL'), END_WAIT_MS);
    await exited;
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** Memory of a process from /proc, in MiB. */
export function residentMiB(pid: number): number {
  const text = readFileSync(`/proc/${pid}/status`, 'utf8');
  return Number(/^VmRSS:\s+(\d+)/m.exec(text)?.[1]) / 1024;
}

/** CPU time that a process has had, of all its threads, in ms: /proc/PID/stat, in hundredths of a second. */
export function cpuMs(pid: number): number {
  const fields = readFileSync(`/proc/${pid}/stat`, 'utf8')
    .replace(/^.*\) /s, '')
    .split(' ');
  return (Number(fields[11]) + Number(fields[12])) * 10;
}

/** A pod of about 2,000 bytes of JSON as stored. */
export function pod(name: string, node: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels: { app: 'bench', tier: `tier-${name.length % 3}`, 'pod-template-hash': '7c5ddbdf54' },
      annotations: { 'example.org/description': 'x'.repeat(120) },
    },
    spec: {
      nodeName: node,
      containers: [
        {
          name: 'main',
          image: 'example.org/team/service:1.2.3',
          args: ['--listen=0.0.0.0:8080', '--log-level=info'],
          env: [
            { name: 'MODE', value: 'production' },
            { name: 'REGION', value: 'eu-central-1' },
          ],
          ports: [{ containerPort: 8080, name: 'http' }],
          resources: { requests: { cpu: '100m', memory: '128Mi' }, limits: { memory: '256Mi' } },
        },
      ],
    },
  };
}
