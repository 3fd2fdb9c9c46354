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
  /** What they took when somebody recorded it. */
  readonly seconds: number;
}

/** Long enough to spare most starts, short enough that the last one keeps no other core waiting. */
const FILES_A_BATCH = 40;
/** The same in seconds. */
const SECONDS_A_BATCH = 48;
/** What takes longer runs alone, beside others. */
const LONGEST_IN_A_BATCH_S = 12;
/** Of a file that nobody recorded: it took less than is worth a line. */
const UNRECORDED_S = 0.4;

/**
 * What a file does to all that runs in its process, or counts of it: hooks of the whole run, the environment, the current
 * directory, the umask, signals, the network, the memory and the descriptors of the process.
 */
const needsOwnProcess =
  /^(?:before|after|beforeEach|afterEach)\(|process\.(?:env\[[^\]]+\] \??\??=[^=]|chdir|umask|exitCode =|sete?[ug]id|on\(|once\(|memoryUsage|getActiveResourcesInfo)|delete process\.env|Object\.assign\(process|\/proc\/self\/|\bgc\(|\bownNetwork\b|mock\.method\(/m;

/**
 * Puts neighbours together; a file that takes long, or needs a process of its own, is alone. Those that take longest come first.
 *
 * @param recorded - Seconds by file, of those that take long.
 */
export function batchesOf(
  files: readonly string[],
  { top, recorded }: { readonly top: string; readonly recorded: Readonly<Record<string, number>> },
): Batch[] {
  const batches: Batch[] = [];
  let shared: string[] = [];
  let seconds = 0;
  const end = (): void => {
    if (shared.length > 0) batches.push({ files: shared, seconds });
    shared = [];
    seconds = 0;
  };
  // Neighbours import much the same modules.
  for (const file of files.toSorted()) {
    const own = recorded[file] ?? UNRECORDED_S;
    if (own > LONGEST_IN_A_BATCH_S || needsOwnProcess.test(readFileSync(join(top, file), 'utf8'))) {
      batches.push({ files: [file], seconds: own });
      continue;
    }
    if (seconds + own > SECONDS_A_BATCH || shared.length === FILES_A_BATCH) end();
    shared.push(file);
    seconds += own;
  }
  end();
  return batches.toSorted((a, b) => b.seconds - a.seconds);
}

/** The text of a module that runs them: node:test tells each test with the file that it stands in. */
export function batchModule({ files }: Batch, top: string): string {
  return files
    .map((file) => `await import(${JSON.stringify(pathToFileURL(join(top, file)).href)});\n`)
    .join('');
}
