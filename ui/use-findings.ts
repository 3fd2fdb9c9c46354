/** The findings that the server keeps, and those that come, newest first. */
import { useEffect, useState } from 'preact/hooks';

import type { UiFinding } from '../apps/ui/report.ts';

/** The server keeps up to 10,000 of each of six kinds: more than a person reads, or a browser handles well. */
const MAX = 20_000;
/** Findings that come within this time are drawn together. */
const GATHER_MS = 100;
/** The pause after an answer that is not a stream, for example because the server cannot authenticate the user. */
const RETRY_MS = 5_000;

export interface ListedFinding extends UiFinding {
  readonly number: number;
  readonly timeMs: number;
  /** The text that a search looks in, in lower case. */
  readonly text: string;
}

export interface Findings {
  readonly list: readonly ListedFinding[];
  /** Whether all that the server keeps is here. */
  readonly isComplete: boolean;
}

export function useFindings(): Findings {
  const [findings, setFindings] = useState<Findings>({ list: [], isComplete: false });
  useEffect(() => {
    let events: EventSource;
    let waiting: ListedFinding[] = [];
    let timer: ReturnType<typeof setTimeout> | undefined;
    let again: ReturnType<typeof setTimeout> | undefined;
    let isComplete = false;
    const flush = (): void => {
      clearTimeout(timer);
      timer = undefined;
      const came = waiting.toReversed();
      waiting = [];
      setFindings(({ list }) => ({ list: [...came, ...list].slice(0, MAX), isComplete }));
    };
    /** The server sends all findings again. */
    const forget = (): void => {
      waiting = [];
      isComplete = false;
      setFindings({ list: [], isComplete });
    };
    const open = (isFirst: boolean): void => {
      events = new EventSource('findings');
      if (!isFirst) events.addEventListener('open', forget);
      events.addEventListener('message', ({ data, lastEventId }: MessageEvent<string>) => {
        const parsed = JSON.parse(data) as UiFinding;
        const timeMs = Date.parse(parsed.finding.time);
        const number = Number(lastEventId.slice(lastEventId.indexOf('-') + 1));
        waiting.push({ ...parsed, number, timeMs, text: data.toLowerCase() });
        timer ??= setTimeout(flush, GATHER_MS);
      });
      // The findings of another process follow.
      events.addEventListener('anew', forget);
      events.addEventListener('live', () => {
        isComplete = true;
        flush();
      });
      // EventSource reconnects by itself after a connection breaks, but not after an answer that is not a stream.
      events.addEventListener('error', () => {
        if (events.readyState === EventSource.CLOSED) again = setTimeout(open, RETRY_MS, false);
      });
    };
    open(true);
    return () => {
      clearTimeout(timer);
      clearTimeout(again);
      events.close();
    };
  }, []);
  return findings;
}
