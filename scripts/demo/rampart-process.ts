/** The real `rampart` as a child process: its alerts from stdout, its words from stderr. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { type SensorModeName, sensorModeNames } from '../../lib/sensor/modes.ts';
import type { KiveAlert } from '../../guards/file-access/alert/alert.ts';
import { find, inNetworkOf } from './commands.ts';
import { Inbox } from './inbox.ts';

/** The program of this checkout. */
export const rampartProgram: string = fileURLToPath(new URL('../../bin/rampart', import.meta.url));

/** Loading and verifying the programs takes a second here, and half a minute on an emulated machine. */
export const START_MS = 120_000;
/** An alert or a line comes within milliseconds; this is for a machine that is busy. */
const WAIT_MS = 20_000;
/** It ends within a second; then it is killed. */
const END_MS = 20_000;

/** The process ended before it did its work. */
export class RampartRefused extends Error {
  /** Exit code of the process: 2 when the request was refused. */
  readonly exitCode: number;

  constructor(said: string, exitCode: number) {
    super(said);
    this.exitCode = exitCode;
  }
}

/** The awaited line has not come. */
class Late extends Error {}

/** An alert, and its line on stdout. Parse a finding of file integrity from its line. */
export interface Heard {
  readonly alert: KiveAlert;
  readonly line: string;
}

export interface RampartOptions {
  /** A command of `rampart`, with its options. */
  readonly words: readonly string[];
  /** Where it is run; default: where this process is. */
  readonly directory?: string;
  /** Runs it in the network of this process. Default: in this one's. */
  readonly networkOf?: number;
  readonly signal: AbortSignal;
  /** Called with each alert when it arrives. */
  readonly onAlert?: (alert: KiveAlert) => void;
}

/** Long-running commands write their messages as JSON where stderr is no terminal. */
function asOnTerminal(line: string): string {
  if (!line.startsWith('{')) return line;
  const { msg, err } = JSON.parse(line) as {
    readonly msg: string;
    readonly err?: { readonly message: string };
  };
  return `rampart: ${msg}${err === undefined ? '' : `: ${err.message}`}`;
}

/** A running process. The caller disposes it; it ends as well when this process is killed. */
export class RampartProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #signal: AbortSignal;
  readonly #alerts = new Inbox<Heard>();
  readonly #lines = new Inbox<string>();
  readonly #said: string[] = [];
  readonly #ended: Promise<number>;

  constructor({ words, directory, networkOf, signal, onAlert }: RampartOptions) {
    this.#signal = signal;
    // nsenter becomes setpriv, and that rampart: the process id is the same.
    const [program, ...before] = inNetworkOf(networkOf, [find('setpriv'), '--pdeathsig', 'TERM']);
    const child = spawn(program, [...before, rampartProgram, ...words], {
      ...(directory !== undefined && { cwd: directory }),
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    createInterface({ input: child.stdout }).on('line', (line) => {
      const alert = JSON.parse(line) as KiveAlert;
      onAlert?.(alert);
      this.#alerts.push({ alert, line });
    });
    createInterface({ input: child.stderr }).on('line', (written) => {
      const line = asOnTerminal(written);
      this.#said.push(line);
      this.#lines.push(line);
    });
    this.#ended = this.#waitForEnd();
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** Everything it said on stderr. */
  get said(): readonly string[] {
    return this.#said;
  }

  /**
   * Waits until it says something like `pattern` on stderr, and returns that line.
   *
   * @throws {RampartRefused} when it ends before that.
   */
  async says(pattern: RegExp, waitMs: number = WAIT_MS): Promise<string> {
    const lines = await this.#wait(waitMs, `rampart to say ${pattern}`, (signal) =>
      this.#lines.takeUntil((line) => pattern.test(line), signal),
    );
    return lines.at(-1) ?? '';
  }

  /** Waits until it says which sensor mode it took, in a line like `pattern`. */
  async saysMode(pattern: RegExp): Promise<SensorModeName> {
    const line = await this.says(pattern, START_MS);
    const mode = sensorModeNames.find((name) => new RegExp(`\\b${name}\\b`).test(line));
    if (mode === undefined) throw new Error(`rampart names no known mode: ${line}`);
    return mode;
  }

  /** The alerts up to the first one that `isLast` accepts, that one included. */
  async heardUntil(isLast: (heard: Heard) => boolean, waitMs: number = WAIT_MS): Promise<readonly Heard[]> {
    return this.#wait(waitMs, 'an alert', (signal) => this.#alerts.takeUntil(isLast, signal));
  }

  /** The next alert; undefined if none comes in time. */
  async next(waitMs: number = WAIT_MS): Promise<Heard | undefined> {
    return (await this.heardInTime(() => true, waitMs))?.[0];
  }

  /** As {@link heardUntil}; undefined when it does not come in time. */
  async heardInTime(
    isLast: (heard: Heard) => boolean,
    waitMs: number,
  ): Promise<readonly Heard[] | undefined> {
    try {
      return await this.heardUntil(isLast, waitMs);
    } catch (error) {
      if (error instanceof Late) return undefined;
      throw error;
    }
  }

  /** Alerts that have arrived and were not read. */
  unheard(): readonly Heard[] {
    return this.#alerts.takeAll();
  }

  async #wait<T>(waitMs: number, what: string, take: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    const timer = setTimeout(() => late.abort(new Late(`waited ${waitMs / 1000} s for ${what}`)), waitMs);
    try {
      return await take(AbortSignal.any([this.#signal, late.signal]));
    } finally {
      clearTimeout(timer);
    }
  }

  async #waitForEnd(): Promise<number> {
    let code: number;
    try {
      // close: after the last byte of both streams.
      const [status] = (await once(this.#child, 'close')) as [number | null];
      code = status ?? 1;
    } catch (error) {
      code = 1;
      this.#said.push(String(error));
    }
    const refused = new RampartRefused(this.#said.join('\n'), code);
    this.#alerts.close(refused);
    this.#lines.close(refused);
    return code;
  }

  /** Ends it with SIGTERM. @returns its exit code; every alert of it has arrived then. */
  async stop(): Promise<number> {
    this.#child.kill('SIGTERM');
    const timer = setTimeout(() => this.#child.kill('SIGKILL'), END_MS);
    try {
      return await this.#ended;
    } finally {
      clearTimeout(timer);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
