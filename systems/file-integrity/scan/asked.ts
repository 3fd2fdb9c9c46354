/**
 * What the configurations of a scan ask of a file: a set of attributes for each, -1 for one that does not select it.
 *
 * @module
 */
import { checksums, setOf } from '../attributes.ts';
import type { AttributeSet } from '../attributes.ts';
import type { FileType } from '../entry.ts';

/** Undefined where none selects it. */
export type AskedOf = (type: FileType) => readonly AttributeSet[] | undefined;

const growing = setOf('growing');

export function unionOf(sets: readonly AttributeSet[]): AttributeSet {
  let union = 0;
  // This runs several times for each file: without an iterator.
  for (let at = 0; at < sets.length; at++) {
    const set = sets[at] ?? -1;
    if (set !== -1) union |= set;
  }
  return union;
}

/** Whether it does not matter to who asks so that more is written to the end of the file. */
export function mayGrow(set: AttributeSet): boolean {
  return set === -1 || (set & checksums) === 0 || (set & growing) !== 0;
}
