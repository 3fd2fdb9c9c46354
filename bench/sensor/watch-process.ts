/** A `rampart watch` of a file in a fresh directory, run as users run it: by bin/rampart. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { endProcess } from '../end-process.ts';

const COMMAND = join(import.meta.dirname, '../../bin/rampart');
const END_WAIT_MS = 5000;

/** Dispose it to stop the command and remove the directory. */
export class WatchProcess implements AsyncDisposable {
  /** The watched file. */
  readonly file: string;
  readonly #directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  readonly #said: string[] = [];
  readonly #startMs = performance.now();

  /** @param options Further options of `rampart watch`. */
  constructor(options: readonly string[]) {
    this.file = join(this.#directory, 'file');
    writeFileSync(this.file, 'x');
    this.#child = spawn(COMMAND, ['watch', ...options, this.file], { stdio: ['ignore', 'pipe', 'pipe'] });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The alert lines. */
  get stdout(): Readable {
    return this.#child.stdout;
  }

  /** The command's output about itself, lines on stderr. */
  get said(): readonly string[] {
    return this.#said;
  }

  /**
   * Waits until the command watches and returns how long that took since it was started, in milliseconds.
   *
   * @throws {Error} with what the command said when it ends instead.
   */
  async watching(signal: AbortSignal): Promise<number> {
    const lines = createInterface({ input: this.#child.stderr });
    lines.on('line', (line) => this.#said.push(line));
    const { promise, resolve, reject } = Promise.withResolvers<number>();
    lines.on('line', (line) => {
      if (line.includes(': watching ')) resolve(performance.now() - this.#startMs);
    });
    this.#child.on('error', reject);
    lines.once('close', () => reject(new Error(`rampart watch ended: ${this.#said.join('; ')}`)));
    const onAbort = (): void => reject(signal.reason);
    signal.addEventListener('abort', onAbort, { once: true });
    try {
      return await promise;
    } finally {
      signal.removeEventListener('abort', onAbort);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child, END_WAIT_MS);
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
