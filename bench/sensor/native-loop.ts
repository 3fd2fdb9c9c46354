/** The measured loops of native-loop.c, driven line by line. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface, type Interface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';

export type LoopName = 'open' | 'getppid' | 'read';

/** One running loop program, pinned to a CPU (-1: not pinned). Dispose it to end it. */
export class NativeLoop implements Disposable {
  readonly #child: ChildProcessByStdio<Writable, Readable, null>;
  readonly #lines: Interface;

  constructor(binary: string, cpu: number, file: string) {
    this.#child = spawn(binary, [String(cpu), file], { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#lines = createInterface({ input: this.#child.stdout });
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Nanoseconds per iteration, of each burst. */
  async measure(loop: LoopName, iterations: number, bursts: number, signal: AbortSignal): Promise<number[]> {
    const answer = await this.#ask(`${loop} ${iterations} ${bursts}`, signal);
    return answer
      .trim()
      .split(' ')
      .map((ns) => Number(ns) / iterations);
  }

  /** Opens the file `count` times, one each `intervalNs`. */
  async pace(count: number, intervalNs: number, signal: AbortSignal): Promise<void> {
    await this.#ask(`pace ${count} ${intervalNs}`, signal);
  }

  /** Opens the file once through the 32-bit gate; false if the kernel has none. */
  async open32(signal: AbortSignal): Promise<boolean> {
    return Number(await this.#ask('open32', signal)) >= 0;
  }

  async #ask(command: string, signal: AbortSignal): Promise<string> {
    const ended = new AbortController();
    const either = AbortSignal.any([signal, ended.signal]);
    const onClose = (): void => ended.abort(new Error(`native-loop ended during "${command}"`));
    this.#lines.once('close', onClose);
    try {
      const line = once(this.#lines, 'line', { signal: either });
      this.#child.stdin.write(`${command}\n`);
      const [answer] = (await line) as [string];
      return answer;
    } catch (error) {
      throw either.aborted ? either.reason : error;
    } finally {
      this.#lines.off('close', onClose);
    }
  }

  [Symbol.dispose](): void {
    this.#child.kill('SIGKILL');
  }
}
