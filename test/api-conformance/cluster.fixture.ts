/**
 * A cluster for the black-box suite: the one that `KUBECONFIG` names, else the embedded API server, started as a
 * user would. The suite knows of it what the Kubernetes API documentation says, and nothing else; it speaks to it by
 * kubectl and by `@kubernetes/client-node`.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { request, type RequestOptions } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';

import { KubeConfig, KubernetesObjectApi } from '@kubernetes/client-node';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const READY_MS = 30_000;
/** Real clusters take their time, this machine may be busy; what takes longer hangs. */
const PATIENCE_MS = 60_000;

export interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Answer {
  readonly status: number;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
  readonly text: string;
  /** The text as JSON; throws if it is invalid. */
  // oxlint-disable-next-line typescript/no-explicit-any
  json(): any;
}

export interface RawRequest {
  readonly method?: string;
  readonly body?: string | object;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Leave out who asks. */
  readonly anonymous?: boolean;
}

/** A cluster, and what the tests do with it. Disposing it removes what they made, and ends what was started. */
export class Cluster implements AsyncDisposable {
  readonly config: KubeConfig;
  readonly objects: KubernetesObjectApi;
  readonly #directory: string;
  readonly #kubeconfig: string;
  readonly #server: ChildProcess | undefined;
  readonly #namespaces: string[] = [];
  readonly #leftovers: string[][] = [];

  private constructor(kubeconfig: string, directory: string, server: ChildProcess | undefined) {
    this.#kubeconfig = kubeconfig;
    this.#directory = directory;
    this.#server = server;
    this.config = new KubeConfig();
    this.config.loadFromFile(kubeconfig);
    this.objects = KubernetesObjectApi.makeApiClient(this.config);
  }

  static async open(): Promise<Cluster> {
    const directory = mkdtempSync(join(tmpdir(), 'rampart-cluster-'));
    const given = process.env['KUBECONFIG'];
    if (given !== undefined && given !== '') return new Cluster(given, directory, undefined);
    const server = spawn(
      rampart,
      ['apiserver', '--data', join(directory, 'data'), '--listen', '127.0.0.1:0'],
      {
        stdio: ['ignore', 'pipe', 'inherit'],
      },
    );
    try {
      return new Cluster(await kubeconfigOf(server), directory, server);
    } catch (error) {
      await end(server);
      rmSync(directory, { recursive: true, force: true });
      throw error;
    }
  }

  /** Runs kubectl, whatever it answers. */
  async tryKubectl(
    args: readonly string[],
    input?: string,
    environment: NodeJS.ProcessEnv = {},
  ): Promise<Run> {
    const kubectl = spawn('kubectl', ['--kubeconfig', this.#kubeconfig, ...args], {
      // Its cache of the discovery would outlive the server.
      env: { PATH: process.env['PATH'], HOME: this.#directory, ...environment },
      stdio: ['pipe', 'pipe', 'pipe'],
      timeout: PATIENCE_MS,
    });
    let stdout = '';
    let stderr = '';
    kubectl.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    kubectl.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    // It may end before it has read everything.
    kubectl.stdin.on('error', () => undefined);
    kubectl.stdin.end(input ?? '');
    const [code] = (await once(kubectl, 'close')) as [number | null];
    return { code, stdout, stderr };
  }

  /** Runs kubectl, which has to succeed. Returns what it wrote to stdout, without white space at the end. */
  async kubectl(args: readonly string[], input?: string): Promise<string> {
    const run = await this.tryKubectl(args, input);
    if (run.code !== 0) throw new Error(`kubectl ${args.join(' ')}: exit code ${run.code}\n${run.stderr}`);
    return run.stdout.trimEnd();
  }

  /** A namespace of its own, with that what a new one has. */
  async namespace(): Promise<string> {
    const name = `suite-${randomBytes(4).toString('hex')}`;
    await this.objects.create({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } });
    this.#namespaces.push(name);
    return name;
  }

  /** kubectl arguments that remove something outside of the namespaces, at the end. */
  removeLater(...args: string[]): void {
    this.#leftovers.push(args);
  }

