/** Texts and numbers as Go prints them in the API server's messages. */

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

/** Go's `strconv.Quote` (`%q`): unprintable characters are escaped, others stay. */
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

/** Go's `%v` and `%g` of a float64: the shortest digits, with an exponent below 1e-4 and from 1e6 on. */
export function goNumber(value: number): string {
  if (Object.is(value, -0)) return '-0';
  if (value === Infinity) return '+Inf';
  if (value === -Infinity) return '-Inf';
  const [mantissa = '', exponent = ''] = value.toExponential().split('e');
  const power = Number(exponent);
  if (!Number.isFinite(value) || (power >= -4 && power < 6)) return String(value);
  return `${mantissa}e${exponent.slice(0, 1)}${exponent.slice(1).padStart(2, '0')}`;
}

/** A JSON number as Go's `%v` prints it: whole numbers are integers if they fit in 64 bits. */
export function goJsonNumber(value: number): string {
  return Number.isInteger(value) && Math.abs(value) < 2 ** 63 ? BigInt(value).toString() : goNumber(value);
}

/** Go's `%.<digits>f` of a finite number: halves are rounded to the even digit. At most 100 digits. */
export function goFixed(value: number, digits: number): string {
  return halfToEven(value.toFixed(digits), value.toFixed(Math.min(100, digits + moreDigits)));
}

/** Like {@link goFixed}, for `%.<digits>e`, with JavaScript's exponent. */
export function goExponential(value: number, digits: number): string {
  const [mantissa = '', exponent] = value.toExponential(Math.min(100, digits + moreDigits)).split('e');
  const [rounded = '', power] = value.toExponential(digits).split('e');
  // If rounding led to the next power of ten, the number was not exactly between two candidates.
  return `${power === exponent ? halfToEven(rounded, mantissa) : rounded}e${power}`;
}

/** Enough digits to tell a number exactly between two candidates from the doubles next to it. */
const moreDigits = 25;

/** @param rounded - Rounded by JavaScript, with halves away from zero. @param exact - The same number with more digits. */
function halfToEven(rounded: string, exact: string): string {
  const from = rounded.includes('.') ? rounded.length : exact.indexOf('.') + 1;
  const cut = exact.slice(0, rounded.length);
  if (cut === rounded || !/^50*$/.test(exact.slice(from)) || !/[02468]$/.test(cut)) return rounded;
  return cut;
}
