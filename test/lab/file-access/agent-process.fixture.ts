/** `rampart agent` as a node runs it: a process that may be killed, stopped for a while and started again. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';

import { rampart } from '../../../apps/apiserver/rampart-process.fixture.ts';
import { heldBy } from '../../../lib/ebpf/kernel-objects.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { testMode } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveAlert } from '../../../guards/file-access/alert/alert.ts';

export interface AgentProcessOptions {
  readonly nodeName: string;
  readonly kubeconfig: string;
  readonly criSocket: string;
  /** Kept over restarts. */
  readonly spool: string;
  readonly alertsSocket: string;
  readonly args?: readonly string[];
}

/** A line of stdout. */
export interface ReportedAlert {
  /** Number of the process, from 1. */
  readonly run: number;
  readonly line: string;
  readonly alert: KiveAlert;
}

/** Disposing it kills it. */
export class AgentProcess implements AsyncDisposable {
  readonly #options: AgentProcessOptions;
  /** Alerts of all processes, in order. */
  readonly reported: ReportedAlert[] = [];
  /** Output of the running process, or of the last one. */
  stderr = '';
  #run = 0;
  #child: ChildProcess | undefined;
  #ended: Promise<unknown> = Promise.resolve();

  constructor(options: AgentProcessOptions) {
    this.#options = options;
  }

  /** How often it was started. */
  get run(): number {
    return this.#run;
  }

  /** In how many places of the kernel it has programs. */
  attachments(): number {
    return heldBy(this.#child?.pid ?? 0).link.size;
  }

  /** Starts it; where it runs already, throws. */
  start(): void {
    const { nodeName, kubeconfig, criSocket, spool, alertsSocket, args = [] } = this.#options;
    if (this.#child?.exitCode === null && this.#child.signalCode === null) throw new Error('it runs');
    const run = ++this.#run;
    this.stderr = '';
    const child = spawn(
      rampart,
      [
        ...['agent', '--node-name', nodeName, '--cri-socket', criSocket, '--spool', spool],
        ...['--alerts-socket', alertsSocket, '--mode', testMode(), '--metrics', '0'],
        ...['--allow-callback', '127.0.0.1', ...args],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, KUBECONFIG: kubeconfig } },
    );
    this.#child = child;
    this.#ended = once(child, 'close');
    child.stderr.setEncoding('utf8').on('data', (text: string) => (this.stderr += text));
    createInterface({ input: child.stdout }).on('line', (line) => {
      // A process that is killed may leave half a line.
      if (line.endsWith('}')) this.reported.push({ run, line, alert: JSON.parse(line) as KiveAlert });
    });
  }

  /** Returns when it is the one that alerts for its kernel. */
  async untilLoader(patienceMs?: number): Promise<void> {
    await until('to be the loader', () => this.isLoader(), patienceMs);
  }

  async isLoader(): Promise<boolean> {
    return (await this.metric('file_access_loader')) === 1;
  }

  /** `rampart_NAME`, summed over its labels. @throws while it does not serve them. */
  async metric(name: string): Promise<number> {
    const text = await (await this.http('/metrics')).text();
    const found = [...text.matchAll(new RegExp(`^rampart_${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))];
    if (found.length === 0) throw new Error(`no metric rampart_${name}`);
    return found.reduce((sum, [, value]) => sum + Number(value), 0);
  }

  /** Asks its metrics server. */
  async http(path: string): Promise<Response> {
    const url = /metrics on (\S+)\/metrics/.exec(this.stderr)?.[1];
    if (url === undefined) throw new Error('it serves no metrics yet');
    return await fetch(`${url}${path}`, { signal: AbortSignal.timeout(5000) });
  }

  signal(name: NodeJS.Signals): void {
    this.#child?.kill(name);
  }

  /** Ends it in order. Returns its exit code. */
  async stop(): Promise<number | null> {
    return await this.#end('SIGTERM');
  }

  async kill(): Promise<void> {
    await this.#end('SIGKILL');
  }

  async #end(signal: NodeJS.Signals): Promise<number | null> {
    this.#child?.kill(signal);
    await this.#ended;
    return this.#child?.exitCode ?? null;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}
