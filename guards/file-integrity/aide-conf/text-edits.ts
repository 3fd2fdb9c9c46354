/** Replaces single places of a text; the rest is unchanged. */
import type { Position } from './source.ts';

type Place = Pick<Position, 'offset' | 'end'>;

export class TextEdits {
  readonly text: string;
  readonly #edits: { readonly from: number; readonly to: number; readonly text: string }[] = [];

  constructor(text: string) {
    this.text = text;
  }

  /** The original text of a place. */
  written({ offset, end }: Place): string {
    return this.text.slice(offset, end);
  }

  /** Replaces a place with `text`. Places must not overlap. */
  replace(place: Place, text: string): void {
    if (this.written(place) !== text) this.#edits.push({ from: place.offset, to: place.end, text });
  }

  /** Converts an offset in the changed text to one in the original; for inserted text, to that of the insertion. */
  offsetBefore(offset: number): number {
    let shift = 0;
    for (const { from, to, text } of this.#edits.toSorted((a, b) => a.from - b.from)) {
      if (offset < from + shift) break;
      if (offset < from + shift + text.length) return from;
      shift += text.length - (to - from);
    }
    return offset - shift;
  }

  applied(): string {
    let result = '';
    let at = 0;
    for (const { from, to, text } of this.#edits.toSorted((a, b) => a.from - b.from)) {
      result += this.text.slice(at, from) + text;
      at = to;
    }
    return result + this.text.slice(at);
  }
}
