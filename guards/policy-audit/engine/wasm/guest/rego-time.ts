/** Rego's `time`: times are integers of nanoseconds since 1970, in UTC or in a named time zone. */
import { parseGoDuration } from '../../../../../lib/cel/formats.ts';
import { type Builtin, BuiltinError, integerAt, ofTexts, operandError } from './builtin.ts';
import { type Clock, formatTime, layouts, parseTime, weekdayOf } from './rego-layout.ts';

const [nsPerSecond, nsPerMs, int64] = [1_000_000_000n, 1_000_000n, 2n ** 63n];

export const timeBuiltins: Readonly<Record<string, Builtin>> = {
  'time.now_ns': (_args, { now }) => now,
  'time.parse_rfc3339_ns': ofTexts((text = '') => instantOf(parseTime(layouts['RFC3339'] ?? '', text))),
  'time.parse_ns': ofTexts((layout = '', text = '') => instantOf(parseTime(layoutNamed(layout), text))),
  'time.parse_duration_ns': ofTexts((text = '') => {
    const nanoseconds = parseGoDuration(text);
    if (nanoseconds === undefined) throw new BuiltinError(`${JSON.stringify(text)} is not a duration`);
    return nanoseconds;
  }),
  'time.format': (args) => {
    const { clock, layout } = timeAt(args, 0);
    return formatTime(clock, layoutNamed(layout === '' ? 'RFC3339Nano' : layout));
  },
  'time.date': (args) => {
    const { year, month, day } = timeAt(args, 0).clock;
    return [year, month, day];
  },
  'time.clock': (args) => {
    const { hour, minute, second } = timeAt(args, 0).clock;
    return [hour, minute, second];
  },
  'time.weekday': (args) => weekdayOf(timeAt(args, 0).clock),
  'time.add_date': (args) => {
    const { clock, zone } = timeAt(args, 0);
    const [years, months, days] = [1, 2, 3].map((at) => Number(integerAt(args, at))) as [
      number,
      number,
      number,
    ];
    return inZone(
      { ...clock, year: clock.year + years, month: clock.month + months, day: clock.day + days },
      zone,
    );
  },
  'time.diff': (args) => {
    const [first, second] = [timeAt(args, 0), timeAt(args, 1)];
    const there = clockIn(second.ns, first.zone);
    return first.ns > second.ns ? difference(there, first.clock) : difference(first.clock, there);
  },
};

const layoutNamed = (layout: string): string =>
  Object.hasOwn(layouts, layout) ? (layouts[layout] ?? layout) : layout;

interface Time {
  readonly ns: bigint;
  readonly zone: string;
  readonly layout: string;
  readonly clock: Clock;
}

/** Parses a time: nanoseconds, or an array of nanoseconds, the name of a zone, and a layout. */
function timeAt(args: readonly unknown[], at: number): Time {
  const given = args[at];
  const [, zone = 'UTC', layout = ''] = Array.isArray(given) ? (given as unknown[]) : [given];
  if (typeof zone !== 'string' || typeof layout !== 'string')
    throw operandError(at, 'nanoseconds, or an array of nanoseconds, time zone and layout', given);
  const ns = Array.isArray(given) ? integerAt(given, 0) : integerAt(args, at);
  if (ns < -int64 || ns >= int64) throw new BuiltinError('the time is out of range');
  const named = zone === '' ? 'UTC' : zone;
  return { ns, zone: named, layout, clock: clockIn(ns, named) };
}

function clockIn(ns: bigint, zone: string): Clock {
  const ms = Number(floorDiv(ns, nsPerMs));
  const { offset, abbreviation } = zoneAt(ms, zone);
  const local = new Date(ms + offset * 1000);
  return {
    year: local.getUTCFullYear(),
    month: local.getUTCMonth() + 1,
    day: local.getUTCDate(),
    hour: local.getUTCHours(),
    minute: local.getUTCMinutes(),
    second: local.getUTCSeconds(),
    nanosecond: Number(ns - floorDiv(ns, nsPerSecond) * nsPerSecond),
    offset,
    zone: abbreviation,
  };
}

const floorDiv = (a: bigint, b: bigint): bigint => (a >= 0n ? a / b : -((-a + b - 1n) / b));

/** Seconds east of UTC. */
function zoneAt(ms: number, zone: string): { readonly offset: number; readonly abbreviation: string } {
  if (zone === 'UTC') return { offset: 0, abbreviation: 'UTC' };
  // Intl also accepts offsets, which Go does not accept as names of zones.
  if (/^[+-]/.test(zone)) throw new BuiltinError(`unknown time zone ${zone}`);
  const name = zone === 'Local' ? undefined : zone;
  try {
    const format = (timeZoneName: 'longOffset' | 'short'): string =>
      new Intl.DateTimeFormat('en-US', { timeZone: name, timeZoneName, hour: 'numeric' })
        .formatToParts(ms)
        .find(({ type }) => type === 'timeZoneName')?.value ?? '';
    const [, sign, hours = '0', minutes = '0', seconds = '0'] =
      /GMT(?:([+-])(\d\d):(\d\d)(?::(\d\d))?)?/.exec(format('longOffset')) ?? [];
    const size = Number(hours) * 3600 + Number(minutes) * 60 + Number(seconds);
    return { offset: sign === '-' ? -size : size, abbreviation: format('short') };
  } catch {
    throw new BuiltinError(`unknown time zone ${zone}`);
  }
}

/** Fields out of range carry over, as in Go: month 13 is January of the next year. */
function utcMs({ year, month, day, hour, minute, second }: Clock): number {
  const date = new Date(Date.UTC(2000, 0, 1, hour, minute, second));
  date.setUTCFullYear(year, month - 1, day);
  return date.getTime();
}

function inRange(ms: number, nanosecond: number): bigint {
  if (Number.isNaN(ms)) throw new BuiltinError('the time is out of range');
  const ns = BigInt(ms) * nsPerMs + BigInt(nanosecond);
  if (ns < -int64 || ns >= int64) throw new BuiltinError('the time is out of range');
  return ns;
}

const instantOf = (clock: Clock): bigint => inRange(utcMs(clock) - clock.offset * 1000, clock.nanosecond);

/** The instant at which clocks in the zone show this time. */
function inZone(clock: Clock, zone: string): bigint {
  const local = utcMs(clock);
  if (Number.isNaN(local)) throw new BuiltinError('the time is out of range');
  const guess = local - zoneAt(local, zone).offset * 1000;
  return inRange(local - zoneAt(guess, zone).offset * 1000, clock.nanosecond);
}

/** The difference in years, months, days, hours, minutes and seconds, from the earlier to the later time. */
function difference(from: Clock, to: Clock): number[] {
  const parts = [
    to.year - from.year,
    to.month - from.month,
    to.day - from.day,
    to.hour - from.hour,
    to.minute - from.minute,
    to.second - from.second,
  ] as [number, number, number, number, number, number];
  const daysInMonth = new Date(Date.UTC(2000, from.month, 0)).setUTCFullYear(from.year, from.month, 0);
  const sizes = [0, 12, new Date(daysInMonth).getUTCDate(), 24, 60, 60];
  for (let at = 5; at > 0; at--) {
    if ((parts[at] ?? 0) >= 0) continue;
    parts[at] = (parts[at] ?? 0) + (sizes[at] ?? 0);
    parts[at - 1] = (parts[at - 1] ?? 0) - 1;
  }
  return parts;
}
