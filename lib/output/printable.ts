/** Text of unknown origin, made safe to show to a person. */

/**
 * Controls (C0, DEL, C1), format characters (the bidirectional overrides among them), line and
 * paragraph separators, lone surrogates, private use and unassigned: all that can move the cursor,
 * reorder a line or show nothing. The backslash is in it so that an escape cannot be forged.
 */
const unprintable = /[\p{C}\p{Zl}\p{Zp}\\]/gu;
/** The same set without `g`: a regular expression with state must not be used for a test. */
const hasUnprintable = /[\p{C}\p{Zl}\p{Zp}\\]/u;

/**
 * `text` with everything that a terminal might act on, or that cannot be seen, written as an escape:
 * `\n`, `\x1b`, `\u{202e}`, and `\\` for a backslash. A file name or an argument list is chosen by
 * whoever runs the process: printed raw it could rewrite the lines above it.
 *
 * @example
 * printable('a\u001b[2Jb') // 'a\\x1b[2Jb'
 */
export function printable(text: string): string {
  return hasUnprintable.test(text) ? text.replace(unprintable, escapeCharacter) : text;
}

function escapeCharacter(character: string): string {
  if (character === '\\') return '\\\\';
  if (character === '\n') return '\\n';
  if (character === '\t') return '\\t';
  if (character === '\r') return '\\r';
  const code = character.codePointAt(0) ?? 0;
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : `\\u{${code.toString(16)}}`;
}

/** `hh:mm:ss.mmm` in local time, as people read it beside their own clock. */
export function clockTime(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  const ms = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}
