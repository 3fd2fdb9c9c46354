/**
 * Which test files share a process. The start of a process of its own costs a file up to 0.4 s for the same modules as the
 * one before, and all its code runs cold: eight files of 2 to 9 s take a third less CPU time in one process.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';

/** Test files that run one after another in one process. */
export interface Batch {
  /** By their paths from the top of the repository. */
  readonly files: readonly string[];
  /** Their recorded duration. */
  readonly seconds: number;
}

/** Long enough to spare most starts, short enough that the last one keeps no other core waiting. */
const FILES_A_BATCH = 40;
/** The same in seconds, for a run of few files. */
const MIN_SECONDS_A_BATCH = 60;
/** The same for a run of many, as a part of it: the durations may be those of a slow machine. */
const PART_A_BATCH = 1 / 36;
/** For a file without a recorded duration: too short to be recorded. */
const UNRECORDED_S = 0.4;
/** For one that only repeats for depth. */
const UNRECORDED_DEEP_S = 30;

/**
 * Effects of a file on everything that runs in its process, or counts of it: hooks of the whole run (but for one at its end), the
 * environment, the current directory, the umask, signals, the memory and the descriptors of the process.
 */
const needsOwnProcess =
  /^(?:before|beforeEach|afterEach)\(|process\.(?:env\[[^\]]+\] \??\??=[^=]|chdir|umask|exitCode =|sete?[ug]id|on\(|once\(|memoryUsage|getActiveResourcesInfo)|delete process\.env|Object\.assign\(process\.env|\/proc\/self\/(?:fd|fdinfo|io|maps|task)['"`]|\bgc\(/m;

/** Puts its process into a network of its own, and a new one for each file: those that do may share a process. */
const changesNetwork = /\bownNetwork\b/;

/**
 * Puts neighbours together, those that change the network of their process apart from all others; a file that takes long, or
 * needs a process of its own, is alone. Those that take longest come first.
 *
 * @param recorded - Seconds by file, of those that take long.
 */
export function batchesOf(
  files: readonly string[],
  { top, recorded }: { readonly top: string; readonly recorded: Readonly<Record<string, number>> },
): Batch[] {
  const alone: Batch[] = [];
  const inOneNetwork: string[] = [];
  const inNetworks: string[] = [];
  const secondsOf = (file: string): number =>
    recorded[file] ?? (file.endsWith('.deep.test.ts') ? UNRECORDED_DEEP_S : UNRECORDED_S);
  const total = files.reduce((sum, file) => sum + secondsOf(file), 0);
  const limit = Math.max(MIN_SECONDS_A_BATCH, total * PART_A_BATCH);
  // Neighbours import much the same modules.
  for (const file of files.toSorted()) {
    const text = readFileSync(join(top, file), 'utf8');
    if (secondsOf(file) > limit / 2 || needsOwnProcess.test(text))
      alone.push({ files: [file], seconds: secondsOf(file) });
    else (changesNetwork.test(text) ? inNetworks : inOneNetwork).push(file);
  }
  const batches = [
    ...alone,
    ...shared(inOneNetwork, secondsOf, limit),
    ...shared(inNetworks, secondsOf, limit),
  ];
  return batches.toSorted((a, b) => b.seconds - a.seconds);
}

/** As many in a process as {@link FILES_A_BATCH} and `limit`, in seconds, let. */
function shared(files: readonly string[], secondsOf: (file: string) => number, limit: number): Batch[] {
  const batches: { files: string[]; seconds: number }[] = [];
  for (const file of files) {
    const own = secondsOf(file);
    const last = batches.at(-1);
    if (last === undefined || last.seconds + own > limit || last.files.length === FILES_A_BATCH)
      batches.push({ files: [file], seconds: own });
    else {
      last.files.push(file);
      last.seconds += own;
    }
  }
  return batches;
}

/** The text of a module that runs them: node:test reports each test with its file. */
export function batchModule({ files }: Batch, top: string): string {
  return files
    .map((file) => `await import(${JSON.stringify(pathToFileURL(join(top, file)).href)});\n`)
    .join('');
}
