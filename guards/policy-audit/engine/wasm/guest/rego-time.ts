/** Rego's `time`: nanoseconds since 1970 as numbers, in UTC or a named time zone. */
import type { Builtin } from './builtin.ts';

const nsPerMs = 1_000_000;
const units: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3600e9,
};
const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];

export const timeBuiltins: Readonly<Record<string, Builtin>> = {
  'time.now_ns': () => Date.now() * nsPerMs,
  'time.parse_rfc3339_ns': ([text]) => rfc3339(text),
  'time.parse_duration_ns': ([text]) => durationNs(text),
  'time.date': ([at]) => {
    const parts = partsOf(at);
    return parts && [parts.year, parts.month, parts.day];
  },
  'time.clock': ([at]) => {
    const parts = partsOf(at);
    return parts && [parts.hour, parts.minute, parts.second];
  },
  'time.weekday': ([at]) => {
    const parts = partsOf(at);
    return parts && weekdays[new Date(Date.UTC(parts.year, parts.month - 1, parts.day)).getUTCDay()];
  },
  'time.add_date': ([at, years, months, days]) => {
    if (![at, years, months, days].every((part) => Number.isInteger(part))) return undefined;
    const from = new Date(Math.floor((at as number) / nsPerMs));
    const rest = (at as number) - from.getTime() * nsPerMs;
    from.setUTCFullYear(
      from.getUTCFullYear() + (years as number),
      from.getUTCMonth() + (months as number),
      from.getUTCDate() + (days as number),
    );
    return Number.isNaN(from.getTime()) ? undefined : from.getTime() * nsPerMs + rest;
  },
};

function rfc3339(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  const found = /^\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(?:\.(\d{1,9}))?(?:[Zz]|[+-]\d\d:\d\d)$/.exec(text);
  if (found === null) return undefined;
  const fraction = found[1] ?? '';
  const ms = Date.parse(fraction === '' ? text : text.replace(`.${fraction}`, ''));
  return Number.isNaN(ms) ? undefined : ms * nsPerMs + Number(fraction.padEnd(9, '0'));
}

function durationNs(text: unknown): number | undefined {
  if (typeof text !== 'string') return undefined;
  const [, sign, rest = ''] = /^([+-]?)(.*)$/s.exec(text) ?? [];
  if (rest === '0') return 0;
  if (!/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|ms|s|m|h))+$/.test(rest)) return undefined;
  let sum = 0;
  for (const [, number = '', unit = ''] of rest.matchAll(/([\d.]+)(ns|us|µs|ms|s|m|h)/g)) {
    sum += Number(number) * (units[unit] ?? 0);
  }
  return Math.trunc(sign === '-' ? -sum : sum);
}

interface Parts {
  readonly year: number;
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
}

/** Of nanoseconds, or of nanoseconds and the name of a zone. */
function partsOf(at: unknown): Parts | undefined {
  const [ns, zone = 'UTC'] = Array.isArray(at) ? (at as unknown[]) : [at];
  if (typeof ns !== 'number' || typeof zone !== 'string') return undefined;
  try {
    const format = new Intl.DateTimeFormat('en-US', {
      timeZone: zone === '' ? 'UTC' : zone,
      hourCycle: 'h23',
      year: 'numeric',
      month: 'numeric',
      day: 'numeric',
      hour: 'numeric',
      minute: 'numeric',
      second: 'numeric',
    });
    const found = new Map(
      format.formatToParts(Math.floor(ns / nsPerMs)).map(({ type, value }) => [type, Number(value)]),
    );
    const part = (name: Intl.DateTimeFormatPartTypes): number => found.get(name) ?? 0;
    return {
      year: part('year'),
      month: part('month'),
      day: part('day'),
      hour: part('hour'),
      minute: part('minute'),
      second: part('second'),
    };
  } catch {
    return undefined;
  }
}
