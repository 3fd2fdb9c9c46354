/** Formats an access as a line for the terminal. */
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { type Access, attributesOf, describeMask, type Verdict } from '../../../lib/sensor/access.ts';
import { namesOf } from './alert.ts';

export interface PrettyOptions {
  /** Whether to use ANSI colours: denied accesses are red. */
  readonly color: boolean;
  /** Width of the column of paths, in characters; longer paths push the rest to the right. Default 24. */
  readonly pathWidth?: number;
}

const MAX_PRETTY_ARGUMENTS = 120;
const verdictMarks: Readonly<Record<Verdict, string>> = { allowed: ' ', denied: '✗', unknown: '?' };

/**
 * Formats one access as one line for people: local time, a mark (`✗` denied, `?` unknown in this sensor mode), the access in words, the
 * path, the process. Texts that a process chose itself (its names and arguments) are escaped, see {@link printable}: they reach the
 * terminal only in that form.
 *
 * @example
 * // 10:00:00.123   read          /etc/shadow   /usr/bin/cat /etc/shadow  (pid 4711, uid 0, in /root)
 */
export function formatPretty(access: Access, path: string, options: PrettyOptions): string {
  const denied = access.verdict === 'denied';
  const what = `${verdictMarks[access.verdict]} ${describeMask(access.mask).join(',').padEnd(12)}`;
  const where = printable(path).padEnd(options.pathWidth ?? 24);
  // A kernel thread has no executable; its name is shown in brackets, as by ps.
  const binary =
    access.executable === ''
      ? `[${printable(access.comm)}]`
      : shownPath(access.executable, access.executableTruncated);
  const details = [`pid ${access.pid}`, `uid ${access.uid}`];
  if (access.cwd !== '') details.push(`in ${shownPath(access.cwd, access.cwdTruncated)}`);
  if (access.to !== '') details.push(`to ${printable(namesOf(access, path).to)}`);
  const attributes = attributesOf(access.mask);
  if (attributes.length > 0) details.push(attributes.join(', '));
  if (denied) details.push('denied');
  if (access.folded > 0) details.push(`${access.folded} more like it before`);
  const subject = `${what}  ${where}`;
  return (
    `${clockTime(Number(access.timeNs / 1_000_000n))} ` +
    `${options.color && denied ? `\u001b[31m${subject}\u001b[0m` : subject}  ` +
    `${binary}${shortArguments(access)}  (${details.join(', ')})`
  );
}

/** The kernel assembles a path from its end, so a truncated path lacks its beginning. */
function shownPath(path: string, cut: boolean): string {
  return `${cut ? '…' : ''}${printable(path)}`;
}

/** The arguments with a leading space, cut to a length that fits on a screen. */
function shortArguments(access: Access): string {
  if (access.arguments === '') return '';
  // Cut before escaping, so that no escape sequence is split; by code points, so that no character is split.
  const characters = Array.from(access.arguments.slice(0, 2 * MAX_PRETTY_ARGUMENTS + 2));
  const cut = characters.length > MAX_PRETTY_ARGUMENTS || access.argumentsTruncated;
  return ` ${printable(characters.slice(0, MAX_PRETTY_ARGUMENTS).join(''))}${cut ? '…' : ''}`;
}
