/** The processes of a fleet: the light agents, and an operator as users run it, with counted requests. */
import { type ChildProcess, fork, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';

import { endProcess } from '../end-process.ts';
import type { Answer, Asked, Reached } from './agents-process.ts';
import type { RequestCounts } from './request-counts.ts';

const here = import.meta.dirname;
const rampart = join(here, '../../apps/rampart.ts');
const END_WAIT_MS = 30_000;
/** A fleet of 500 has some 13,000 connections, and the proxy both ends of each. */
const FILES = 200_000;
/** Caches of many agents, each with the pods of all nodes. */
const HEAP_MIB = 12_000;

/** For this process and its children. Needs only root. */
export function raiseFileLimit(): void {
  spawnSync('prlimit', ['--pid', String(process.pid), `--nofile=${FILES}:${FILES}`]);
}

export class FleetProcess implements AsyncDisposable {
  readonly #child: ChildProcess;
  readonly #ended: Promise<never>;

  private constructor(child: ChildProcess) {
    this.#child = child;
    this.#ended = once(child, 'exit').then(([code]) => {
      throw new Error(`a process of the fleet ended with exit code ${String(code)}`);
    });
    this.#ended.catch(() => undefined);
  }

  static agents(asked: Extract<Asked, { ask: 'start' }>): FleetProcess {
    const child = fork(join(here, 'agents-process.ts'), { execArgv: [`--max-old-space-size=${HEAP_MIB}`] });
    child.send(asked);
    return new FleetProcess(child);
  }

  static operator(kubeconfig: string): FleetProcess {
    const args = ['operator', '--kubeconfig', kubeconfig, '--metrics', '0'];
    const execArgv = ['--import', join(here, 'operator-counts.ts')];
    return new FleetProcess(
      fork(rampart, args, {
        execArgv,
        env: { ...process.env, RAMPART_LOG: 'error' },
        stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
      }),
    );
  }

  /** Since the last call. */
  async counts(signal: AbortSignal): Promise<RequestCounts> {
    const reported = await this.#ask<Extract<Answer, { answer: 'counts' }>>({ ask: 'counts' }, signal);
    return reported.counts;
  }

  /** By guard: how many agents have programmed the policy of this name, and when the last did. */
  async reached(name: string, signal: AbortSignal): Promise<Readonly<Record<string, Reached>>> {
    const reported = await this.#ask<Extract<Answer, { answer: 'reached' }>>(
      { ask: 'reached', name },
      signal,
    );
    return reported.guards;
  }

  /** @throws {Error} when the process has ended. */
  async #ask<A>(asked: Asked, signal: AbortSignal): Promise<A> {
    const answered = once(this.#child, 'message', { signal });
    this.#child.send(asked);
    const [answer] = (await Promise.race([answered, this.#ended])) as [A];
    return answer;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await endProcess(this.#child, END_WAIT_MS);
  }
}
