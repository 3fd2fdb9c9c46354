/** How a process under measurement is ended. */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';

/** Asks it to end, kills it when it has not after `waitMs`, and returns when it is gone. */
export async function endProcess(child: ChildProcess, waitMs: number): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, 'close');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), waitMs);
  // It may wait until its output is read.
  child.stdout?.resume();
  await ended;
  clearTimeout(timer);
}
