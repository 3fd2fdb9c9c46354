/**
 * kubectl, as a person would use it.
 *
 * @module
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { find } from './commands.ts';

const WAIT_MS = 30_000;
const PACE_MS = 100;

export interface KubectlOptions {
  readonly kubeconfig: string;
  /** Where it is run, and where it keeps what it caches. */
  readonly directory: string;
  readonly signal: AbortSignal;
}

export interface Answer {
  readonly exitCode: number | null;
  /** On stdout, or on stderr where that is nothing. */
  readonly said: string;
}

export class Kubectl {
  readonly #options: KubectlOptions;

  constructor(options: KubectlOptions) {
    this.#options = options;
  }

  /** Runs it to its end, whatever it answers. */
  async ask(...words: readonly string[]): Promise<Answer> {
    const { kubeconfig: KUBECONFIG, directory, signal } = this.#options;
    signal.throwIfAborted();
    const child = spawn(find('kubectl'), words, {
      cwd: directory,
      env: { PATH: process.env['PATH'], HOME: directory, KUBECONFIG },
      stdio: ['ignore', 'pipe', 'pipe'],
      signal,
    });
    const [stdout, stderr, [exitCode]] = await Promise.all([
      text(child.stdout),
      text(child.stderr),
      once(child, 'close') as Promise<[number | null]>,
    ]);
    return { exitCode, said: (stdout || stderr).trimEnd() };
  }

  /** What it says. @throws when it ends with another exit code than 0. */
  async run(...words: readonly string[]): Promise<string> {
    const { exitCode, said } = await this.ask(...words);
    if (exitCode !== 0) throw new Error(`kubectl ${words.join(' ')} ended with ${exitCode}: ${said}`);
    return said;
  }

  /** Asks until it answers so; the last answer where it does not in time. */
  async until(words: readonly string[], holds: (answer: string) => boolean): Promise<string> {
    const endsAtMs = performance.now() + WAIT_MS;
    for (;;) {
      const answer = await this.run(...words);
      if (holds(answer) || performance.now() > endsAtMs) return answer;
      await sleep(PACE_MS, undefined, { signal: this.#options.signal });
    }
  }
}
