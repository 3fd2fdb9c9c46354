/** Sets of bytes: ranges and the named classes. */

export type CharSet = (codePoint: number) => boolean;

/** The set of inclusive ranges `[from, to, from, to, ...]`. */
export function ranges(...bounds: readonly number[]): CharSet {
  if (bounds.length === 2) {
    const [from = 0, to = 0] = bounds;
    return (codePoint) => codePoint >= from && codePoint <= to;
  }
  return (codePoint) => {
    for (let index = 0; index < bounds.length; index += 2) {
      if (codePoint >= (bounds[index] ?? 0) && codePoint <= (bounds[index + 1] ?? 0)) return true;
    }
    return false;
  };
}

export const not =
  (set: CharSet): CharSet =>
  (codePoint) =>
    !set(codePoint);

export const union = (sets: readonly CharSet[]): CharSet =>
  sets.length === 1 && sets[0] !== undefined ? sets[0] : (codePoint) => sets.some((set) => set(codePoint));

export const digit = ranges(0x30, 0x39);
export const word = ranges(0x30, 0x39, 0x41, 0x5a, 0x5f, 0x5f, 0x61, 0x7a);

/** `[:alpha:]` and so on, keyed by name. */
export const posixClasses: ReadonlyMap<string, CharSet> = new Map([
  ['alnum', ranges(0x30, 0x39, 0x41, 0x5a, 0x61, 0x7a)],
  ['alpha', ranges(0x41, 0x5a, 0x61, 0x7a)],
  ['ascii', ranges(0x00, 0x7f)],
  ['blank', ranges(0x09, 0x09, 0x20, 0x20)],
  ['cntrl', ranges(0x00, 0x1f, 0x7f, 0x7f)],
  ['digit', digit],
  ['graph', ranges(0x21, 0x7e)],
  ['lower', ranges(0x61, 0x7a)],
  ['print', ranges(0x20, 0x7e)],
  ['punct', ranges(0x21, 0x2f, 0x3a, 0x40, 0x5b, 0x60, 0x7b, 0x7e)],
  ['space', ranges(0x09, 0x0d, 0x20, 0x20)],
  ['upper', ranges(0x41, 0x5a)],
  ['word', word],
  ['xdigit', ranges(0x30, 0x39, 0x41, 0x46, 0x61, 0x66)],
]);
