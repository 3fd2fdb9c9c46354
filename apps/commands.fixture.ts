/**
 * Many `rampart` commands in one process. Loading the modules takes most of the time of a command that ends by itself; what only a process
 * of its own shows (signals, terminals, exit while something is open) is tested with one: `RampartProcess`, `start`.
 */
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { readlinkSync } from 'node:fs';
import type { Socket } from 'node:net';
import { join } from 'node:path';

import type { Answered, Asked } from './commands-host.fixture.ts';

/** A longer wait means a hang, even on a busy machine. */
const PATIENCE_MS = 60_000;

export interface CommandEnded extends Answered {
  readonly signal: null;
}

/** Processes that have loaded their modules and are not used now, by {@link placeOf}. */
const idle = new Map<string, ChildProcess[]>();

/** A test file may have namespaces of its own, and so have the processes that it starts. */
function placeOf(directory: string): string {
  return [directory, ...['net', 'mnt'].map((name) => readlinkSync(`/proc/thread-self/ns/${name}`))].join(' ');
}

/** Disposing it leaves its process to the next one of this process, with which it ends. */
export class Commands implements AsyncDisposable {
  readonly #directory: string;
  #place = '';
  #child: ChildProcess | undefined;
  #last: Promise<unknown> = Promise.resolve();
  #isAsked = false;

  /** @param directory - The current one of the commands. Default: this process's. */
  constructor(directory = process.cwd()) {
    this.#directory = directory;
  }

  /**
   * Runs `rampart ARGS`, after those before it.
   *
   * @param environment - On top of this process's, or what there is of it then.
   * @throws where the process ends, or takes longer than a minute.
   */
  run(args: readonly string[], environment: NodeJS.ProcessEnv = {}): Promise<CommandEnded> {
    const asked = { args, environment: { ...process.env, ...environment } };
    const ended = this.#last.then(() => this.#ask(asked));
    this.#last = ended.catch(() => undefined);
    return ended;
  }

  async #ask(asked: Asked): Promise<CommandEnded> {
    const child = (this.#child ??= this.#take());
    const line = `rampart ${asked.args.join(' ')}`;
    const done = new AbortController();
    const signal = AbortSignal.any([done.signal, AbortSignal.timeout(PATIENCE_MS)]);
    try {
      const answered = once(child, 'message', { signal });
      const died = once(child, 'exit', { signal });
      this.#isAsked = true;
      child.send(asked);
      const [answer] = (await Promise.race([
        answered,
        died.then(([code, by]) => {
          throw new Error(`${line}: its process ended with ${String(code ?? by)}`);
        }),
      ])) as [Answered];
      this.#isAsked = false;
      return { ...answer, signal: null };
    } catch (error) {
      this.#child = undefined;
      await kill(child);
      throw new Error(`${line} did not end`, { cause: error });
    } finally {
      done.abort();
    }
  }

  #take(): ChildProcess {
    this.#place = placeOf(this.#directory);
    const found = idle.get(this.#place)?.pop();
    const child =
      found ??
      fork(join(import.meta.dirname, 'commands-host.fixture.ts'), {
        // Not the flags of the test runner.
        execArgv: [],
        cwd: this.#directory,
        // Output to a socket goes through process.stdout there, which is captured; to a file it would not.
        stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
      });
    if (found === undefined) child.stdout?.resume();
    child.ref();
    child.channel?.ref();
    return child;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#child;
    this.#child = undefined;
    if (child === undefined) return;
    // Other directories go with their test.
    if (this.#isAsked || !child.connected || this.#directory !== process.cwd()) return await kill(child);
    child.unref();
    child.channel?.unref();
    (child.stdout as Socket | null)?.unref();
    idle.set(this.#place, [...(idle.get(this.#place) ?? []), child]);
  }
}

async function kill(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGKILL');
  await gone;
}
