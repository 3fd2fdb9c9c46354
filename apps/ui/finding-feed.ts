/** Findings in their order, for whoever looks at them. */
import { randomBytes } from 'node:crypto';

import type { LineFeed } from '../../lib/feed/line-feed.ts';

export interface FindingReader {
  /** Numbers only grow. `line` is JSON of a `UiFinding`. */
  line(number: number, line: string): void;
  /** All kept lines have been delivered; the following ones are new. */
  live(): void;
  /** It ends here, although more may come: to be followed anew. */
  fail(): void;
}

export interface FindingFeed {
  /** Numbers mean something in this feed only: that of another process counts anew. */
  readonly epoch: string;
  /** Tells what is kept after this number, then what comes, until it is disposed. */
  follow(after: number, reader: FindingReader): Disposable;
}

/** @param lineOf - What is shown of a line; undefined: nothing. Default: the line. */
export function feedOf(
  feed: LineFeed,
  lineOf: (line: string) => string | undefined = (line) => line,
): FindingFeed {
  return {
    epoch: randomBytes(6).toString('hex'),
    follow(after, reader) {
      const tell = (number: number, line: string): void => {
        const shown = lineOf(line);
        if (shown !== undefined) reader.line(number, shown);
      };
      for (const { number, line } of feed.kept()) if (number > after) tell(number, line);
      reader.live();
      return feed.subscribe(tell);
    },
  };
}
