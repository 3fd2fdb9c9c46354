/** Whether what is at a path can be what dpkg has unpacked there. Pure. */
import { setOf } from '../model/attributes.ts';
import type { Entry } from '../model/entry.ts';
import type { PathUpdate } from '../results/held-finding.ts';
import type { ContentSums } from './node-files.ts';

const ownership = setOf('p', 'u', 'g');
/** Setuid, setgid, and writable for others than root. */
const powers = 0o6022;

/**
 * A file in a new directory, whose creator was not seen, has no privileges that the database does not know.
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

/** Whether it is the content that was compared with the baseline. */
export function isContentOf(entry: Entry, sums: ContentSums): boolean {
  const isSameSum = (sum: Uint8Array, other: string): boolean => Buffer.from(sum).toString('hex') === other;
  if ((entry.attributes & sha512) !== 0) return isSameSum(entry.sha512, sums.sha512);
  return (entry.attributes & sha256) === 0 || isSameSum(entry.sha256, sums.sha256);
}
