/** The interface by which HTTP renders answers. */
import { renderEvents } from './events.ts';
import { negotiate } from './format.ts';
import { renderBody, renderItem, renderList } from './render.ts';
import { renderTexts, takesTexts } from './texts.ts';

/** All functions of this folder that HTTP uses. */
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
