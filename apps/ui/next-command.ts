/** The suggested next command, quoted for a shell. */
import { commandLine } from '../../lib/output/command-line.ts';
import type { NextCommand } from './report.ts';

interface NextWords {
  readonly next?: readonly string[];
  readonly nextOnNode?: readonly string[];
}

/** @param clusterWords - The options that name the cluster or the machine. */
export function nextCommand(
  { next, nextOnNode }: NextWords = {},
  clusterWords: readonly string[],
): NextCommand | null {
  const words = next === undefined ? nextOnNode : [...next, ...clusterWords];
  const line = words && commandLine(['rampart', ...words]);
  return line === undefined ? null : { line, isOnNode: next === undefined };
}
