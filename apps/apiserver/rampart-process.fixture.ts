/** `rampart` as its user runs it, and HTTP to the server that it is. */
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { Agent as HttpAgent, IncomingMessage } from 'node:http';
import { Agent, request } from 'node:https';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

import { parse } from 'yaml';
import { Agent as PlainAgent, request as plainRequest } from '../../lib/net/node-http.ts';
import { type Ended, Running } from '../../lib/testing/running.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';

export const rampart = join(import.meta.dirname, '../../bin/rampart');
/** A longer wait means a hang, even on a busy machine. */
const PATIENCE_MS = 60_000;

/** One `rampart` process; it is killed with the test. */
export class RampartProcess extends Running {
  /** The first line of stdout. */
  readonly ready: Promise<string>;

  /** @param program - The command and its first arguments; default: `rampart` itself. */
  constructor(
    args: readonly string[],
    environment: NodeJS.ProcessEnv = {},
    program: readonly [string, ...string[]] = [rampart],
  ) {
    // The remains of a killed process are removed with it.
    const temporary = new TemporaryDirectory();
    super([...program, ...args], { env: { ...process.env, TMPDIR: temporary.path, ...environment } });
    void this.ended.then(() => temporary[Symbol.dispose]());
    this.ready = this.until(() => this.stdout.includes('\n')).then(() => this.lines[0] ?? '');
    // Whoever runs a command that fails does not wait for it to be ready.
    this.ready.catch(() => undefined);
  }

  /** An apiserver that serves. Its first line is the kubeconfig, or the socket. */
  static async apiServer(...args: string[]): Promise<RampartProcess> {
    const server = new RampartProcess(['apiserver', ...args]);
    try {
      await server.ready;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
    return server;
  }

  /** Resident memory in bytes, as proc_pid_status(5) has it. */
  get residentBytes(): number {
    const text = readFileSync(`/proc/${this.pid}/status`, 'utf8');
    return Number(/^VmRSS:\s+(\d+) kB$/m.exec(text)?.[1] ?? NaN) * 1024;
  }

  signal(name: NodeJS.Signals): void {
    this.child.kill(name);
  }

  kill(): Promise<Ended> {
    return this.stop('SIGKILL');
  }
}

/** An apiserver that is killed and started again on the same data. */
export class RestartedServer implements AsyncDisposable {
  readonly #args: readonly string[];
  #current: RampartProcess | undefined;

  constructor(...args: string[]) {
    this.#args = args;
  }

  /** Returns the first line of stdout. Later `args` come after those that are always given. */
  async start(...args: string[]): Promise<string> {
    for (let attempt = 1; ; attempt++) {
      this.#current = new RampartProcess(['apiserver', ...this.#args, ...args]);
      try {
        return await this.#current.ready;
      } catch (error) {
        // For as long as nothing listens there, the port may be the near end of a connection of any other process.
        if (attempt === 60 || !String(error).includes('EADDRINUSE')) throw error;
        await delay(500);
      }
    }
  }

  async kill(): Promise<void> {
    await this.#current?.kill();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }
}

/** Runs a command to its end. */
export async function runRampart(...args: string[]): Promise<Ended> {
  await using running = new RampartProcess(args);
  return await running.ended;
}

export interface Answer {
  readonly status: number;
  readonly headers: IncomingMessage['headers'];
  readonly text: string;
}

export interface Sent {
  readonly method?: string;
  /** An object goes as JSON. */
  readonly body?: object | string | Buffer;
  readonly type?: string;
  readonly headers?: Readonly<Record<string, string>>;
}

/** Requests to one server, on connections that are kept. Nothing is tried again. */
export class Http implements Disposable {
  readonly server: URL;
  readonly token: string | undefined;
  readonly ca: string | undefined;
  readonly #socketPath: string | undefined;
  readonly #agent: Agent | HttpAgent;

  private constructor(server: URL, token?: string, ca?: string, socketPath?: string) {
    [this.server, this.token, this.ca, this.#socketPath] = [server, token, ca, socketPath];
    const how = { keepAlive: true, maxSockets: 64 };
    this.#agent = server.protocol === 'https:' ? new Agent({ ...how, ca }) : new PlainAgent(how);
  }

  /** As the kubeconfig says; `undefined` for the token leaves it out. */
  static of(kubeconfig: string, change: { readonly token?: string | undefined; port?: number } = {}): Http {
    const config = parse(readFileSync(kubeconfig, 'utf8')) as {
      clusters: [{ cluster: { server: string; 'certificate-authority-data': string } }];
      users: [{ user: { token: string } }];
    };
    const { server, 'certificate-authority-data': ca } = config.clusters[0].cluster;
    const token = 'token' in change ? change.token : config.users[0].user.token;
    return new Http(new URL(server), token, Buffer.from(ca, 'base64').toString());
  }

  static onSocket(path: string): Http {
    return new Http(new URL('http://localhost'), undefined, undefined, path);
  }

  async open(path: string, sent: Sent = {}): Promise<IncomingMessage> {
    const { method = 'GET', body, type = 'application/json', headers = {} } = sent;
    const bytes =
      body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
    const ask = this.server.protocol === 'https:' ? request : plainRequest;
    const asked = ask({
      agent: this.#agent,
      host: this.server.hostname.replace(/^\[|\]$/g, ''),
      port: this.server.port,
      ...(this.#socketPath !== undefined && { socketPath: this.#socketPath }),
      path,
      method,
      headers: {
        ...(this.token !== undefined && { authorization: `Bearer ${this.token}` }),
        ...(bytes !== undefined && { 'content-type': type, 'content-length': Buffer.byteLength(bytes) }),
        ...headers,
      },
    });
    const answered = once(asked, 'response', { signal: AbortSignal.timeout(PATIENCE_MS) });
    // Told by `answered`, or with the answer.
    asked.on('error', () => undefined);
    asked.end(bytes);
    const [response] = (await answered) as [IncomingMessage];
    return response;
  }

  async ask(path: string, sent: Sent = {}): Promise<Answer> {
    return await this.read(await this.open(path, sent));
  }

  /** The rest of an answer. */
  async read(response: IncomingMessage): Promise<Answer> {
    const parts: Buffer[] = [];
    const hung = setTimeout(() => response.destroy(new Error('the answer does not end')), PATIENCE_MS);
    try {
      for await (const part of response) parts.push(part as Buffer);
    } finally {
      clearTimeout(hung);
    }
    const { statusCode: status = 0, headers } = response;
    return { status, headers, text: Buffer.concat(parts).toString() };
  }

  /** The body as JSON. @throws where the answer is an error. */
  async json<T = Record<string, unknown>>(path: string, sent: Sent = {}): Promise<T> {
    const { status, text } = await this.ask(path, sent);
    if (status >= 300) throw new Error(`${sent.method ?? 'GET'} ${path}: ${status} ${text}`);
    return JSON.parse(text) as T;
  }

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }
}
