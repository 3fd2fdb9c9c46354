/**
 * What a configuration may ask of the node that it is evaluated for: files under the root that is scanned, and its name.
 *
 * @module
 */
import { existsSync, readdirSync, readFileSync, statSync } from 'node:fs';
import { hostname } from 'node:os';
import { join } from 'node:path';
import type { ConfEnvironment } from './aide-conf/conf.ts';
import type { ScanRoot } from './provider.ts';

/** Paths that do not begin with the prefix of the root are of the agent and not of the node: there is nothing there. */
export function nodeEnvironment({ directory, prefix }: ScanRoot): ConfEnvironment {
  const isBelow = (path: string): boolean => path === prefix || path.startsWith(`${prefix}/`);
  const placeOf = (path: string): string => {
    if (!isBelow(path)) throw new Error(`it is not below ${prefix}`);
    return join(directory, path.slice(prefix.length));
  };
  return {
    hostname: hostnameOf(directory),
    exists: (path) => isBelow(path) && existsSync(placeOf(path)),
    readFile: (path) => readFileSync(placeOf(path)),
    readDirectory: (path) => {
      const place = placeOf(path);
      return readdirSync(place).filter((name) =>
        statSync(join(place, name), { throwIfNoEntry: false })?.isFile(),
      );
    },
  };
}

/** Of the node, not of the pod that the agent may be in. */
function hostnameOf(directory: string): string {
  let name = '';
  try {
    name = readFileSync(join(directory, 'etc/hostname'), 'utf8').trim();
  } catch {
    // Not every node has one.
  }
  return (name === '' ? hostname() : name).split('.')[0] ?? '';
}
