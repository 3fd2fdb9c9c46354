/** Changes of single places of a text; all else stays as it was written. */
import type { Position } from './source.ts';

type Place = Pick<Position, 'offset' | 'end'>;

export class TextEdits {
  readonly text: string;
  readonly #edits: { readonly from: number; readonly to: number; readonly text: string }[] = [];

  constructor(text: string) {
    this.text = text;
  }

  /** What stands there, before any change. */
  written({ offset, end }: Place): string {
    return this.text.slice(offset, end);
  }

  /** Puts `text` there. Places do not overlap. */
  replace(place: Place, text: string): void {
    if (this.written(place) !== text) this.#edits.push({ from: place.offset, to: place.end, text });
  }

  /** From a place in the text with all changes to the one in the text of before; of what was put there, to where it was put. */
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
