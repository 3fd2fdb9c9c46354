/** Attributes of chattr(1), in AIDE's order and with its letters (linux/fs.h, ext2_fs.h). */
const flags: readonly (readonly [letter: string, bit: number])[] = [
  ['s', 0x1],
  ['u', 0x2],
  ['S', 0x8],
  ['D', 0x10000],
  ['i', 0x10],
  ['a', 0x20],
  ['d', 0x40],
  ['A', 0x80],
  ['c', 0x4],
  ['E', 0x800],
  ['j', 0x4000],
  ['I', 0x1000],
  ['t', 0x8000],
  ['T', 0x20000],
  ['e', 0x80000],
  ['C', 0x800000],
  ['x', 0x2000000],
  ['F', 0x40000000],
  ['N', 0x10000000],
  ['P', 0x20000000],
  ['V', 0x100000],
  ['m', 0x400],
];

/** One character for each attribute: its letter if it is set, a colon if it is ignored, otherwise a dash. */
export function describeE2fs(value: number, ignored = 0): string {
  return flags.map(([letter, bit]) => (ignored & bit ? ':' : value & bit ? letter : '-')).join('');
}

export function e2fsLetters(value: number): string {
  return flags.map(([letter, bit]) => (value & bit ? letter : '')).join('');
}

/** Parses the value of `report_ignore_e2fsattrs`; undefined if a letter is unknown. `0` and an empty text mean no attributes. */
export function e2fsOfLetters(letters: string): number | undefined {
  let value = 0;
  for (const letter of letters === '0' ? '' : letters) {
    const flag = flags.find(([its]) => its === letter);
    if (flag === undefined) return undefined;
    value |= flag[1];
  }
  return value;
}
