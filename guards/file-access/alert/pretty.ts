/** From an access to a line for a person at a terminal. */
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
 * One access as one line for a person: local time, a mark (`✗` denied, `?` not known to this sensor
 * mode), the access in words, the path, the process. Everything a process chose itself (its names
 * and arguments) is escaped, see {@link printable}: none of it reaches the terminal raw.
 *
 * @example
 * // 10:00:00.123   read          /etc/shadow   /usr/bin/cat /etc/shadow  (pid 4711, uid 0, in /root)
 */
export function formatPretty(access: Access, path: string, options: PrettyOptions): string {
  const denied = access.verdict === 'denied';
  const what = `${verdictMarks[access.verdict]} ${describeMask(access.mask).join(',').padEnd(12)}`;
  const where = printable(path).padEnd(options.pathWidth ?? 24);
  // A kernel thread has no executable; its comm in brackets is what ps shows.
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

/** The kernel walks a path from its end, so what is missing of a cut one is its beginning. */
function shownPath(path: string, cut: boolean): string {
  return `${cut ? '…' : ''}${printable(path)}`;
}

/** The arguments with a space before them, cut to what fits on a screen. */
function shortArguments(access: Access): string {
  if (access.arguments === '') return '';
  // Cut before escaping, so that no escape is cut in two; by code points, so that no character is.
  const characters = Array.from(access.arguments.slice(0, 2 * MAX_PRETTY_ARGUMENTS + 2));
  const cut = characters.length > MAX_PRETTY_ARGUMENTS || access.argumentsTruncated;
  return ` ${printable(characters.slice(0, MAX_PRETTY_ARGUMENTS).join(''))}${cut ? '…' : ''}`;
}
