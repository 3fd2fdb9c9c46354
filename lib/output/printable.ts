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

/**
 * Characters that JSON leaves unescaped although they are invisible, turn the text around, or control a
 * terminal: DEL, C1, format characters.
 */
const invisible = /[\u007f-\u009f\u2028\u2029\p{Cf}]/gu;
const hasInvisible = /[\u007f-\u009f\u2028\u2029\p{Cf}]/u;

/**
 * JSON with its invisible characters as escapes. To every parser it is the same value, and a person sees what is in it.
 *
 * @example
 * visibleJson(JSON.stringify('a\u202eb')) // '"a\\u202eb"'
 */
export function visibleJson(json: string): string {
  return hasInvisible.test(json) ? json.replace(invisible, escapeUnits) : json;
}

/** Text to be stored for people, such as the note of an event, with invisible characters as escapes. Line breaks stay. */
export function visibleText(text: string): string {
  return hasInvisible.test(text) || hasControl.test(text)
    ? text.replace(invisible, escapeUnits).replace(control, escapeUnits)
    : text;
}

// oxlint-disable-next-line no-control-regex -- control characters are what has to be found
const control = /[\u0000-\u0008\u000b-\u001f]/g;
// oxlint-disable-next-line no-control-regex -- as above
const hasControl = /[\u0000-\u0008\u000b-\u001f]/;

function escapeUnits(character: string): string {
  let text = '';
  for (let at = 0; at < character.length; at++)
    text += `\\u${character.charCodeAt(at).toString(16).padStart(4, '0')}`;
  return text;
}

/** `hh:mm:ss.mmm` in local time, as people read it beside their own clock. */
export function clockTime(timeMs: number): string {
  const date = new Date(timeMs);
  const two = (value: number): string => String(value).padStart(2, '0');
  const ms = String(date.getMilliseconds()).padStart(3, '0');
  return `${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}.${ms}`;
}
