/** Texts and numbers as Go prints them, as known from the API server's messages. */

const escapes: Readonly<Record<string, string>> = {
  '\x07': '\\a',
  '\b': '\\b',
  '\f': '\\f',
  '\n': '\\n',
  '\r': '\\r',
  '\t': '\\t',
  '\v': '\\v',
  '"': '\\"',
  '\\': '\\\\',
};

/** Go's `strconv.Quote` (`%q`): unprintable characters are escaped, others stay as they are. */
export function goQuote(text: string): string {
  if (/^[ !#-[\]-~]*$/.test(text)) return `"${text}"`;
  let quoted = '"';
  for (const character of text) {
    const code = character.codePointAt(0) ?? 0;
    const escape = escapes[character];
    if (escape !== undefined) quoted += escape;
    else if (code < 0x20 || code === 0x7f) quoted += `\\x${code.toString(16).padStart(2, '0')}`;
    else if (/[\p{L}\p{M}\p{N}\p{P}\p{S} ]/u.test(character)) quoted += character;
    else if (code > 0xffff) quoted += `\\U${code.toString(16).padStart(8, '0')}`;
    else quoted += `\\u${code.toString(16).padStart(4, '0')}`;
  }
  return `${quoted}"`;
}

/** Go's `%v` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e21 on. */
export function goNumber(value: number): string {
  if (Object.is(value, -0)) return '-0';
  if (value === Infinity) return '+Inf';
  if (value === -Infinity) return '-Inf';
  const size = Math.abs(value);
  if (!Number.isFinite(value) || value === 0 || (size >= 1e-4 && size < 1e21)) return String(value);
  const [mantissa = '', exponent = ''] = value.toExponential().split('e');
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}
