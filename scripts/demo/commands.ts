/** The commands that touch the demo's files. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { text } from 'node:stream/consumers';

/** Where a command is. @throws when it is nowhere. */
export function find(name: string): string {
  for (const directory of (process.env['PATH'] ?? '').split(delimiter)) {
    const path = join(directory, name);
    try {
      accessSync(path, constants.X_OK);
      return path;
    } catch {
      // The next directory.
    }
  }
  throw new Error(`the demo needs the command ${name}, which is not in PATH`);
}

/** As a shell would take it. */
export function shown(command: readonly string[]): string {
  return command.map((word) => (/[^\w./-]/.test(word) ? `'${word}'` : word)).join(' ');
}

/** The command, run in the network of a process. */
export function inNetworkOf(
  pid: number | undefined,
  command: readonly [string, ...string[]],
): readonly [string, ...string[]] {
  return pid === undefined ? command : [find('nsenter'), '--target', String(pid), '--net', '--', ...command];
}

/** Runs a command to its end. @throws when it cannot run or ends with another exit code. */
export async function runCommand(
  [name = '', ...words]: readonly string[],
  options: { readonly cwd: string; readonly exitCode: number; readonly signal: AbortSignal },
): Promise<void> {
  const { cwd, signal } = options;
  const child = spawn(find(name), words, { cwd, signal, stdio: ['ignore', 'ignore', 'pipe'] });
  let said = '';
  child.stderr.on('data', (bytes: Buffer) => (said += bytes.toString()));
  const [exitCode] = (await once(child, 'close')) as [number | null];
  if (exitCode !== options.exitCode) {
    throw new Error(`${shown([name, ...words])} ended with ${exitCode}: ${said.trim()}`);
  }
}

export interface Answer {
  readonly exitCode: number | null;
  /** On stdout, or on stderr where that is nothing. */
  readonly said: string;
}

/** Runs a command to its end, whatever it answers; with a path it is that program. @throws when `signal` is aborted. */
export async function answerOf(
  [name = '', ...words]: readonly string[],
  options: { readonly cwd: string; readonly env?: NodeJS.ProcessEnv; readonly signal: AbortSignal },
): Promise<Answer> {
  options.signal.throwIfAborted();
  const child = spawn(name.includes('/') ? name : find(name), words, {
    ...options,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const [stdout, stderr, [exitCode]] = await Promise.all([
    text(child.stdout),
    text(child.stderr),
    once(child, 'close') as Promise<[number | null]>,
  ]);
  return { exitCode, said: (stdout || stderr).trimEnd() };
}

/** A process that has a file open from before the watch begins, and reads it later. */
export class Holder implements Disposable {
  readonly #child;

  private constructor(directory: string, file: string) {
    const script = 'exec 3< "$1"; echo ready; read go; exec cat <&3 > /dev/null';
    this.#child = spawn(find('sh'), ['-c', script, 'sh', file], {
      cwd: directory,
      stdio: ['pipe', 'pipe', 'inherit'],
    });
  }

  /** Returns when the file is open. */
  static async start(directory: string, file: string, signal: AbortSignal): Promise<Holder> {
    const holder = new Holder(directory, file);
    const { stdout } = holder.#child;
    await once(stdout, 'readable', { signal }); // also at its end
    if (stdout.read() === null) throw new Error(`the process that holds ${file} open ended at once`);
    return holder;
  }

  /** Has it read the file, and waits for its end. */
  async read(signal: AbortSignal): Promise<void> {
    const ended = once(this.#child, 'close', { signal });
    this.#child.stdin.end('go\n');
    this.#child.stdout.resume();
    const [exitCode] = (await ended) as [number | null];
    if (exitCode !== 0) throw new Error(`the process that held the file open ended with ${exitCode}`);
  }

  /** Its input ends, so it does too. */
  [Symbol.dispose](): void {
    this.#child.stdin.destroy();
  }
}
