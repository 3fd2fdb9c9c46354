/** A line of JSON, broken to be read. */

/** A piece of the text that ends with a comma between two members, and how deep that comma is. */
interface Piece {
  readonly text: string;
  readonly depth: number;
}

const indents = { member: ' ', rest: '     ' } as const;

/**
 * Breaks JSON without white space after commas: each member of the outermost object on a line of its own, and
 * those that are longer than `widthColumns` on several. Only line breaks and spaces are added, so numbers are
 * shown as written.
 */
export function breakJson(text: string, widthColumns: number): string {
  const lines: string[] = [];
  let line = '';
  let depthBefore = 0;
  for (const { text: piece, depth } of piecesOf(text)) {
    const newMember = depthBefore === 1;
    if (newMember || (line !== '' && line.length + piece.length > widthColumns)) {
      lines.push(line);
      line = newMember ? indents.member : indents.rest;
    }
    line += piece;
    depthBefore = depth;
  }
  return [...lines, line].join('\n');
}

function piecesOf(text: string): Piece[] {
  const pieces: Piece[] = [];
  let start = 0;
  let depth = 0;
  // A string as a whole, or one sign between strings.
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],]/gs)) {
    if (token === '{' || token === '[') depth++;
    else if (token === '}' || token === ']') depth--;
    else if (token === ',') {
      pieces.push({ text: text.slice(start, index + 1), depth });
      start = index + 1;
    }
  }
  return [...pieces, { text: text.slice(start), depth: 0 }];
}
