/** What a configuration may read of a node when it is evaluated for it: files under the scanned root, and the hostname. */
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
 * Access for the configuration of a FileIntegrity. It can include only files of AIDE's own configuration, whatever
 * links lead to them, since authors of a FileIntegrity may not read the files of nodes.
 *
 * Paths that do not begin with the prefix of the root belong to the agent, not to the node, so they do not exist. Links
 * are resolved within the node's root.
 */
export function nodeEnvironment({ directory, prefix }: ScanRoot): ConfEnvironment {
  /** Opens `path`, and calls `look` with a path in /proc/self/fd that leads to the open file. */
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
 * Returns `place` if the file is part of AIDE's configuration.
 *
 * @param place a link in /proc/self/fd to the open file
 * @throws if the file is not part of it
 */
function ofConfiguration(place: string, root: string): string {
  const real = readlinkSync(place);
  const isOf = (path: string): boolean => {
    try {
      using file = openBelow(root, path);
      return isAtOrBelow(real, readlinkSync(`/proc/self/fd/${file.number}`));
    } catch {
      // The node has no such path.
      return false;
    }
  };
  if (confPlaces.some(isOf)) return place;
  throw new Error(`only files of AIDE's configuration can be included: ${confPlaces.join(', ')}`);
}

/** @throws if including this path would read something other than AIDE's configuration */
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
    // hostname(5): a single name; lines with # are comments.
    name = lines.map((line) => line.trim()).find((line) => line !== '' && !line.startsWith('#')) ?? '';
  } catch {
    // Not every node has this file.
  }
  return (name === '' ? hostname() : name).split('.')[0] ?? '';
}
