/**
 * Which long test files a run of all tests has: those of one turn out of five. Most of a run's time goes into files that start
 * processes, pods or clusters, and those of a room exercise much the same parts: docs/decisions/0031-turns-of-long-tests.md.
 */
import { dirname } from 'node:path';

/** Runs with this many seeds in a row have every file. */
export const TURNS = 5;

/** What takes longer than this part of all files is long: 5 s where they take 5,000 one after another. */
const LONG_PART = 1 / 1000;

/** Its kernels take turns themselves: each run boots one. */
const kernelRoom = 'test/kernel';

/** From 0; which one a seed has. */
export function turnOf(seed: number): number {
  return Math.abs(Math.trunc(seed)) % TURNS;
}

/** A guard, or a top folder. */
function roomOf(file: string): string {
  const [top = '', guard = ''] = file.split('/');
  return top === 'guards' ? guard : top;
}

/**
 * All short files, and of the long files of each room every fifth, at least one.
 *
 * @param recorded - Seconds by file, of those that take long.
 */
export function filesInTurn(
  files: readonly string[],
  { recorded, turn }: { readonly recorded: Readonly<Record<string, number>>; readonly turn: number },
): string[] {
  const longS = Object.values(recorded).reduce((sum, seconds) => sum + seconds, 0) * LONG_PART;
  const isLong = (file: string): boolean => (recorded[file] ?? 0) > longS && dirname(file) !== kernelRoom;
  const rooms = Map.groupBy(files.filter(isLong).toSorted(), roomOf);
  const others = [...rooms.values()].flatMap((room, first) => {
    const turns = Math.min(TURNS, room.length);
    // Each room begins with another turn: else the first has what is left over in every room.
    return room.filter((_, at) => (first + at) % turns !== turn % turns);
  });
  const waiting = new Set(others);
  return files.filter((file) => !waiting.has(file));
}
