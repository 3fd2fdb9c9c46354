/**
 * The parts of a node that a configuration may read when it is evaluated for it: files under the scanned
 * root, and its name.
 */
import { readdirSync, readlinkSync } from 'node:fs';
import { hostname } from 'node:os';
import { AT_FDCWD, openat2, openFlags, resolveFlags, type Fd } from '../../../lib/ebpf/libc.ts';
import type { ConfEnvironment } from './conf.ts';
import { isIncluded, readRegularFile } from './include.ts';
import type { ScanRoot } from '../provider/provider.ts';
import { isAtOrBelow } from '../model/entry.ts';

/** Where AIDE's own configuration is: upstream, Debian, Red Hat, SUSE. */
const confPlaces = ['/etc/aide', '/etc/aide.conf', '/etc/aide.conf.d', '/etc/aide.d', '/usr/share/aide'];

/**
 * Only files of AIDE's configuration are included, whatever links lead to them: authors of a FileIntegrity may not read
 * the files of nodes.
 *
 * Paths that do not begin with the prefix of the root belong to the agent and not to the node: they do not exist. Links
 * lead where they do on the node.
 */
export function nodeEnvironment({ directory, prefix }: ScanRoot): ConfEnvironment {
  /** Calls `look` with a path that leads to the file itself. */
  const at = <T>(path: string, look: (place: string) => T): T => {
    if (!isAtOrBelow(path, prefix)) throw new Error(`it is not under ${prefix}`);
    using file = openBelow(directory, path.slice(prefix.length));
    return look(`/proc/self/fd/${file.number}`);
  };
  const isSo = (path: string, look: (place: string) => boolean, otherwise: boolean): boolean => {
    try {
      return at(path, look);
    } catch {
      return otherwise;
    }
  };
  return {
    hostname: hostnameOf(directory),
    exists: (path) => isSo(path, () => true, false),
    readFile: (path) => at(path, (place) => readRegularFile(ofConfiguration(place, directory))),
    readDirectory: (path) =>
      at(path, (place) => readdirSync(ofConfiguration(place, directory))).filter((name) =>
        isSo(`${path}/${name}`, isIncluded, true),
      ),
  };
}

/**
 * An O_PATH descriptor: opening it never blocks.
 *
 * @throws {SystemCallError}
 */
function openBelow(root: string, path: string): Fd {
  using top = openat2(AT_FDCWD, root, { flags: openFlags.PATH | openFlags.DIRECTORY });
  return openat2(top, path === '' ? '/' : path, {
    flags: openFlags.PATH,
    resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
  });
}

/**
 * @param place a link to an open file
 * @throws if the file is not part of AIDE's configuration
 */
function ofConfiguration(place: string, root: string): string {
  const real = readlinkSync(place);
  const isOf = (path: string): boolean => {
    try {
      using file = openBelow(root, path);
      return isAtOrBelow(real, readlinkSync(`/proc/self/fd/${file.number}`));
    } catch {
      // The node has none there.
      return false;
    }
  };
  if (confPlaces.some(isOf)) return place;
  throw new Error(`only files of AIDE's configuration can be included: ${confPlaces.join(', ')}`);
}

/** @throws where an include of the path would read something else than a configuration of AIDE */
export function refuseInclude({ directory, prefix }: ScanRoot, path: string): void {
  if (!isAtOrBelow(path, prefix)) throw new Error(`it is not under ${prefix}`);
  using file = openBelow(directory, path.slice(prefix.length));
  ofConfiguration(`/proc/self/fd/${file.number}`, directory);
}

/** Hostname of the node, not of the pod that the agent may be in. */
function hostnameOf(directory: string): string {
  let name = '';
  try {
    using file = openBelow(directory, '/etc/hostname');
    const lines = readRegularFile(`/proc/self/fd/${file.number}`).toString('utf8').split('\n');
    // hostname(5): one name, and comments.
    name = lines.map((line) => line.trim()).find((line) => line !== '' && !line.startsWith('#')) ?? '';
  } catch {
    // Not every node has this file.
  }
  return (name === '' ? hostname() : name).split('.')[0] ?? '';
}
