/** `rampart alerts` as a user starts it, for tests. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const PATIENCE_MS = 60_000;

/** One process; killed at the end. */
export class Alerts implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #wake = Promise.withResolvers<void>();
  stdout = '';
  stderr = '';

  constructor(args: readonly string[], environment: NodeJS.ProcessEnv = process.env) {
    const child = spawn(rampart, ['alerts', ...args], {
      stdio: ['ignore', 'pipe', 'pipe'],
      env: environment,
    });
    this.#child = child;
    this.#ended = once(child, 'close').then(() => this.#wake.resolve());
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      this.stdout += text;
      this.#wake.resolve();
    });
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      this.stderr += text;
      this.#wake.resolve();
    });
  }

  /** Whole lines of stdout. */
  get lines(): string[] {
    return this.stdout.split('\n').slice(0, -1);
  }

  /** With `-o json`. */
  get alerts(): KiveAlert[] {
    return this.lines.map((line) => JSON.parse(line) as KiveAlert);
  }

  /** Stops to read stdout, or goes on. */
  read(isReading: boolean): void {
    if (isReading) this.#child.stdout?.resume();
    else this.#child.stdout?.pause();
  }

  /** As `| head` does. */
  closeStdout(): void {
    this.#child.stdout?.destroy();
  }

  /** Resolves when something that it printed makes this hold. */
  async until(holds: () => boolean): Promise<void> {
    const patience = AbortSignal.timeout(PATIENCE_MS);
    patience.addEventListener('abort', () => this.#wake.resolve(), { once: true });
    while (!holds()) {
      if (patience.aborted || this.#child.exitCode !== null || this.#child.signalCode !== null) {
        throw new Error(
          `waited in vain (exit code ${this.#child.exitCode}):\n${this.stderr}\n${this.stdout}`,
        );
      }
      await this.#wake.promise;
      this.#wake = Promise.withResolvers<void>();
    }
  }

  async untilSaid(pattern: RegExp): Promise<void> {
    await this.until(() => pattern.test(this.stderr));
  }

  /** Waits for its end; of itself, or by a signal. */
  async end(signal?: NodeJS.Signals): Promise<number | null> {
    if (signal !== undefined) this.#child.kill(signal);
    await this.#ended;
    return this.#child.exitCode;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.stdout?.destroy();
    await this.end('SIGKILL');
  }
}
