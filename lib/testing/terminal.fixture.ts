/** A program on a terminal of its own, which is script(1)'s. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { stripVTControlCharacters } from 'node:util';

import { until } from './until.fixture.ts';

/** Disposing it ends the program. */
export class Terminal implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<unknown>;
  #text = '';

  /** @param command - For a shell. */
  constructor(command: string, options: { readonly cwd?: string; readonly env?: NodeJS.ProcessEnv } = {}) {
    const { cwd, env = {} } = options;
    this.#child = spawn('script', ['-qec', `stty cols 200; exec ${command}`, '/dev/null'], {
      stdio: ['pipe', 'pipe', 'inherit'],
      cwd,
      env: { ...process.env, SHELL: '/bin/sh', TERM: 'dumb', ...env },
    });
    this.#ended = once(this.#child, 'exit');
    this.#child.stdout?.setEncoding('utf8').on('data', (more: string) => (this.#text += more));
  }

  /** Text shown since the last {@link type}, without escape sequences. */
  get shown(): string {
    return stripVTControlCharacters(this.#text);
  }

  type(keys: string): void {
    this.#text = '';
    this.#child.stdin?.write(keys);
  }

  /** @throws {Error} if it never does. */
  async untilShown(pattern: RegExp): Promise<void> {
    try {
      await until(() => pattern.test(this.shown));
    } catch (cause) {
      throw new Error(`${String(pattern)} is not in ${JSON.stringify(this.shown)}`, { cause });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#child.kill('SIGKILL');
    await this.#ended;
  }
}
