/** `rampart agent`, run as users run it: by bin/rampart, from the checkout or built. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';

import { endProcess } from '../end-process.ts';
import { nodeName, type Scene } from './scene.ts';

const top = join(import.meta.dirname, '../..');
const END_WAIT_MS = 10_000;
const PATIENCE_MS = 60_000;

/** Whether `npm run build` has been run. */
export const isBuilt = existsSync(join(top, 'dist/apps/rampart.js'));

/** The flags with which bin/rampart starts Node.js for the agent. */
export function agentFlags(): string[] {
  const [, flags = ''] =
    /^ {2}agent\)\n +flags='([^']*)'/m.exec(readFileSync(join(top, 'bin/rampart'), 'utf8')) ?? [];
  return flags.split(' ').filter((flag) => flag !== '');
}

export interface AgentOptions {
  readonly mode: string;
  /** The JavaScript of `npm run build`, as in an image, instead of the sources. */
  readonly built?: boolean;
  /** More environment, e.g. NODE_OPTIONS. */
  readonly environment?: NodeJS.ProcessEnv;
}

/** Dispose it to stop the agent. */
export class AgentProcess implements AsyncDisposable {
  readonly #directory = mkdtempSync(join(tmpdir(), 'rampart-bench-'));
  readonly #child: ChildProcessByStdio<null, Readable, Readable>;
  #said = '';

  constructor({ server, lab }: Scene, { mode, built = false, environment = {} }: AgentOptions) {
    const command = agentCommand(built, this.#directory);
    const spool = join(this.#directory, 'spool');
    this.#child = spawn(
      command,
      [
        ...['agent', '--guards', 'file-access', '--node-name', nodeName, '--kubeconfig', server.kubeconfig],
        ...['--cri-socket', lab.socketPath, '--spool', spool, '--mode', mode, '--metrics', '0'],
        ...['--alerts-socket', join(this.#directory, 'alerts.sock')],
      ],
      { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, ...environment } },
    );
    this.#child.stderr.setEncoding('utf8').on('data', (text: string) => (this.#said += text));
    this.#child.on('error', (error) => (this.#said += String(error)));
  }

  get pid(): number {
    return this.#child.pid ?? 0;
  }

  /** The alert lines. */
  get stdout(): Readable {
    return this.#child.stdout;
  }

  /** Waits until a metric has a value. @throws {Error} with what the agent said when it ends, or it takes a minute. */
  async until(metric: string, value: number, signal: AbortSignal): Promise<void> {
    const endMs = performance.now() + PATIENCE_MS;
    while ((await this.metric(metric)) !== value) {
      signal.throwIfAborted();
      if (this.#child.exitCode !== null || performance.now() > endMs) {
        throw new Error(`rampart_${metric} is not ${value}; the agent said: ${this.#said}`);
      }
      await sleep(50, undefined, { signal });
    }
  }

  /** `rampart_NAME`, or undefined if it does not answer (yet). */
  async metric(name: string): Promise<number | undefined> {
    const url = /metrics on (\S+)/.exec(this.#said)?.[1];
    if (url === undefined) return undefined;
    const text = await fetch(url).then((response) => response.text());
    const value = new RegExp(`^rampart_${name} (\\S+)$`, 'm').exec(text)?.[1];
    return value === undefined ? undefined : Number(value);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child, END_WAIT_MS);
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

/** bin/rampart; built: in `directory`, without sources, so that it runs `dist/`. */
export function agentCommand(built: boolean, directory: string): string {
  if (!built) return join(top, 'bin/rampart');
  mkdirSync(join(directory, 'bin'));
  copyFileSync(join(top, 'bin/rampart'), join(directory, 'bin/rampart'));
  for (const name of ['dist', 'node_modules', 'package.json']) {
    symlinkSync(join(top, name), join(directory, name));
  }
  return join(directory, 'bin/rampart');
}
