/** Uprobes of the tests, and a process that runs into them. */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { TestContext } from 'node:test';

import { until } from '../../../../lib/testing/until.fixture.ts';
import type { Attach, ContainerPlace, DesiredProgram } from '../desired.ts';
import { bytecode, desired } from '../lab.fixture.ts';

/** A program of `fixtures/probes.bpf.c`. */
export function probe(id: string, attach: Attach, functionName: string): DesiredProgram {
  return desired(id, attach, {
    digest: 'sha256:probes',
    bytecode: () => Promise.resolve(bytecode('probes')),
    functionName,
  });
}

/** A probe of `getppid` in libc, by default. */
export function uprobe(rest: Partial<Extract<Attach, { type: 'uprobe' | 'uretprobe' }>>): Attach {
  return {
    type: 'uprobe',
    functionName: 'getppid',
    offset: 0n,
    target: 'libc',
    pid: undefined,
    container: undefined,
    ...rest,
  };
}

/** Calls a function of libc as often as a line says. */
export class Caller {
  readonly #process: ChildProcess;
  #answers = '';

  /** @param libraries - A directory with libraries that it uses instead of the machine's. */
  constructor(t: TestContext, { libraries = '', wrapper = [] as readonly string[] } = {}) {
    const program = '$| = 1; print "$$\\n"; while (<STDIN>) { getppid() for 1..$_; print "done\\n" }';
    const [command, ...rest] = [...wrapper, 'env', `LD_LIBRARY_PATH=${libraries}`, 'perl', '-e', program];
    this.#process = spawn(String(command), rest, { stdio: ['pipe', 'pipe', 'inherit'] });
    this.#process.stdout?.on('data', (text: Buffer) => (this.#answers += text.toString()));
    t.after(() => this.end());
  }

  async end(): Promise<void> {
    if (this.#process.exitCode !== null || this.#process.signalCode !== null) return;
    const ended = once(this.#process, 'exit');
    this.#process.stdin?.end();
    await ended;
  }

  /** The process of perl, as this one sees it. */
  async pid(): Promise<number> {
    await until('perl to start', () => this.#answers !== '');
    const pid = Number(this.#process.pid);
    const [child] = readFileSync(`/proc/${pid}/task/${pid}/children`, 'latin1').trim().split(' ');
    return child === undefined || child === '' ? pid : Number(child);
  }

  async call(times: number): Promise<void> {
    await this.pid();
    const reported = this.#answers.length;
    this.#process.stdin?.write(`${times}\n`);
    await until('perl to have called', () => this.#answers.length > reported);
  }
}

export const place = (pid: number, rest: Partial<ContainerPlace> = {}): ContainerPlace => ({
  pid,
  containerId: '',
  cgroupPath: undefined,
  ...rest,
});
