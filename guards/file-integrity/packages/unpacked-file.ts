/** Checks whether a file can be what dpkg has unpacked at its path. */
import { setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import type { PathUpdate } from '../results/held-finding.ts';
import type { ContentSums } from './node-files.ts';

const ownership = setOf('p', 'u', 'g');
/** Setuid, setgid, and write permission for others than root. */
const powers = 0o6022;

/**
 * Whether the entry may come from dpkg. If its creator was not seen, as in a new directory, it must have no privileges,
 * because the database does not record owners and permissions.
 */
export function isOfDpkg(
  { author }: PathUpdate,
  { attributes, permissions, uid, gid, type }: Entry,
): boolean {
  if (author !== undefined) return true;
  if ((attributes & ownership) !== ownership) return false;
  return uid === 0 && gid === 0 && (type === 'l' || (permissions & powers) === 0);
}

const sha256 = setOf('sha256');
const sha512 = setOf('sha512');

/** Whether the checksums are those of the entry, which was compared with the baseline. */
export function isContentOf(entry: Entry, sums: ContentSums): boolean {
  const isSameSum = (sum: Uint8Array, other: string): boolean => Buffer.from(sum).toString('hex') === other;
  if ((entry.attributes & sha512) !== 0) return isSameSum(entry.sha512, sums.sha512);
  return (entry.attributes & sha256) === 0 || isSameSum(entry.sha256, sums.sha256);
}
