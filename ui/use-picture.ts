/** The picture of a guard, polled while it is shown. */
import { useEffect, useState } from 'preact/hooks';

import type { DrawnItem, DrawnPicture, UiPicture } from '../apps/ui/report.ts';
import { shown } from './text.ts';

const POLL_MS = 5_000;

export interface PolledPicture {
  /** Undefined until the first picture has come. */
  readonly picture: DrawnPicture | undefined;
  /** Why it cannot be read now; empty if it can. */
  readonly failure: string;
}

export function usePicture(guard: string): PolledPicture {
  const [polled, setPolled] = useState<PolledPicture>({ picture: undefined, failure: '' });
  useEffect(() => {
    const stop = new AbortController();
    setPolled({ picture: undefined, failure: '' });
    void (async () => {
      let tag = '';
      while (!stop.signal.aborted) {
        try {
          const headers: HeadersInit = tag === '' ? {} : { 'If-None-Match': tag };
          const response = await fetch(`pictures/${guard}.json`, { signal: stop.signal, headers });
          if (response.ok) {
            tag = response.headers.get('ETag') ?? '';
            const { picture, failure } = (await response.json()) as UiPicture;
            // The earlier picture stays, with the reason why it is not newer.
            setPolled((last) => ({
              picture: picture === null ? last.picture : withVisibleNames(picture),
              failure: failure ?? '',
            }));
          } else if (response.status !== 304) {
            const failure = await response.text();
            setPolled((last) => ({ ...last, failure }));
          }
        } catch {
          const failure = 'rampart ui does not answer.';
          if (!stop.signal.aborted) setPolled((last) => ({ ...last, failure }));
        }
        await new Promise((resolve) => setTimeout(resolve, POLL_MS));
      }
    })();
    return () => stop.abort();
  }, [guard]);
  return polled;
}

/** The picture with invisible characters as escapes. Made before anything is measured: an escape is longer than its character. */
function withVisibleNames(picture: DrawnPicture): DrawnPicture {
  return {
    ...picture,
    notes: picture.notes.map(shown),
    items: picture.items.map(({ at, mark, text, proceedOn, ...item }): DrawnItem => ({
      ...item,
      at: at.map(shown),
      mark: shown(mark),
      text: shown(text),
      ...(proceedOn !== undefined && { proceedOn: shown(proceedOn) }),
    })),
  };
}
