/** The programs that run for Kubernetes objects, as commands show them: read from pins and records, without disturbing a running agent. */
import type { RunningProgram } from '../desired.ts';
import { runningProgram } from '../records.ts';
import { type ReadOptions, readKept } from './kept.ts';

/** The loaded programs, in the order of their ids. */
export function readPrograms(options: ReadOptions): readonly RunningProgram[] {
  return [...readKept(options).programs.values()]
    .map(runningProgram)
    .toSorted((a, b) => (a.id < b.id ? -1 : 1));
}
