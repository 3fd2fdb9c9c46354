/** A shell on a node, as one in a terminal: it runs one script after the other, each in the state that those before it left. */
import type { ChildProcess } from 'node:child_process';
import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import type { ThrowawayNode } from '../lab/throwaway-node.ts';

export interface Printed {
  /** Text of both streams, in the order of writing. */
  readonly text: string;
  /** Whether each command of the script ended with 0. */
  readonly isWell: boolean;
}

export class Shell implements AsyncDisposable {
  readonly #directory = mkdtempDisposableSync(join(tmpdir(), 'rampart-guide-'));
  readonly #shell: ChildProcess;
  readonly #ended: Promise<unknown>;
  #text = '';
  #scripts = 0;
  #changed = Promise.withResolvers<void>();

  constructor(node: ThrowawayNode) {
    this.#shell = node.spawn(['bash', '--noprofile', '--norc'], { stdio: ['pipe', 'pipe', 'inherit'] });
    // Not its streams: what it started may have them for longer.
    this.#ended = once(this.#shell, 'exit').then(() => this.#wake());
    this.#shell.stdout?.setEncoding('utf8').on('data', (text: string) => {
      this.#text += text;
      this.#wake();
    });
    // ERR is raised by a command of a script that is read by `.` as by one that is typed (bash(1), trap).
    this.#shell.stdin?.write("trap 'failed=1' ERR\n");
  }

  /** Starts a script that goes on, and returns when it has printed this. @throws {Error} when it ends before. */
  async start(script: string, said: string): Promise<void> {
    const ended = this.run(script).then(({ text }) => {
      throw new Error(`this has ended: ${script}${text}`);
    });
    await Promise.race([this.#until(() => this.#text.includes(said)), ended]);
    // By then it is ended with the shell.
    ended.catch(() => undefined);
  }

  /** Runs a script to its end. @throws {Error} when the shell ends before. */
  async run(script: string): Promise<Printed> {
    const mark = randomUUID();
    const from = this.#text.length;
    const path = join(this.#directory.path, String(this.#scripts++));
    writeFileSync(path, script);
    this.#shell.stdin?.write(`failed=0; . ${path} < /dev/null 2>&1; printf '%s %s.\\n' ${mark} "$failed"\n`);
    await this.#until(() => new RegExp(`${mark} \\d\\.`).test(this.#text.slice(from)));
    const [text = '', end = ''] = this.#text.slice(from).split(mark);
    return { text, isWell: end.startsWith(' 0') };
  }

  async #until(holds: () => boolean): Promise<void> {
    while (!holds()) {
      if (this.#shell.exitCode !== null || this.#shell.signalCode !== null)
        throw new Error(`the shell has ended:\n${this.#text}`);
      await this.#changed.promise;
    }
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#shell.kill('SIGKILL');
    await this.#ended;
    this.#shell.stdout?.destroy();
    this.#directory[Symbol.dispose]();
  }
}
