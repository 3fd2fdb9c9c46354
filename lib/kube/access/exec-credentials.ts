/** Credentials from a program: the exec plugins of a kubeconfig (client.authentication.k8s.io). */
import { spawn } from 'node:child_process';

import { errorCodes, RampartError } from '../../errors/errors.ts';
import { orAborted } from '../../time/abort.ts';
import { type Clock, systemClock } from '../../time/clock.ts';
import type { Credential, Credentials } from './credentials.ts';

/** The supported versions of the protocol. */
export const execApiVersions: readonly string[] = [
  'client.authentication.k8s.io/v1',
  'client.authentication.k8s.io/v1beta1',
];

export interface ExecOptions {
  readonly apiVersion: string;
  readonly command: string;
  readonly args: readonly string[];
  /** Added to the environment of this process. */
  readonly env: Readonly<Record<string, string>>;
  /** For people whose machine lacks the program. */
  readonly installHint?: string | undefined;
  /** Facts about the cluster that are passed to the program, if it asks for them. */
  readonly cluster?: Readonly<Record<string, unknown>> | undefined;
  /** Default: 1 minute. */
  readonly timeoutMs?: number;
  /** Where the program's stderr goes. Default: `inherit`, because it is for people. */
  readonly stderr?: 'inherit' | 'ignore';
  readonly clock?: Clock | undefined;
}

const MAX_OUTPUT_BYTES = 1024 * 1024;

interface Cached {
  readonly credential: Credential;
  readonly expiresMs: number;
}

/** Runs the program for the first request, and once its credential has expired (by the wall clock) or was refused; callers share a run. */
export class ExecCredentials implements Credentials {
  readonly #options: ExecOptions;
  readonly #clock: Clock;
  #cached: Cached | undefined;
  #running: Promise<Credential> | undefined;

  constructor(options: ExecOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  async current(signal: AbortSignal): Promise<Credential> {
    signal.throwIfAborted();
    if (this.#cached && this.#clock.wallMs() < this.#cached.expiresMs) return this.#cached.credential;
    this.#running ??= this.#run().finally(() => (this.#running = undefined));
    // If the signal aborts, the run continues for other callers, and for the next request.
    return orAborted(this.#running, signal);
  }

  invalidate(used: Credential): void {
    if (used === this.#cached?.credential) this.#cached = undefined;
  }

  async #run(): Promise<Credential> {
    const cached = readAnswer(await runPlugin(this.#options), this.#options);
    this.#cached = cached;
    return cached.credential;
  }
}

/** Runs the program. @returns what it wrote to stdout */
async function runPlugin(options: ExecOptions): Promise<string> {
  const { apiVersion, command, args, env, cluster, timeoutMs = 60_000, stderr = 'inherit' } = options;
  const info = {
    apiVersion,
    kind: 'ExecCredential',
    spec: { interactive: false, ...(cluster && { cluster }) },
  };
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(command, args, {
    env: { ...process.env, ...env, KUBERNETES_EXEC_INFO: JSON.stringify(info) },
    stdio: ['ignore', 'pipe', stderr],
  });
  // Not spawn's own timeout: for a program that cannot be started, Node.js leaves that timer running.
  const timer = setTimeout(() => {
    child.kill('SIGKILL');
    // A child of the plugin may still hold the other end.
    child.stdout.destroy();
  }, timeoutMs);
  const chunks: Buffer[] = [];
  let sizeBytes = 0;
  child.stdout.on('data', (chunk: Buffer) => {
    sizeBytes += chunk.length;
    if (sizeBytes <= MAX_OUTPUT_BYTES) chunks.push(chunk);
    else child.kill('SIGKILL');
  });
  child.once('error', (error: NodeJS.ErrnoException) => {
    const hint = error.code === 'ENOENT' ? options.installHint : undefined;
    reject(failed(options, error.message, hint));
  });
  child.once('close', (code, signal) => {
    if (sizeBytes > MAX_OUTPUT_BYTES) reject(failed(options, `its output is over ${MAX_OUTPUT_BYTES} bytes`));
    else if (signal !== null)
      reject(failed(options, `it was ended by ${signal} (time limit: ${timeoutMs} ms)`));
    else if (code !== 0) reject(failed(options, `it ended with exit code ${code}`));
    else resolve(Buffer.concat(chunks).toString('utf8'));
  });
  return promise.finally(() => clearTimeout(timer));
}

/** Error messages quote nothing that the program wrote: it may be the secret itself. */
function readAnswer(output: string, options: ExecOptions): Cached {
  let answer: unknown;
  try {
    answer = JSON.parse(output);
  } catch {
    throw failed(options, 'its output is not JSON');
  }
  const { apiVersion, kind, status } = (answer ?? {}) as Record<string, unknown>;
  if (kind !== 'ExecCredential' || apiVersion !== options.apiVersion) {
    throw failed(options, `its output is not an ExecCredential of ${options.apiVersion}`);
  }
  const text = (name: string): string | undefined => {
    const value = (status as Record<string, unknown> | undefined)?.[name];
    return typeof value === 'string' && value !== '' ? value : undefined;
  };
  const [token, cert, key] = [text('token'), text('clientCertificateData'), text('clientKeyData')];
  if ((cert === undefined) !== (key === undefined)) {
    throw failed(options, 'its output has only one of clientCertificateData and clientKeyData');
  }
  if (token === undefined && cert === undefined) {
    throw failed(options, 'its output has neither a token nor a client certificate');
  }
  if (token !== undefined && !/^[\x21-\x7e]+$/.test(token)) {
    throw failed(options, 'its token contains invalid characters');
  }
  const expiry = text('expirationTimestamp');
  const expiresMs = expiry === undefined ? Infinity : Date.parse(expiry);
  if (Number.isNaN(expiresMs)) throw failed(options, 'its expirationTimestamp is not a date');
  return {
    expiresMs,
    credential: {
      authorization: token && `Bearer ${token}`,
      certificate: cert && key ? { cert, key } : undefined,
      secrets: token ? [token] : [],
    },
  };
}

function failed({ command }: ExecOptions, why: string, next?: string): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `credential plugin ${command} of the kubeconfig`,
    why,
    ...(next && { next }),
  });
}
