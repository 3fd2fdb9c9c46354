/** Binds the threads of this process to some of the CPUs: what it starts from then on inherits it. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';

import { requirePrograms } from './programs.ts';

/** The CPUs that this process may use, as taskset(1) takes them: `0-1`. */
export function allowedCpus(): string {
  return /^Cpus_allowed_list:\s+(\S+)/m.exec(readFileSync('/proc/self/status', 'utf8'))?.[1] ?? '';
}

/**
 * @param list - As taskset(1) takes it.
 * @returns Dispose it to give the process its CPUs back.
 * @throws {MissingPrograms} without taskset.
 */
export function pinned(list: string): Disposable {
  requirePrograms({ taskset: 'util-linux' });
  const before = allowedCpus();
  const pin = (cpus: string): void =>
    void spawnSync('taskset', ['--all-tasks', '--cpu-list', '--pid', cpus, String(process.pid)]);
  pin(list);
  return { [Symbol.dispose]: () => pin(before) };
}