  /** A request that no client library would make. */
  async raw(path: string, options: RawRequest = {}): Promise<Answer> {
    const { method = 'GET', body, type = 'application/json', headers = {}, anonymous = false } = options;
    const server = this.config.getCurrentCluster()?.server ?? '';
    const access: RequestOptions = {};
    await this.config.applyToHTTPSOptions(access);
    const text = typeof body === 'object' ? JSON.stringify(body) : body;
    const sent = request(new URL(path, server), {
      ...access,
      ...(anonymous ? { cert: undefined, key: undefined, auth: undefined } : {}),
      method,
      headers: {
        ...(text === undefined ? {} : { 'content-type': type, 'content-length': Buffer.byteLength(text) }),
        // A server that refuses a body closes a connection that is not kept, and its answer is lost while the body is written.
        connection: 'keep-alive',
        ...headers,
      },
    });
    if (!anonymous) {
      for (const [name, value] of Object.entries(access.headers ?? {})) sent.setHeader(name, value ?? '');
    }
    // A server that refuses a body may close before it has read it.
    const answered = once(sent, 'response');
    sent.end(text);
    const [response] = (await answered) as [IncomingMessage];
    let answer = '';
    for await (const part of response.setEncoding('utf8')) answer += String(part);
    const { statusCode: status = 0, headers: received } = response;
    return { status, headers: received, text: answer, json: () => JSON.parse(answer) as unknown };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      if (this.#server === undefined) {
        for (const args of this.#leftovers)
          await this.tryKubectl([...args, '--ignore-not-found', '--wait=false']);
        for (const name of this.#namespaces) {
          await this.tryKubectl(['delete', 'namespace', name, '--ignore-not-found', '--wait=false']);
        }
      } else await end(this.#server);
    } finally {
      rmSync(this.#directory, { recursive: true, force: true });
    }
  }

  /** A file that kubectl can read; gone at the end. */
  file(name: string, text: string): string {
    const path = join(this.#directory, name);
    writeFileSync(path, text);
    return path;
  }
}

/** The first line that the server writes is the path of its kubeconfig. */
async function kubeconfigOf(server: ChildProcess): Promise<string> {
  const lines = createInterface({ input: server.stdout ?? process.stdin });
  const [line] = (await Promise.race([
    once(lines, 'line', { signal: AbortSignal.timeout(READY_MS) }),
    once(server, 'exit').then(([code]) => {
      throw new Error(`rampart apiserver ended with exit code ${String(code)}`);
    }),
  ])) as [string];
  return line;
}

async function end(server: ChildProcess): Promise<void> {
  if (server.exitCode !== null || server.signalCode !== null) return;
  const exited = once(server, 'exit');
  server.kill('SIGTERM');
  const gone = await Promise.race([exited.then(() => true), delay(10_000, false, { ref: false })]);
  if (!gone) {
    server.kill('SIGKILL');
    await exited;
    throw new Error('rampart apiserver did not end within 10 s of SIGTERM');
  }
}

/** Asks again until the answer will do; for what a cluster does in its own time. */
export async function eventually<T>(what: string, ask: () => Promise<T | undefined | false>): Promise<T> {
  const until = performance.now() + PATIENCE_MS;
  let last: unknown;
  while (performance.now() < until) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      last = error;
    }
    await delay(50);
  }
  throw new Error(`not within ${PATIENCE_MS} ms: ${what}`, { cause: last });
}

/** The code and body of the Status that a call of client-node was refused with. */
export async function refusal(call: Promise<unknown>): Promise<{ code: number; status: StatusBody }> {
  try {
    await call;
  } catch (error) {
    const { code, body } = error as { code?: number; body?: unknown };
    if (code === undefined) throw error;
    return { code, status: (typeof body === 'string' ? JSON.parse(body) : body) as StatusBody };
  }
  throw new Error('it was not refused');
}

export interface StatusBody {
  readonly kind: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly code: number;
  readonly details?: {
    readonly name?: string;
    readonly kind?: string;
    readonly causes?: readonly {
      readonly field?: string;
      readonly message?: string;
      readonly reason?: string;
    }[];
  };
}
