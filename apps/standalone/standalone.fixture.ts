/** `rampart standalone` as a user starts it, with kubectl beside it; for tests. */
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type ClusterAccess, findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { Running } from '../../lib/testing/running.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { testMode } from '../../lib/sensor/sensor.fixture.ts';
import { assertFinding } from '../../guard/stream/finding-schema.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

export const rampart: string = join(import.meta.dirname, '../../bin/rampart');
const PATIENCE_MS = 60_000;
/** Things that are not objects, such as a log, may have changed after that. */
const UNCHANGED_MS = 500;

export interface Ran {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** One process with a directory of its own; killed and removed at the end. */
export class Standalone implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-standalone-test-'));
  #running: Running | undefined;
  /** Its variables besides the environment of this process. */
  env: NodeJS.ProcessEnv = {};
  readonly #alerts: KiveAlert[] = [];
  #client: KubeClient | undefined;
  /** How much of stdout these are of. */
  #parsed = 0;

  at(name: string): string {
    return join(this.directory, name);
  }

  write(name: string, text: string): void {
    writeFileSync(this.at(name), text);
  }

  /** Starts it and returns when its API serves. */
  async start(...args: readonly string[]): Promise<void> {
    const data = ['--data', this.at('data'), '--listen', '127.0.0.1:0', '--mode', testMode()];
    this.#parsed = 0;
    this.#alerts.length = 0;
    this.#forgetClient();
    const env = { ...process.env, ...this.env };
    this.#running = new Running([rampart, 'standalone', ...data, ...args], { env });
    await this.untilSaid(/guarding this machine with sensor mode|serving https/);
  }

  /** What the one that was started last printed. */
  get stdout(): string {
    return this.#running?.stdout ?? '';
  }

  get stderr(): string {
    return this.#running?.stderr ?? '';
  }

  /** Client of the server that was started last. It costs a small part of starting kubectl. */
  get client(): KubeClient {
    const access = (): ClusterAccess => findClusterAccess({ path: this.at('data/kubeconfig') });
    return (this.#client ??= new KubeClient(access(), { perSecond: 1000, burst: 1000 }));
  }

  get pid(): number {
    return this.#running?.pid ?? 0;
  }

  /** Whole lines of stdout. */
  alerts(): KiveAlert[] {
    const end = this.stdout.lastIndexOf('\n') + 1;
    for (const line of this.stdout.slice(this.#parsed, end).split('\n')) {
      if (line === '') continue;
      assertFinding(line);
      this.#alerts.push(JSON.parse(line) as KiveAlert);
    }
    this.#parsed = end;
    return [...this.#alerts];
  }

  /** Resolves when something that it printed makes this hold. */
  async until(holds: () => boolean): Promise<void> {
    if (this.#running === undefined) throw new Error('rampart was not started');
    await this.#running.until(holds);
  }

  async untilSaid(pattern: RegExp): Promise<void> {
    await this.until(() => pattern.test(this.stderr));
  }

  /** Runs kubectl, whatever it answers. */
  kubectl(...args: readonly string[]): Ran {
    const { status, stdout, stderr, error } = spawnSync(
      'kubectl',
      ['--kubeconfig', this.at('data/kubeconfig'), ...args],
      {
        encoding: 'utf8',
        timeout: PATIENCE_MS,
        // Its cache of the discovery would outlive the server.
        env: { PATH: process.env['PATH'], HOME: this.directory },
      },
    );
    if (error) throw error;
    return { code: status, stdout: stdout.trimEnd(), stderr: stderr.trimEnd() };
  }

  /** Asks kubectl until it answers so: again when something in the API has changed, since a start of kubectl takes CPU time. */
  async kubectlUntil(args: readonly string[], holds: (ran: Ran) => boolean): Promise<Ran> {
    const version = async (): Promise<string | undefined> =>
      (await this.client.list(namespaces)).metadata.resourceVersion;
    let last: Ran | undefined;
    let [askedAt, askedMs] = ['', 0];
    try {
      return await until(async () => {
        const now = (await version()) ?? '';
        if (now === askedAt && performance.now() - askedMs < UNCHANGED_MS) return undefined;
        [askedAt, askedMs] = [now, performance.now()];
        last = this.kubectl(...args);
        return holds(last) && last;
      });
    } catch (error) {
      const reported = `kubectl ${args.join(' ')}: ${last?.stdout}${last?.stderr}\n${this.stderr}`;
      throw new Error(reported, { cause: error });
    }
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    return (await this.#running?.stop(signal))?.code ?? null;
  }

  #forgetClient(): void {
    this.#client?.[Symbol.dispose]();
    this.#client = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#forgetClient();
    await this.stop('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }
}
