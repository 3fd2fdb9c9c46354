/** The plan of `rampart watch`, checked before anything is opened, created or attached. */
import { openSync, constants, statSync } from 'node:fs';
import { resolve } from 'node:path';

import { Fd, SystemCallError } from '../../lib/ebpf/libc.ts';
import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import { accessFilter } from '../../lib/sensor/access.ts';
import type { NamedPrograms } from '../../guards/file-access/process-filter.ts';
import type { TrackedPath } from '../../lib/sensor/paths/path-state.ts';
import { createInRoot, openInRoot } from '../../lib/sensor/paths/resolve.ts';
import { directoryOf } from '../../guards/file-access/directory-path.ts';
import type { WatchOptions } from './command.ts';
import { requireRoot } from '../../lib/cli/process.ts';

export interface PlannedPath {
  readonly tracked: TrackedPath;
  /** The path as reported: absolute, inside the root. */
  readonly shown: string;
  /** Whether this target was already printed. */
  reported: boolean;
}

/**
 * Checks the request. Changes nothing.
 *
 * @throws {RampartError} `PRIVILEGE` without root; `INPUT` for an
 *   unknown access, a directory, a path that can't be followed, a root that is not a directory.
 */
export function plan(paths: readonly string[], options: WatchOptions): PlannedPath[] {
  accessFilter(options.access);
  const root = resolve(options.root);
  const unique = [...new Set(paths.map((path) => (root === '/' ? resolve(path) : resolve('/', path))))];
  requireRoot('cannot watch files', 'loading eBPF programs requires root');
  using rootFd = openRoot(root);
  for (const path of unique) check(rootFd, path, options);
  return unique.map((path) => ({ tracked: { path, root }, shown: path, reported: false }));
}

/** Which processes' accesses are reported; undefined: those of all processes. */
export function plannedProcesses({
  except,
  only,
  root,
}: WatchOptions): (NamedPrograms & { readonly root: string }) | undefined {
  const named = except ?? only;
  if (named === undefined) return undefined;
  const top = resolve(root);
  const paths = named.map((path) => (top === '/' ? resolve(path) : resolve('/', path)));
  return { kind: except === undefined ? 'only' : 'except', paths, root: top };
}

function openRoot(root: string): Fd {
  try {
    return new Fd(openSync(root, constants.O_RDONLY | constants.O_DIRECTORY));
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot use ${root} as the root`,
      why: messageOf(error),
      next: 'Name an existing directory with --root',
    });
  }
}

function check(root: Fd, asked: string, options: WatchOptions): void {
  const wanted = directoryOf(asked);
  if (asked.includes('*') && wanted === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot watch ${asked}`,
      why: 'a * stands for files only at the end, as /* or /**',
      next: 'Name the files, or a directory with /* or /** behind it',
    });
  }
  const { path } = wanted ?? { path: asked };
  let directory: boolean;
  try {
    using file = openInRoot(root, path);
    directory = statSync(`/proc/self/fd/${file.number}`).isDirectory();
  } catch (error) {
    if (!(error instanceof SystemCallError) || error.errno !== 'ENOENT') throw unusable(path, error);
    if (wanted !== undefined) checkCreate(asked, options);
    else if (options.create) checkParent(root, path);
    return;
  }
  if (directory && wanted === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot watch ${path}`,
      why: 'it is a directory',
      next: `Write '${path === '/' ? '' : path}/*' in quotes for the files in it, or '/**' behind it for all below it`,
    });
  }
  if (!directory && wanted !== undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot watch ${asked}`,
      why: `${path} is not a directory`,
      next: 'Name a directory before the /',
    });
  }
  if (wanted !== undefined) checkCreate(asked, options);
}

function checkCreate(path: string, { create }: WatchOptions): void {
  if (create !== true) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot create ${path}`,
    why: 'the path is for all files of a directory',
    next: 'Leave out --create, or name the file to create',
  });
}

/** Refuses a missing parent directory: `--create` creates files only. */
function checkParent(root: Fd, path: string): void {
  const parent = resolve(path, '..');
  try {
    using _directory = openInRoot(root, parent);
  } catch (error) {
    throw new RampartError(errorCodes.INPUT, {
      what: `cannot create ${path}`,
      why: `its directory ${parent} cannot be opened: ${messageOf(error)}`,
      next: 'Create the directory first',
    });
  }
}

function unusable(path: string, cause: unknown): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `cannot watch ${path}`,
    why: messageOf(cause),
    next: 'Check the path and the permissions on the way to it',
    cause,
  });
}

/** Creates the files that are missing; never touches existing ones. */
export function createMissing(
  planned: readonly PlannedPath[],
  options: WatchOptions,
  say: (text: string) => void,
): void {
  for (const path of planned) {
    using root = new Fd(openSync(path.tracked.root, constants.O_RDONLY | constants.O_DIRECTORY));
    if (createInRoot(root, path.tracked.path, options.fileMode)) {
      say(`created ${path.shown} with mode ${options.fileMode.toString(8).padStart(4, '0')}`);
    }
  }
}
