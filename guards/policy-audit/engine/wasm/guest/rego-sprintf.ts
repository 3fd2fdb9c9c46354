/** The verbs of Go's fmt that policies format messages with. */

/** Like Rego's `sprintf`, including what Go prints for a verb that does not fit. */
export function goFormat(how: string, values: readonly unknown[]): string {
  let next = 0;
  const text = how.replaceAll(
    /%([-+ #0]*)(\d*)(?:\.(\d+))?([a-zA-Z%])?/g,
    (_all, flags: string, width: string, precision: string | undefined, verb: string | undefined) => {
      if (verb === '%') return '%';
      if (verb === undefined) return '%!(NOVERB)';
      if (next >= values.length) return `%!${verb}(MISSING)`;
      const shown = formatted(
        verb,
        values[next++],
        precision === undefined ? undefined : Number(precision),
        flags,
      );
      return aligned(shown, Number(width), flags);
    },
  );
  const extra = values.slice(next).map((value) => `${typeOf(value)}=${plain(value)}`);
  return extra.length > 0 ? `${text}%!(EXTRA ${extra.join(', ')})` : text;
}

function aligned(shown: string, width: number, flags: string): string {
  if (flags.includes('-')) return shown.padEnd(width);
  if (!flags.includes('0')) return shown.padStart(width);
  const sign = /^[+-]/.exec(shown)?.[0] ?? '';
  return sign + shown.slice(sign.length).padStart(width - sign.length, '0');
}

function formatted(verb: string, value: unknown, precision: number | undefined, flags: string): string {
  const wrong = `%!${verb}(${typeOf(value)}=${plain(value)})`;
  switch (verb) {
    case 'v':
      return plain(value);
    case 's':
      return typeof value === 'number' || typeof value === 'boolean'
        ? wrong
        : plain(value).slice(0, precision);
    case 'q':
      return typeof value === 'string' ? JSON.stringify(value) : wrong;
    case 'd':
      return Number.isInteger(value) ? signed(String(value), flags) : wrong;
    case 'x':
      if (typeof value === 'string') return Buffer.from(value).toString('hex');
      return Number.isInteger(value) ? (value as number).toString(16) : wrong;
    case 'X':
      return Number.isInteger(value) ? (value as number).toString(16).toUpperCase() : wrong;
    case 'o':
      return Number.isInteger(value) ? (value as number).toString(8) : wrong;
    case 'b':
      return Number.isInteger(value) ? (value as number).toString(2) : wrong;
    case 'f':
      return typeof value === 'number' ? signed(value.toFixed(precision ?? 6), flags) : wrong;
    case 't':
      return typeof value === 'boolean' ? String(value) : wrong;
    case 'T':
      return typeOf(value);
    default:
      return wrong;
  }
}

function signed(number: string, flags: string): string {
  return flags.includes('+') && !number.startsWith('-') ? `+${number}` : number;
}

/** Strings as they are, everything else as Rego writes it: `["a", 1]`, `{"a": 1}`. */
function plain(value: unknown): string {
  return typeof value === 'string' ? value : rego(value);
}

function rego(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(rego).join(', ')}]`;
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  return `{${Object.entries(value)
    .map(([key, of]) => `${JSON.stringify(key)}: ${rego(of)}`)
    .join(', ')}}`;
}

function typeOf(value: unknown): string {
  if (typeof value === 'number') return Number.isInteger(value) ? 'int' : 'float64';
  return typeof value === 'boolean' ? 'bool' : 'string';
}
