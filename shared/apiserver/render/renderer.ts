/**
 * What the HTTP side calls to turn answers into text.
 *
 * @module
 */
import type { Renderer } from '../http/renderer.ts';
import { renderEvents } from './events.ts';
import { type Format, negotiate } from './format.ts';
import { renderBody, renderItem, renderList } from './render.ts';
import { renderTexts, takesTexts } from './texts.ts';

/**
 * All of this room as one object. Besides what `Renderer` has, `negotiate` takes the query (for `includeObject` and
 * `pretty`), and `renderEvents` whether a Table is to tell its columns.
 */
export const renderer = {
  negotiate,
  renderItem,
  renderList,
  takesTexts,
  renderTexts,
  renderEvents,
  renderError: renderBody,
} as const satisfies Renderer<Format>;
