/** Go's layouts of times (`2006-01-02T15:04:05Z07:00`), by which Rego formats and parses times. */
import { BuiltinError } from './builtin.ts';

/** A time as shown by a clock. */
export interface Clock {
  readonly year: number;
  /** 1 to 12. */
  readonly month: number;
  readonly day: number;
  readonly hour: number;
  readonly minute: number;
  readonly second: number;
  readonly nanosecond: number;
  /** Seconds east of UTC. */
  readonly offset: number;
  /** Abbreviation of the time zone, such as CET. */
  readonly zone: string;
}

export const layouts: Readonly<Record<string, string>> = {
  ANSIC: 'Mon Jan _2 15:04:05 2006',
  UnixDate: 'Mon Jan _2 15:04:05 MST 2006',
  RubyDate: 'Mon Jan 02 15:04:05 -0700 2006',
  RFC822: '02 Jan 06 15:04 MST',
  RFC822Z: '02 Jan 06 15:04 -0700',
  RFC850: 'Monday, 02-Jan-06 15:04:05 MST',
  RFC1123: 'Mon, 02 Jan 2006 15:04:05 MST',
  RFC1123Z: 'Mon, 02 Jan 2006 15:04:05 -0700',
  RFC3339: '2006-01-02T15:04:05Z07:00',
  RFC3339Nano: '2006-01-02T15:04:05.999999999Z07:00',
};

