/** `rampart integrity` as a user starts it, in a directory of its own. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after } from 'node:test';

import { Commands } from '../../../apps/commands.fixture.ts';
import { quote } from '../../../test/kernel/quote.ts';

export const rampart: string = join(import.meta.dirname, '../../../bin/rampart');
/** A longer wait means a hang. */
const PATIENCE_MS = 60_000;

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Ended>;
}

const shown = { TERM: 'xterm', NO_COLOR: '' };
const commands = new Commands();
after(() => commands[Symbol.asyncDispose]());

/** `rampart integrity ARGS`, after those before it. */
export function integrity(...args: string[]): Promise<Ended> {
  return commands.run(['integrity', ...args], shown);
}

/** A tree to be checked, and what is beside it. */
export class Scene implements Disposable {
  readonly path: string = mkdtempSync(join(tmpdir(), 'rampart-integrity-'));
  readonly tree: string = join(this.path, 'tree');

  constructor() {
    mkdirSync(this.tree);
  }

  at(name: string): string {
    return join(this.path, name);
  }

  write(name: string, text: string | Uint8Array, mode = 0o644): string {
    const path = this.at(name);
    mkdirSync(dirname(path), { recursive: true });
    writeFileSync(path, text);
    chmodSync(path, mode);
    return path;
  }

  /** With its configuration `aide.conf` and its baseline `db`. */
  check(...args: string[]): Promise<Ended> {
    // A second thread takes longer to start than to read so few files.
    return integrity(...this.#command(['--workers', '1', ...args]));
  }

  /** The same in a process of its own. */
  start(...args: string[]): Running {
    return start(rampart, ['integrity', ...this.#command(args)]);
  }

  #command(args: readonly string[]): readonly string[] {
    return ['check', '-c', this.at('aide.conf'), '--db', this.at('db'), ...args];
  }

  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

/**
 * Any command; it is killed when it hangs.
 *
 * @param input all of its stdin; null where the caller writes it
 */
export function start(command: string, args: readonly string[], input?: string | null): Running {
  const child = spawn(command, args, {
    stdio: [input === undefined ? 'ignore' : 'pipe', 'pipe', 'pipe'],
    env: { ...process.env, ...shown },
  });
  let [stdout, stderr] = ['', ''];
  child.stdout?.setEncoding('utf8').on('data', (text: string) => (stdout += text));
  child.stderr?.setEncoding('utf8').on('data', (text: string) => (stderr += text));
  // It may end before it has read everything.
  child.stdin?.on('error', () => undefined);
  if (input !== null) child.stdin?.end(input);
  const hung = setTimeout(() => child.kill('SIGKILL'), PATIENCE_MS);
  const ended = once(child, 'close').then(([code, signal]) => {
    clearTimeout(hung);
    return { code: code as number | null, signal: signal as NodeJS.Signals | null, stdout, stderr };
  });
  return { child, ended };
}

/** On a terminal of its own, by script(1); both outputs are in `stdout`. @param input what is typed */
export function onTerminal(command: string, args: readonly string[], input = ''): Running {
  const quoted = [command, ...args].map(quote).join(' ');
  return start('script', ['-qec', `stty cols 100 && exec ${quoted}`, '/dev/null'], input);
}
