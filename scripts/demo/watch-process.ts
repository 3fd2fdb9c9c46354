/**
 * The real `rampart watch`, as a child process: its alerts from stdout, its words from stderr.
 *
 * @module
 */
import { spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

import { sensorModeNames, type SensorModeName } from '../../shared/sensor/modes.ts';
import type { KiveAlert } from '../../systems/file-access/alert.ts';
import { Inbox } from './inbox.ts';

const rampart = fileURLToPath(new URL('../../bin/rampart', import.meta.url));

/** Loading and verifying the programs takes a second here, and half a minute on an emulated machine. */
const START_MS = 120_000;
/** An alert or a line comes within milliseconds; this is for a machine that is busy. */
const WAIT_MS = 20_000;

/** The watch ended before it began to watch. */
export class WatchRefused extends Error {
  /** Of the process: 2 when the request was refused. */
  readonly exitCode: number;

  constructor(said: string, exitCode: number) {
    super(said);
    this.exitCode = exitCode;
  }
}

export interface WatchOptions {
  readonly mode: string;
  /** Files to watch, inside `directory`. */
  readonly names: readonly string[];
  readonly directory: string;
  readonly signal: AbortSignal;
  /** Called with each alert when it arrives. */
  readonly onAlert: (alert: KiveAlert) => void;
}

/** A running watch. The caller disposes it. */
export class WatchProcess implements AsyncDisposable {
  /** The mode that it took. */
  mode: SensorModeName = 'raw_tracepoint';
  readonly #child: ChildProcess;
  readonly #signal: AbortSignal;
  readonly #alerts = new Inbox<KiveAlert>();
  readonly #lines = new Inbox<string>();
  readonly #said: string[] = [];
  readonly #ended: Promise<number>;

  private constructor(options: WatchOptions) {
    this.#signal = options.signal;
    const paths = options.names.map((name) => `${options.directory}/${name}`);
    const child = spawn(rampart, ['watch', '--format', 'json', '--mode', options.mode, ...paths], {
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#child = child;
    const stdout = createInterface({ input: child.stdout });
    stdout.on('line', (line) => {
      const alert = JSON.parse(line) as KiveAlert;
      options.onAlert(alert);
      this.#alerts.push(alert);
    });
    createInterface({ input: child.stderr }).on('line', (line) => {
      this.#said.push(line);
      this.#lines.push(line);
    });
    this.#ended = this.#waitForEnd();
  }

  /**
   * Starts it and waits until it watches.
   *
   * @throws {WatchRefused} when it ends before that.
   */
  static async start(options: WatchOptions): Promise<WatchProcess> {
    const watch = new WatchProcess(options);
    try {
      const line = await watch.#line(/ watching \d+ paths? by /, START_MS);
      const mode = sensorModeNames.find((name) => line.includes(` by ${name};`));
      if (mode === undefined) throw new Error(`the watch names no known mode: ${line}`);
      watch.mode = mode;
      return watch;
    } catch (error) {
      await watch[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Everything it said on stderr. */
  get said(): readonly string[] {
    return this.#said;
  }

  /** Waits until it says something like `pattern` on stderr, and returns that line. */
  async says(pattern: RegExp): Promise<string> {
    return this.#line(pattern, WAIT_MS);
  }

  async #line(pattern: RegExp, timeoutMs: number): Promise<string> {
    const lines = await this.#wait(timeoutMs, `the watch to say ${pattern}`, (signal) =>
      this.#lines.takeUntil((line) => pattern.test(line), signal),
    );
    return lines.at(-1) ?? '';
  }

  /** The alerts up to the first one that `isLast` accepts, that one included. */
  async alertsUntil(isLast: (alert: KiveAlert) => boolean): Promise<readonly KiveAlert[]> {
    return this.#wait(WAIT_MS, 'the alert that ends a step', (signal) =>
      this.#alerts.takeUntil(isLast, signal),
    );
  }

  async #wait<T>(timeoutMs: number, what: string, take: (signal: AbortSignal) => Promise<T>): Promise<T> {
    const late = new AbortController();
    const timer = setTimeout(
      () => late.abort(new Error(`waited ${timeoutMs / 1000} s for ${what}`)),
      timeoutMs,
    );
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
    const refused = new WatchRefused(this.#said.join('\n'), code);
    this.#alerts.close(refused);
    this.#lines.close(refused);
    return code;
  }

  /** Ends it with SIGTERM. @returns its exit code. */
  async stop(): Promise<number> {
    this.#child.kill('SIGTERM');
    return this.#ended;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }
}
