/**
 * Encodes sets of attributes as in AIDE's databases: a decimal number with one bit for each attribute (AIDE,
 * include/attributes.h). Rampart's own databases use it too, because the positions of these bits do not change.
 */
import { attributes, type AttributeSet } from './attributes.ts';

/** The bit for the name, which every entry of AIDE has. */
export const aideNameBit = 1;

const places = attributes.map(({ bit, aideBit }) => ({ bit, value: 2 ** aideBit }));
const known = new Map(places.map(({ bit, value }) => [value, bit]));
const maskCache = new Map<AttributeSet, number>();
const setCache = new Map<number, DecodedMask>();
/** Above the number of sets in any configuration, so that a forged database cannot fill the memory. */
const cacheLimit = 1000;

export interface DecodedMask {
  readonly set: AttributeSet;
  /** Whether the mask has bits for attributes that are not read here: refused checksums, or attributes of later versions. */
  readonly more: boolean;
}

/** The mask of a set, without {@link aideNameBit}. */
export function aideMaskOf(set: AttributeSet): number {
  let mask = maskCache.get(set);
  if (mask !== undefined) return mask;
  mask = 0;
  for (const { bit, value } of places) if ((set & bit) !== 0) mask += value;
  if (maskCache.size < cacheLimit) maskCache.set(set, mask);
  return mask;
}

/** Decodes a mask, which must be an integer below 2 ** 53. */
export function setOfAideMask(mask: number): DecodedMask {
  const cached = setCache.get(mask);
  if (cached !== undefined) return cached;
  let set = 0;
  let more = false;
  let rest = mask;
  for (let value = 1; rest > 0; value *= 2) {
    if (rest % 2 === 1) {
      const bit = known.get(value);
      if (bit !== undefined) set |= bit;
      else if (value !== aideNameBit) more = true;
    }
    rest = Math.floor(rest / 2);
  }
  const decoded = { set, more };
  if (setCache.size < cacheLimit) setCache.set(mask, decoded);
  return decoded;
}
