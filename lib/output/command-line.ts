import { printable } from './printable.ts';

/** A word that no shell interprets. */
const plain = /^[\w@%+=:,./-]+$/;

/**
 * A command line that POSIX shells split into these words again, whatever is in them: names come from those who run
 * workloads, and the line is pasted into a shell.
 *
 * @returns undefined if a word has invisible characters in it, such as a line break: no person can check those.
 *
 * @example
 * commandLine(['cat', "it's; rm"]) // cat 'it'\''s; rm'
 */
export function commandLine(words: readonly string[]): string | undefined {
  if (words.some((word) => printable(word).replaceAll('\\\\', '\\') !== word)) return undefined;
  return words.map((word) => (plain.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`)).join(' ');
}
