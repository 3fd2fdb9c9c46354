/** The common parts of all layouts of pictures. They are pure: given items and a width, they return positions, in CSS pixels. */
import type { DrawnItem } from '../../apps/ui/report.ts';

export interface Box {
  readonly x: number;
  readonly y: number;
  readonly width: number;
  readonly height: number;
}

/** An item that a person can choose. */
export interface Shape extends Box {
  readonly item: DrawnItem;
  readonly isRound?: true;
  /** Texts inside the shape, cut to fit. */
  readonly labels: readonly Label[];
  /** Length of a bar along the lower edge, as a share of the width: from 0 to 1. */
  readonly share?: number;
}

export interface Label {
  readonly x: number;
  /** The vertical middle of the text. */
  readonly y: number;
  readonly text: string;
  /** The whole text, if `text` was cut. */
  readonly full?: string;
  readonly anchor?: 'end' | 'middle';
  /** Written from bottom to top. */
  readonly isVertical?: true;
  readonly style?: 'dim' | 'strong';
}

export interface Line {
  readonly from: readonly [x: number, y: number];
  readonly to: readonly [x: number, y: number];
  readonly isArrow?: true;
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  /** Boxes drawn behind the shapes. */
  readonly frames: readonly Box[];
  readonly lines: readonly Line[];
  readonly labels: readonly Label[];
  readonly shapes: readonly Shape[];
}

/** Width of a character of the monospaced font, at 11 pixels. */
export const CHARACTER = 6.7;
/** Characters that fonts draw twice as wide: East Asian characters, and pictures. */
const wide = /[\u1100-\u115f\u2e80-\uffdc\u{1f000}-\u{3ffff}]/u;

function columnsOf(character: string): number {
  return wide.test(character) ? 2 : 1;
}

/** Upper limit of the width at which a text is drawn. */
export function widthOf(text: string): number {
  return CHARACTER * Array.from(text).reduce((sum, one) => sum + columnsOf(one), 0);
}

/**
 * The text as far as there is room for it, with an ellipsis in place of the rest; empty without room.
 *
 * @param keep - Which part stays. Of a path, the end says more.
 */
export function cut(text: string, width: number, keep: 'end' | 'start' = 'start'): string {
  if (widthOf(text) <= width) return text;
  const characters = Array.from(text);
  if (keep === 'end') characters.reverse();
  const kept: string[] = [];
  let left = width - CHARACTER;
  for (const one of characters) {
    left -= CHARACTER * columnsOf(one);
    if (left < 0) break;
    kept.push(one);
  }
  if (kept.length === 0) return '';
  if (keep === 'start') return `${kept.join('').trimEnd()}…`;
  // Keeps whole names of a path.
  const end = kept.reverse().join('');
  return `…${end.slice(Math.max(end.indexOf('/'), 0))}`;
}

/** A label that fits into a width. */
export function fitted(
  text: string,
  place: Omit<Label, 'full' | 'text'> & { readonly width: number; readonly keep?: 'end' | 'start' },
): Label {
  const { width, keep, ...label } = place;
  const short = cut(text, width, keep);
  return { ...label, text: short, ...(short !== text && { full: text }) };
}
