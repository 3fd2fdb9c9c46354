/**
 * What this room asks of the one that turns answers into text.
 *
 * @module
 */
import type { StatusFailure } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import type { ItemList, ItemTexts, WatchEvent } from '../verbs/request.ts';

/** A form of answer that was agreed on with the client. */
export interface AnswerFormat {
  /** For the header: `application/json;stream=watch` or so. */
  readonly contentType: string;
}

export interface Renderer<Format extends AnswerFormat = AnswerFormat> {
  /**
   * What an Accept header asks for, and of the query what tells the same; JSON without them. `undefined`: nothing
   * that can be given. May throw `ApiError`.
   */
  negotiate(
    accept: string | undefined,
    what: 'item' | 'list' | 'watch',
    query?: URLSearchParams,
  ): Format | undefined;
  renderItem(item: Item, format: Format, now: Date): string | Uint8Array;
  /** In pieces, each worth a write. */
  renderList(list: ItemList, format: Format, now: Date): Iterable<string>;
  /** Whether a list in this format can be made of the texts of the store. */
  takesTexts(format: Format): boolean;
  /** In pieces, each worth a write. */
  renderTexts(list: ItemTexts): Iterable<Uint8Array>;
  /** Whole lines. `isFirst`: nothing of this watch was rendered before. */
  renderEvents(
    batch: readonly WatchEvent[],
    resource: Resource,
    format: Format,
    now: Date,
    isFirst?: boolean,
  ): string;
  /** A Status, also one of success. Without a line feed. */
  renderError(status: StatusFailure | object, format: Format): string;
}