export const weekdays = ['Sunday', 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', 'Saturday'];
const months = [
  'January',
  'February',
  'March',
  'April',
  'May',
  'June',
  'July',
  'August',
  'September',
  'October',
  'November',
  'December',
];

const element =
  /(January|Jan(?![a-z])|Monday|Mon(?![a-z])|MST|002|0[1-6]|15|2006|(?<=_)2006|__2|_2(?!006)|Z07(?::?00(?::?00)?)?|-07(?::?00(?::?00)?)?|PM|pm|[.,](?:0+|9+)(?!\d)|[1-5])/;

/** Splits a layout into texts and elements, alternately. */
const split = (layout: string): string[] => layout.split(element);

const two = (number: number): string => String(number).padStart(2, '0');

function dayOfYear({ year, month, day }: Clock): number {
  return (
    (Date.UTC(2000, month - 1, day) - Date.UTC(2000, 0, 1)) / 86_400_000 +
    1 -
    (month > 2 && !isLeap(year) ? 1 : 0)
  );
}

const isLeap = (year: number): boolean => (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0;
const daysIn = (year: number, month: number): number =>
  month === 2 ? (isLeap(year) ? 29 : 28) : [4, 6, 9, 11].includes(month) ? 30 : 31;

export function weekdayOf({ year, month, day }: Clock): string {
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return weekdays[date.getUTCDay()] ?? '';
}

function offsetText(offset: number, form: string): string {
  const size = Math.abs(offset);
  const colon = form.includes(':') ? ':' : '';
  const parts = [Math.floor(size / 3600), Math.floor(size / 60) % 60, size % 60].map(two);
  const digits = form.replaceAll(/\D/g, '').length;
  return (offset < 0 ? '-' : '+') + parts.slice(0, digits / 2).join(colon);
}

export function formatTime(clock: Clock, layout: string): string {
  return split(layout)
    .map((part, at) => (at % 2 === 0 ? part : elementText(clock, part)))
    .join('');
}

function elementText(clock: Clock, part: string): string {
  const hour12 = clock.hour % 12 === 0 ? 12 : clock.hour % 12;
  const texts: Readonly<Record<string, () => string>> = {
    January: () => months[clock.month - 1] ?? '',
    Jan: () => (months[clock.month - 1] ?? '').slice(0, 3),
    Monday: () => weekdayOf(clock),
    Mon: () => weekdayOf(clock).slice(0, 3),
    MST: () => clock.zone,
    '2006': () => String(clock.year).padStart(4, '0'),
    '06': () => two(clock.year % 100),
    '01': () => two(clock.month),
    '1': () => String(clock.month),
    '002': () => String(dayOfYear(clock)).padStart(3, '0'),
    __2: () => String(dayOfYear(clock)).padStart(3, ' '),
    '02': () => two(clock.day),
    _2: () => String(clock.day).padStart(2, ' '),
    '2': () => String(clock.day),
    '15': () => two(clock.hour),
    '03': () => two(hour12),
    '3': () => String(hour12),
    '04': () => two(clock.minute),
    '4': () => String(clock.minute),
    '05': () => two(clock.second),
    '5': () => String(clock.second),
    PM: () => (clock.hour >= 12 ? 'PM' : 'AM'),
    pm: () => (clock.hour >= 12 ? 'pm' : 'am'),
  };
  const text = texts[part];
  if (text !== undefined) return text();
  if (part.startsWith('Z') && clock.offset === 0) return 'Z';
  if (part.startsWith('Z') || part.startsWith('-')) return offsetText(clock.offset, part);
  const fraction = String(clock.nanosecond)
    .padStart(9, '0')
    .slice(0, part.length - 1)
    .padEnd(part.length - 1, '0');
  if (part[1] === '0') return `${part.charAt(0)}${fraction}`;
  const kept = fraction.replace(/0+$/, '');
  return kept === '' ? '' : `${part.charAt(0)}${kept}`;
}

/** The pattern that each element matches. */
const readers: Readonly<Record<string, RegExp>> = {
  January: new RegExp(`^(?:${months.join('|')})`, 'i'),
  Jan: new RegExp(`^(?:${months.map((name) => name.slice(0, 3)).join('|')})`, 'i'),
  Monday: new RegExp(`^(?:${weekdays.join('|')})`, 'i'),
  Mon: new RegExp(`^(?:${weekdays.map((name) => name.slice(0, 3)).join('|')})`, 'i'),
  MST: /^(?:UTC|GMT(?:[+-]\d{1,2})?|[A-Z]{3,5}|[+-]\d\d(?:\d\d)?)/,
  '2006': /^\d{4}/,
  '06': /^\d\d/,
  '01': /^\d\d/,
  '1': /^\d\d?/,
  '002': /^\d{3}/,
  __2: /^ {0,2}\d{1,3}/,
  '02': /^\d\d/,
  _2: /^ ?\d\d?/,
  '2': /^\d\d?/,
  '15': /^\d\d?/,
  '03': /^\d\d/,
  '3': /^\d\d?/,
  '04': /^\d\d/,
  '4': /^\d\d?/,
  '05': /^\d\d/,
  '5': /^\d\d?/,
  PM: /^[AP]M/,
  pm: /^[ap]m/,
};

function readerOf(part: string): RegExp {
  const known = readers[part];
  if (known !== undefined) return known;
  if (/^[.,]/.test(part))
    return part[1] === '0' ? new RegExp(`^[.,]\\d{${part.length - 1}}`) : /^(?:[.,]\d+)?/;
  const colon = part.includes(':') ? ':' : '';
  const groups = part.replaceAll(/\D/g, '').length / 2;
  const digits = `[+-]\\d\\d${`${colon}\\d\\d`.repeat(groups - 1)}`;
  return new RegExp(part.startsWith('Z') ? `^(?:Z|${digits})` : `^${digits}`);
}

/** @throws {BuiltinError} if the text does not have the layout, or is not a valid time. */
export function parseTime(layout: string, text: string): Clock {
  const wrong = (why: string): BuiltinError =>
    new BuiltinError(`${JSON.stringify(text)} is not a time of the layout ${JSON.stringify(layout)}: ${why}`);
  const found = new Map<string, string>();
  const pieces = split(layout);
  let rest = text;
  for (const [at, part] of pieces.entries()) {
    if (at % 2 === 0) {
      const without = afterText(rest, part);
      if (without === undefined) throw wrong(`${JSON.stringify(part)} is missing`);
      rest = without;
      continue;
    }
    const read = readerOf(part).exec(rest)?.[0];
    if (read === undefined) throw wrong(`${JSON.stringify(rest)} does not begin with ${part}`);
    found.set(part.startsWith('.') || part.startsWith(',') ? '.' : /^[Z-]/.test(part) ? '-' : part, read);
    rest = rest.slice(read.length);
    // The seconds may have a fraction even if the layout has none.
    const follows = /^[.,]\d+/.exec(rest)?.[0];
    const expected = pieces[at + 1] === '' && /^[.,][09]/.test(pieces[at + 2] ?? '');
    if ((part === '05' || part === '5') && follows !== undefined && !expected) {
      found.set('.', follows);
      rest = rest.slice(follows.length);
    }
  }
  if (rest !== '') throw wrong(`${JSON.stringify(rest)} is left`);
  return clockOf(found, wrong);
}

/** A space in `prefix` matches any number of spaces, or the end. */
function afterText(text: string, prefix: string): string | undefined {
  let rest = text;
  for (const part of prefix.split(/( +)/)) {
    if (part.startsWith(' ')) {
      if (rest !== '' && !rest.startsWith(' ')) return undefined;
      rest = rest.trimStart();
    } else if (rest.startsWith(part)) rest = rest.slice(part.length);
    else return undefined;
  }
  return rest;
}

function clockOf(found: ReadonlyMap<string, string>, wrong: (why: string) => BuiltinError): Clock {
  const number = (...parts: readonly string[]): number | undefined => {
    const text = parts.map((part) => found.get(part)).find((one) => one !== undefined);
    return text === undefined ? undefined : Number(text);
  };
  const short = number('06');
  const year = number('2006') ?? (short === undefined ? 0 : short + (short >= 69 ? 1900 : 2000));
  const named = (found.get('January') ?? found.get('Jan'))?.slice(0, 3).toLowerCase();
  let month =
    named === undefined
      ? number('01', '1')
      : months.findIndex((name) => name.toLowerCase().startsWith(named)) + 1;
  let day = number('02', '_2', '2');
  const inYear = number('002', '__2');
  if (inYear !== undefined) {
    if (inYear < 1 || inYear > (isLeap(year) ? 366 : 365)) throw wrong('day of year out of range');
    const date = new Date(Date.UTC(isLeap(year) ? 2000 : 2001, 0, inYear));
    month ??= date.getUTCMonth() + 1;
    day ??= date.getUTCDate();
  }
  month ??= 1;
  day ??= 1;
  const half = (found.get('PM') ?? found.get('pm'))?.toUpperCase();
  const hour12 = number('03', '3');
  if (hour12 !== undefined && hour12 > 12) throw wrong('hour out of range');
  let hour = number('15') ?? hour12 ?? 0;
  if (half === 'PM' && hour < 12) hour += 12;
  else if (half === 'AM' && hour === 12) hour = 0;
  const [minute, second] = [number('04', '4') ?? 0, number('05', '5') ?? 0];
  if (month < 1 || month > 12) throw wrong('month out of range');
  if (day < 1 || day > daysIn(year, month)) throw wrong('day out of range');
  if (hour > 23) throw wrong('hour out of range');
  if (minute > 59) throw wrong('minute out of range');
  if (second > 59) throw wrong('second out of range');
  const nanosecond = Number((found.get('.') ?? '.').slice(1, 10).padEnd(9, '0'));
  return {
    year,
    month,
    day,
    hour,
    minute,
    second,
    nanosecond,
    offset: offsetOf(found),
    zone: found.get('MST') ?? 'UTC',
  };
}

function offsetOf(found: ReadonlyMap<string, string>): number {
  const numeric = found.get('-') ?? /^(?:GMT)?([+-]\d+)$/.exec(found.get('MST') ?? '')?.[1];
  if (numeric === undefined || numeric === 'Z') return 0;
  const digits = numeric.replaceAll(/\D/g, '');
  const [hours = 0, minutes = 0, seconds = 0] =
    digits.length < 2 ? [Number(digits)] : (digits.match(/\d\d/g) ?? []).map(Number);
  return (numeric.startsWith('-') ? -1 : 1) * (hours * 3600 + minutes * 60 + seconds);
}
