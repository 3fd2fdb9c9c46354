/**
 * Which test files share a process. Most take less than a second, and the start of a process of their own costs them more
 * than their tests: it strips and links the same modules as the one before.
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
const FILES_A_BATCH = 24;
/** Of a file that nobody recorded: it took less than is worth a line. */
const UNRECORDED_S = 0.4;

/**
 * What a file does to all that runs in its process, or counts of it: hooks of the whole run, the environment, the current
 * directory, the umask, signals, the memory and the descriptors of the process.
 */
const needsOwnProcess =
  /^(?:before|after|beforeEach|afterEach)\(|process\.(?:env\[[^\]]+\] \??\??=[^=]|chdir|umask|exitCode =|sete?[ug]id|on\(|once\(|memoryUsage|getActiveResourcesInfo)|delete process\.env|Object\.assign\(process|\/proc\/self\/|\bgc\(|mock\.method\(/m;

/**
 * Puts small files together; a file that takes long, or needs a process of its own, is alone. Those that take longest come first.
 *
 * @param recorded - Seconds by file, of those that take long.
 */
export function batchesOf(
  files: readonly string[],
  { top, recorded }: { readonly top: string; readonly recorded: Readonly<Record<string, number>> },
): Batch[] {
  const batches: Batch[] = [];
  const small: string[] = [];
  for (const file of files) {
    const seconds = recorded[file];
    if (seconds === undefined && !needsOwnProcess.test(readFileSync(join(top, file), 'utf8')))
      small.push(file);
    else batches.push({ files: [file], seconds: seconds ?? UNRECORDED_S });
  }
  // Neighbours import much the same modules.
  small.sort();
  const count = Math.ceil(small.length / FILES_A_BATCH);
  for (let at = 0; at < count; at++) {
    const own = small.slice(
      Math.floor((at * small.length) / count),
      Math.floor(((at + 1) * small.length) / count),
    );
    batches.push({ files: own, seconds: own.length * UNRECORDED_S });
  }
  return batches.toSorted(
    (a, b) => b.seconds - a.seconds || ((a.files[0] ?? '') < (b.files[0] ?? '') ? -1 : 1),
  );
}

/** The text of a module that runs them: node:test tells each test with the file that it stands in. */
export function batchModule({ files }: Batch, top: string): string {
  return files
    .map((file) => `await import(${JSON.stringify(pathToFileURL(join(top, file)).href)});\n`)
    .join('');
}
