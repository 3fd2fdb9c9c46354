/** What is kept about one package: enough to know whether its data in the database has changed, and which paths it owns. */
import { hash } from 'node:crypto';

import type { ByteString } from '../model/entry.ts';
import type { PackageStanza } from './dpkg-format.ts';

/** The paths of a package, as 8 bytes each: a node has some 100,000 of them. */
export class PathSet {
  readonly #hashes: Float64Array;

  constructor(paths: readonly ByteString[]) {
    this.#hashes = Float64Array.from(paths, hashOf).sort();
  }

  has(path: ByteString): boolean {
    return this.hasHash(hashOf(path));
  }

  hasHash(wanted: number): boolean {
    let [low, high] = [0, this.#hashes.length - 1];
    while (low <= high) {
      const middle = (low + high) >> 1;
      const value = this.#hashes[middle] ?? 0;
      if (value === wanted) return true;
      if (value < wanted) low = middle + 1;
      else high = middle - 1;
    }
    return false;
  }
}

/**
 * The first 48 bits of the SHA-1 of a path. Two paths that collide do not help an attacker, because a change is
 * explained only if dpkg made it.
 */
export function hashOf(path: ByteString): number {
  return hash('sha1', path, 'buffer').readUIntBE(0, 6);
}

/** The data of a package in the database that concerns its files. */
export interface PackageRecord {
  readonly stanza: PackageStanza;
  readonly paths: PathSet;
  /** Digest of the package's md5sums file. */
  readonly sumsDigest: string;
  /** Digest of everything that explanations depend on: version, conffiles, checksums, paths. */
  readonly digest: string;
}

export function recordOf(stanza: PackageStanza, list: string, sums: string, paths: PathSet): PackageRecord {
  const sumsDigest = hash('sha256', sums);
  const conffiles = [...stanza.conffiles].map((pair) => pair.join(' ')).join('\n');
  const all = [stanza.version, conffiles, sumsDigest, hash('sha256', list)].join('\0');
  return { stanza, paths, sumsDigest, digest: hash('sha256', all) };
}
