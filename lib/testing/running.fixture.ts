/** A process whose output is waited for; for tests and the demo. */
import { type ChildProcess, spawn, type SpawnOptions } from 'node:child_process';

/** Longer than anything takes here: what is waited for longer does not come. */
const PATIENCE_MS = 60_000;

/** How a process ended, with all it said. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** Disposing it kills it, and waits for its end. */
export class Running implements AsyncDisposable {
  readonly child: ChildProcess;
  /** After the last byte of both streams. Never rejects: why a program could not be started is in `stderr`. */
  readonly ended: Promise<Ended>;
  stdout = '';
  stderr = '';
  #isOver = false;
  #changed = Promise.withResolvers<void>();

  /** @param command - The program, with its path or found in PATH, and its arguments. It has no input. */
  constructor(
    [program = '', ...args]: readonly string[],
    options: Pick<SpawnOptions, 'cwd' | 'env' | 'detached'> = {},
  ) {
    const child = spawn(program, args, { ...options, stdio: ['ignore', 'pipe', 'pipe'] });
    this.child = child;
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.#wake();
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.#wake();
    });
    child.on('error', ({ message }) => (this.stderr += message));
    this.ended = new Promise((resolve) => {
      child.once('close', (code: number | null, signal: NodeJS.Signals | null) => {
        this.#isOver = true;
        this.#wake();
        resolve({ code, signal, stdout: this.stdout, stderr: this.stderr });
      });
    });
  }

  /** 0 if it could not be started. */
  get pid(): number {
    return this.child.pid ?? 0;
  }

  /** The whole lines of stdout so far. */
  get lines(): string[] {
    return this.stdout.split('\n').slice(0, -1);
  }

  /**
   * Resolves when `holds` does; asked again whenever something is printed.
   *
   * @param signal - Ends the wait. Default: after a minute.
   * @throws {Error} when it has ended, or the wait has, with all that was printed.
   */
  async until(holds: () => boolean, signal: AbortSignal = AbortSignal.timeout(PATIENCE_MS)): Promise<void> {
    const wake = (): void => this.#wake();
    signal.addEventListener('abort', wake);
    try {
      while (!holds()) {
        if (this.#isOver || signal.aborted) {
          const { exitCode, signalCode } = this.child;
          const state = this.#isOver ? `exit code ${exitCode ?? signalCode}` : 'it still runs';
          throw new Error(`waited in vain (${state}):\n${this.stderr}${this.stdout}`);
        }
        await this.#changed.promise;
      }
    } finally {
      signal.removeEventListener('abort', wake);
    }
  }

  async untilSaid(pattern: RegExp, signal?: AbortSignal): Promise<void> {
    await this.until(() => pattern.test(this.stderr), signal);
  }

  /** Ends it by a signal; by SIGKILL where that has not ended it after a minute. */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Ended> {
    this.child.kill(signal);
    const hung = setTimeout(() => this.child.kill('SIGKILL'), PATIENCE_MS);
    try {
      return await this.ended;
    } finally {
      clearTimeout(hung);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (!this.#isOver) await this.stop('SIGKILL');
  }

  #wake(): void {
    const { resolve } = this.#changed;
    this.#changed = Promise.withResolvers();
    resolve();
  }
}
