/** Tables and wrapped text for a terminal: columns line up by what is seen, not by string length. */
import { stripVTControlCharacters, styleText } from 'node:util';

type Style = Parameters<typeof styleText>[0];

/** A cell; its style is used only if colour is on. */
export type Cell = string | { readonly text: string; readonly style: Style };

/** A row, and optionally a text about it, each line of which is wrapped and indented under it. */
export interface Row {
  readonly cells: readonly Cell[];
  readonly note?: string | undefined;
}

/** How text is laid out for a terminal. */
export interface RenderOptions {
  /** Where sentences wrap. */
  readonly widthColumns: number;
  readonly colour: boolean;
}

export interface TableOptions {
  /** Titles of the columns; left out, the table has no head. */
  readonly head?: readonly string[];
  /** Where notes wrap; cells are never cut. */
  readonly widthColumns: number;
  readonly colour: boolean;
}

/** Created with the first table: its data take memory, and most processes draw no table. */
let graphemes: Intl.Segmenter | undefined;
/** East Asian wide and fullwidth blocks (Unicode UAX 11), simplified to keep this readable. */
const wide =
  /^[\u1100-\u115f\u2e80-\u303e\u3041-\ua4cf\uac00-\ud7a3\uf900-\ufaff\ufe30-\ufe6f\uff00-\uff60\uffe0-\uffe6\u{20000}-\u{3fffd}]/u;
const emoji = /^\p{Emoji_Presentation}|\ufe0f/u;
/**
 * Characters without a width of their own: marks, controls and format characters at the start of a grapheme.
 */
const invisible = /^[\p{Mn}\p{Me}\p{Cc}\p{Cf}]/u;

/** How many columns of a terminal `text` takes; escape sequences take none. */
export function displayWidth(text: string): number {
  graphemes ??= new Intl.Segmenter('en', { granularity: 'grapheme' });
  let columns = 0;
  for (const { segment } of graphemes.segment(stripVTControlCharacters(text))) {
    if (invisible.test(segment)) continue;
    columns += wide.test(segment) || emoji.test(segment) ? 2 : 1;
  }
  return columns;
}

/** Breaks at spaces into lines of at most `widthColumns`. A longer word is not broken, so that it can be copied. */
export function wrapText(text: string, widthColumns: number): readonly string[] {
  const lines: string[] = [];
  let line = '';
  for (const word of text.split(/\s+/).filter((part) => part !== '')) {
    const longer = line === '' ? word : `${line} ${word}`;
    if (line !== '' && displayWidth(longer) > widthColumns) {
      lines.push(line);
      line = word;
    } else {
      line = longer;
    }
  }
  if (line !== '') lines.push(line);
  return lines;
}

/** {@link wrapText} with every line indented, as one string without a newline at the end. */
export function indentText(text: string, indentColumns: number, widthColumns: number): string {
  const indent = ' '.repeat(indentColumns);
  return wrapText(text, widthColumns - indentColumns)
    .map((line) => indent + line)
    .join('\n');
}

/** `text` in `style` if colour is on. */
export function paint(style: Style, text: string, colour: boolean): string {
  return colour ? styleText(style, text, { validateStream: false }) : text;
}

/** Whether a stream gets colour: it is a terminal, and NO_COLOR is not set (no-color.org). */
export function wantsColour(stream: { readonly isTTY?: boolean }, environment = process.env): boolean {
  return stream.isTTY === true && !environment['NO_COLOR'];
}

const gap = '  ';
const noteIndentColumns = 4;

/** The table as one string without a newline at the end; no line ends with spaces. */
export function renderTable(rows: readonly Row[], options: TableOptions): string {
  const { head, widthColumns, colour } = options;
  const all: readonly Row[] =
    head === undefined ? rows : [{ cells: head.map((text) => ({ text, style: 'bold' as const })) }, ...rows];
  const columnCount = Math.max(0, ...all.map((row) => row.cells.length));
  const widths = Array.from({ length: columnCount }, (_, column) =>
    Math.max(...all.map((row) => displayWidth(textOf(row.cells[column] ?? '')))),
  );
  const lines: string[] = [];
  for (const row of all) {
    const lastColumn = row.cells.findLastIndex((cell) => textOf(cell) !== '');
    const cells = row.cells.slice(0, lastColumn + 1).map((cell, column) => {
      const paddingColumns = (widths[column] ?? 0) - displayWidth(textOf(cell));
      return renderCell(cell, colour) + ' '.repeat(column === lastColumn ? 0 : paddingColumns);
    });
    lines.push(cells.join(gap));
    for (const line of row.note?.split('\n').filter((text) => text.trim() !== '') ?? [])
      lines.push(indentText(line, noteIndentColumns, widthColumns));
  }
  return lines.join('\n');
}

function textOf(cell: Cell): string {
  return typeof cell === 'string' ? cell : cell.text;
}

function renderCell(cell: Cell, colour: boolean): string {
  return typeof cell === 'string' ? cell : paint(cell.style, cell.text, colour);
}
