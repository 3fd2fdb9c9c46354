/** `rampart operator` that audits, run as users run it: by bin/rampart. */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';

import { cpuMs } from '../apiserver/server-process.ts';
import { endProcess } from '../end-process.ts';

const command = join(import.meta.dirname, '../../bin/rampart');
const END_WAIT_MS = 10_000;

/** From the operator's log. */
export interface Pass {
  readonly seconds: number;
  readonly evaluations: number;
  readonly writes: number;
}

/** Dispose it to end the process. */
export class OperatorProcess implements AsyncDisposable {
  readonly #child: ChildProcessByStdio<null, null, Readable>;
  readonly #lines: AsyncIterator<string>;
  readonly #said: string[] = [];

  /** @param interval from one full audit to the next: `1m`. */
  constructor(kubeconfig: string, interval: string) {
    const options = ['--kubeconfig', kubeconfig, '--guards', 'policy-audit', '--audit-interval', interval];
    const child = spawn(command, ['operator', ...options], {
      stdio: ['ignore', 'ignore', 'pipe'],
      env: { ...process.env, RAMPART_LOG: 'info' },
    });
    this.#child = child;
    this.#lines = createInterface({ input: child.stderr })[Symbol.asyncIterator]();
  }

  /** The highest RSS so far, in MiB. */
  get peakMib(): number {
    const text = readFileSync(`/proc/${this.#child.pid}/status`, 'utf8');
    return Number(/^VmHWM:\s+(\d+)/m.exec(text)?.[1]) / 1024;
  }

  /** User and system, of all threads. */
  get cpuSeconds(): number {
    return cpuMs(this.#child.pid ?? 0) / 1000;
  }

  /** The next full audit that ends. @throws {Error} where the operator ends before. */
  async pass(signal: AbortSignal): Promise<Pass> {
    const aborted = once(signal, 'abort').then(() => signal.throwIfAborted());
    for (;;) {
      const line = await Promise.race([this.#lines.next(), aborted]);
      if (line === undefined || line.done === true)
        throw new Error(`rampart operator ended:\n${this.#said.join('\n')}`);
      this.#said.push(line.value);
      if (line.value.includes('audit of all objects finished')) return JSON.parse(line.value) as Pass;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child, END_WAIT_MS);
  }
}
