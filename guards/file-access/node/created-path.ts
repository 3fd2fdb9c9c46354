/** Whether a file may be created in a directory of a container, whatever path led there. */
import { fstatSync, readlinkSync } from 'node:fs';

import { Fd, openat2, openFlags } from '../../../lib/ebpf/libc.ts';
import { tryOpenInRoot } from '../../../lib/sensor/paths/resolve.ts';
import { protectedDirectories, userOf } from '../policy/protected-paths.ts';

/**
 * Why a file of this name may not be created in a directory; undefined if it may. The path in a policy may be a link,
 * and a volume may be mounted in two places, so all paths of the directory are checked.
 *
 * @param directory - Held open by the caller, so the file cannot be created elsewhere, whatever is renamed meanwhile.
 */
export function refusedCreation(root: Fd, directory: Fd, name: string): string | undefined {
  const path = pathIn(root, directory);
  if (path === undefined) return 'it was not created because its directory is not in the container';
  for (const known of [path, ...otherPaths(root, directory, path)]) {
    const file = `${known === '/' ? '' : known}/${name}`;
    const user = userOf(file);
    if (user !== undefined) return `it was not created because ${file} is used by ${user}`;
  }
  return undefined;
}

/** The path that a process of the container sees, without links. */
function pathIn(root: Fd, directory: Fd): string | undefined {
  const [top, path] = [root, directory].map(({ number }) => readlinkSync(`/proc/self/fd/${number}`));
  if (top === undefined || path === undefined) return undefined;
  if (path === top) return '/';
  if (top === '/') return path;
  return path.startsWith(`${top}/`) ? path.slice(top.length) : undefined;
}

/** Other paths of the directory: those by which it, or a directory above it, is a protected directory. */
function otherPaths(root: Fd, directory: Fd, path: string): string[] {
  const known = Map.groupBy(identified(root), ([identity]) => identity);
  const paths: string[] = [];
  using above = new DisposableStack();
  let at = directory;
  let rest = '';
  for (const name of path.split('/').filter(Boolean).toReversed()) {
    for (const [, other] of known.get(identityOf(at)) ?? []) paths.push(other + rest);
    rest = `/${name}${rest}`;
    at = above.use(openat2(at, '..', { flags: openFlags.PATH | openFlags.DIRECTORY }));
  }
  return paths;
}

function* identified(root: Fd): Generator<readonly [identity: string, path: string]> {
  for (const path of protectedDirectories) {
    const number = tryOpenInRoot(root, path, { directory: true });
    if (number < 0) continue;
    using directory = new Fd(number);
    yield [identityOf(directory), path];
  }
}

function identityOf({ number }: Fd): string {
  const { dev, ino } = fstatSync(number, { bigint: true });
  return `${dev}:${ino}`;
}
