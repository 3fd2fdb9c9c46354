/**
 * The kept facts about one package: enough to know whether its entry in the database has changed, and which
 * paths are its own.
 */
import { hash } from 'node:crypto';

import type { ByteString } from '../model/entry.ts';
import type { PackageStanza } from './dpkg-format.ts';

/** Paths of a package, at 8 bytes each: a node has some 100,000 of them. */
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
 * 48 bits of SHA-1: a collision of two paths does not help an attacker, because the process that changed the file is
 * known, too.
 */
export function hashOf(path: ByteString): number {
  return hash('sha1', path, 'buffer').readUIntBE(0, 6);
}

/** The database's entry of a package, as far as it says which files it has. */
export interface PackageRecord {
  readonly stanza: PackageStanza;
  readonly paths: PathSet;
  /** Digest of the file with its checksums. */
  readonly sumsDigest: string;
  /** Digest of all that explains: version, conffiles, checksums, paths. */
  readonly digest: string;
}

export function recordOf(stanza: PackageStanza, list: string, sums: string, paths: PathSet): PackageRecord {
  const sumsDigest = hash('sha256', sums);
  const conffiles = [...stanza.conffiles].map((pair) => pair.join(' ')).join('\n');
  const all = [stanza.version, conffiles, sumsDigest, hash('sha256', list)].join('\0');
  return { stanza, paths, sumsDigest, digest: hash('sha256', all) };
}
