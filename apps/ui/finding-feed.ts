/** Findings in their order, for all readers of the page. */
import { randomBytes } from 'node:crypto';

import type { LineFeed } from '../../lib/feed/line-feed.ts';

export interface FindingReader {
  /** Numbers increase. `line` is the JSON of a `UiFinding`. */
  line(number: number, line: string): void;
  /** All kept lines have been delivered; the following ones are new. */
  live(): void;
  /** The feed ends here although more may come; the reader has to follow it again. */
  fail(): void;
}

export interface FindingFeed {
  /** Identifies this feed: line numbers are valid only in it, as each process counts from the start. */
  readonly epoch: string;
  /** Delivers the kept lines after this number, then new ones, until the result is disposed. */
  follow(after: number, reader: FindingReader): Disposable;
}

/** @param lineOf - Returns what readers get for a line of the feed; undefined: the line is left out. Default: the line itself. */
export function feedOf(
  feed: LineFeed,
  lineOf: (line: string) => string | undefined = (line) => line,
): FindingFeed {
  return {
    epoch: randomBytes(6).toString('hex'),
    follow(after, reader) {
      const notify = (number: number, line: string): void => {
        const shown = lineOf(line);
        if (shown !== undefined) reader.line(number, shown);
      };
      for (const { number, line } of feed.kept()) if (number > after) notify(number, line);
      reader.live();
      return feed.subscribe(notify);
    },
  };
}
