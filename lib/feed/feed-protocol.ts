/**
 * The protocol of the socket of a {@link LineFeed}: lines. Those that begin with `#` are about the feed and
 * are JSON after it; all others are a number, a space, and a line of the feed.
 *
 * ```text
 * #{"feed":1,"id":"5f0c...","first":12,"last":13}   the first one: which feed this is, and the lines that are kept
 * #{"about":{...}}                                   the process's description of its lines, e.g. how many there were
 * 12 {"kind":"Alert",...
 * 13 {"kind":"Alert",...
 * #{"live":13}                                       all that was kept has been sent
 * 17 {"kind":"Alert",...                           14 to 16 were dropped, because this reader was too slow
 * #{"at":20}                                         18 to 20 were dropped too
 * ```
 *
 * The reader sends nothing. Numbers may be missing among the kept lines: those have been dropped.
 */

/** The first line. */
export interface FeedHello {
  /** The version of the protocol. */
  readonly feed: 1;
  /** Differs after each start of the process. */
  readonly id: string;
  /** The numbers of the oldest and the newest line that are kept. */
  readonly first: number;
  readonly last: number;
}

/** A line about the feed. */
export type FeedNote =
  | FeedHello
  | { readonly about: unknown }
  | { readonly live: number }
  | { readonly at: number }
  | { readonly full: number };

export function noteLine(note: FeedNote): string {
  return `#${JSON.stringify(note)}`;
}
