/**
 * Sets of attributes as AIDE's databases have them: a decimal number, one bit for each attribute (AIDE, include/attributes.h).
 * Rampart's own databases keep them so as well, because these bits do not move.
 */
import { attributes, type AttributeSet } from './attributes.ts';

/** The bit that every entry of AIDE has: it has a name. */
export const aideNameBit = 1;

const places = attributes.map(({ bit, aideBit }) => ({ bit, value: 2 ** aideBit }));
const known = new Map(places.map(({ bit, value }) => [value, bit]));
const maskCache = new Map<AttributeSet, number>();
const setCache = new Map<number, DecodedMask>();
/** More sets than any configuration has; a forged database must not fill the memory. */
const cacheLimit = 1000;

export interface DecodedMask {
  readonly set: AttributeSet;
  /** It has bits of attributes that are not read here: checksums that are refused, or what later versions have. */
  readonly more: boolean;
}

/** Without {@link aideNameBit}. */
export function aideMaskOf(set: AttributeSet): number {
  let mask = maskCache.get(set);
  if (mask !== undefined) return mask;
  mask = 0;
  for (const { bit, value } of places) if ((set & bit) !== 0) mask += value;
  if (maskCache.size < cacheLimit) maskCache.set(set, mask);
  return mask;
}

/** `mask` is an integer below 2 ** 53. */
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
