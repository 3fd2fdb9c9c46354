/** The prefix of logged packets, which a reader of the group gets with each of them. */
import type { RefusalVerdict } from '../engine/rules.ts';

/** First word of the prefix. */
const firstWords = { refused: 'rampart', 'would-refuse': 'rampart-monitor' } as const satisfies Record<
  RefusalVerdict,
  string
>;

/**
 * @param words - Empty ones are left out.
 * @param longest - The kernel's limit, in bytes; what does not fit is cut off. The prefix ends with a space, since
 * programs print the packet right after it.
 */
export function logPrefixOf(verdict: RefusalVerdict, words: readonly string[], longest = Infinity): string {
  const text = [firstWords[verdict], ...words].filter(Boolean).join(' ');
  return `${text.slice(0, longest - 1)} `;
}

interface LogPrefix {
  readonly verdict: RefusalVerdict;
  readonly words: readonly string[];
}

/** Parses the prefix of a logged packet; undefined if the prefix is not one of ours. */
export function parseLogPrefix(prefix: string): LogPrefix | undefined {
  const [first, ...words] = prefix.trimEnd().split(' ');
  for (const verdict of ['refused', 'would-refuse'] as const) {
    if (first === firstWords[verdict]) return { verdict, words };
  }
  return undefined;
}
