/** What single characters and assertions of PCRE2's syntax stand for, over bytes. */
import { not, ranges, type CharSet } from './charset.ts';
import type { RegexNode } from './program.ts';

const newline = ranges(0x0a, 0x0a);
export const anyByte: CharSet = () => true;
export const anyButNewline = not(newline);
export const literals = Array.from({ length: 256 }, (_, byte) => ranges(byte, byte));
export const foldedLiterals = literals.map((set, byte) => foldedAscii(set, byte));

function foldedAscii(set: CharSet, byte: number): CharSet {
  const isLetter = (byte >= 0x41 && byte <= 0x5a) || (byte >= 0x61 && byte <= 0x7a);
  return isLetter ? ranges(byte, byte, byte ^ 0x20, byte ^ 0x20) : set;
}

export function folded(set: CharSet): CharSet {
  return (byte) => {
    if (set(byte)) return true;
    const lower = byte | 0x20;
    return lower >= 0x61 && lower <= 0x7a && set(byte ^ 0x20);
  };
}

/** `$` and `\Z`: the end, or a newline that ends the text. Nothing sensible can follow, so the newline may be taken. */
export const dollar: RegexNode = {
  kind: 'alternate',
  nodes: [
    { kind: 'assert', assertion: 'endText' },
    {
      kind: 'concat',
      nodes: [
        { kind: 'char', set: newline },
        { kind: 'assert', assertion: 'endText' },
      ],
    },
  ],
};

export const assertions: ReadonlyMap<string, RegexNode> = new Map<string, RegexNode>([
  ['A', { kind: 'assert', assertion: 'beginText' }],
  ['G', { kind: 'assert', assertion: 'beginText' }],
  ['z', { kind: 'assert', assertion: 'endText' }],
  ['Z', dollar],
  ['b', { kind: 'assert', assertion: 'wordBoundary' }],
  ['B', { kind: 'assert', assertion: 'noWordBoundary' }],
]);
