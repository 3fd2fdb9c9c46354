/** The HTTP side's interface for turning answers into text. */
import { renderEvents } from './events.ts';
import { negotiate } from './format.ts';
import { renderBody, renderItem, renderList } from './render.ts';
import { renderTexts, takesTexts } from './texts.ts';

/** All of this room as one object. */
export const renderer = {
  negotiate,
  renderItem,
  renderList,
  takesTexts,
  renderTexts,
  renderEvents,
  renderError: renderBody,
} as const;

export type Renderer = typeof renderer;
