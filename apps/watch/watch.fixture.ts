/** `rampart watch` as a user starts it, for tests. */
import { spawn, spawnSync, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { testMode } from '../../lib/sensor/sensor.fixture.ts';
import { assertFinding } from '../../guard/stream/finding-schema.fixture.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

const top = join(import.meta.dirname, '../..');
export const rampart: string = join(top, 'bin/rampart');

/** How a run ended, with all it said. */
export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** A running `rampart watch`; killed at the end when it was not stopped. */
export class Watching implements AsyncDisposable {
  readonly child: ChildProcess;
  readonly #exit: Promise<unknown>;
  #stdout = '';
  #stderr = '';
  #wake: (() => void) | undefined;

  private constructor([command = rampart, ...args]: readonly string[]) {
    this.child = spawn(command, args, { cwd: top, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#exit = once(this.child, 'close').then(() => this.#wake?.());
    this.child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#stdout += text;
      this.#wake?.();
    });
    this.child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#stderr += text;
      this.#wake?.();
    });
  }

  /** Starts it and returns once it says that it watches: from then on every access counts. */
  static async start(...args: readonly string[]): Promise<Watching> {
    return Watching.#start([rampart, ...commandLine(args)]);
  }

  /** The same through the script of package.json: `pid` is that of npm. */
  static startByNpm(...args: readonly string[]): Promise<Watching> {
    return Watching.#start(['npm', 'run', 'rampart', '--', ...commandLine(args)]);
  }

  static async #start(command: readonly string[]): Promise<Watching> {
    const watching = new Watching(command);
    try {
      await watching.untilSaid(/: watching \d+ path/);
      return watching;
    } catch (error) {
      await watching[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    const { pid } = this.child;
    if (pid === undefined) throw new Error('rampart did not start');
    return pid;
  }

  get stderr(): string {
    return this.#stderr;
  }

  /** The whole lines of stdout so far. */
  lines(): string[] {
    return this.#stdout.split('\n').slice(0, -1);
  }

  alerts(): KiveAlert[] {
    return this.lines().map((line) => {
      assertFinding(line);
      return JSON.parse(line) as KiveAlert;
    });
  }

  /** Resolves when `holds` does; asked again whenever something is printed. Rejects when it ends before or after 30 s. */
  async until(holds: () => boolean, signal: AbortSignal = AbortSignal.timeout(30_000)): Promise<void> {
    while (!holds()) {
      if (this.child.exitCode !== null || this.child.signalCode !== null) {
        throw new Error(`rampart has ended (${this.child.exitCode}): ${this.#stderr}`);
      }
      const { promise, resolve, reject } = Promise.withResolvers<void>();
      const onAbort = (): void => reject(new Error(`waited in vain: ${this.#stdout}${this.#stderr}`));
      signal.addEventListener('abort', onAbort, { once: true });
      if (signal.aborted) onAbort();
      this.#wake = resolve;
      try {
        await promise;
      } finally {
        signal.removeEventListener('abort', onAbort);
        this.#wake = undefined;
      }
    }
  }

  async untilSaid(pattern: RegExp): Promise<void> {
    await this.until(() => pattern.test(this.#stderr));
  }

  /** Resolves with the alerts when there are as many. */
  async untilAlerts(count: number): Promise<KiveAlert[]> {
    await this.until(() => this.lines().length >= count);
    return this.alerts();
  }

  /** Ends it by a signal and resolves with all it said. */
  async stop(signal: NodeJS.Signals = 'SIGINT'): Promise<Ended> {
    this.child.kill(signal);
    await this.#exit;
    const { exitCode: code, signalCode } = this.child;
    return { code, signal: signalCode, stdout: this.#stdout, stderr: this.#stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.stop('SIGKILL');
  }
}

function commandLine(args: readonly string[]): string[] {
  return ['watch', '--mode', testMode(), ...args];
}

/** Runs `rampart watch` to its end; for command lines that are refused. */
export function refused(args: readonly string[], wrap: readonly string[] = [], program = rampart): Ended {
  const [command = program, ...rest] = [...wrap, program, 'watch', ...args];
  const { status, signal, stdout, stderr, error } = spawnSync(command, rest, {
    encoding: 'utf8',
    timeout: 60_000,
  });
  if (error) throw error;
  return { code: status, signal, stdout, stderr };
}
