/** Timestamps and durations (cel-spec, "List of Standard Definitions"). */
import { failure } from './failure.ts';
import { isTimestamp, parseGoDuration } from './formats.ts';
import { goQuote } from './go-text.ts';
import { charge } from './meter.ts';
import { toTime } from './operators.ts';
import type { Library } from './register.ts';
import { Duration, type Timestamp, timestampOf } from './values.ts';

const [timestamp, duration] = ['google.protobuf.Timestamp', 'google.protobuf.Duration'];
const dayMs = 86_400_000;

function toTimestamp(text: string): Timestamp {
  const time = isTimestamp(text) ? timestampOf(text) : undefined;
  if (time === undefined) throw failure(`parsing time ${goQuote(text)}: not a time of RFC 3339`);
  return toTime(time.nanoseconds, time.offset);
}

function toDuration(text: string): Duration {
  const nanoseconds = parseGoDuration(text);
  if (nanoseconds === undefined) throw failure(`time: invalid duration ${goQuote(text)}`);
  return new Duration(nanoseconds);
}

const clocks = new Map<string, Intl.DateTimeFormat>();
/** Converting to a time zone takes about as long as this many steps. */
const clockCost = 100;

function clockOf(zone: string): Intl.DateTimeFormat {
  const known = clocks.get(zone);
  if (known !== undefined) return known;
  if (clocks.size >= 500) clocks.clear();
  try {
    const clock = new Intl.DateTimeFormat('en-US', {
      // Expressions may omit the sign of an offset, which Intl requires.
      timeZone: /^\d/.test(zone) ? `+${zone}` : zone,
      hourCycle: 'h23',
      ...{ year: 'numeric', month: 'numeric', day: 'numeric' },
      ...{ hour: 'numeric', minute: 'numeric', second: 'numeric' },
    });
    clocks.set(zone, clock);
    return clock;
  } catch {
    throw failure(`unknown time zone ${zone}`);
  }
}

/** The time whose UTC fields are the local time in the zone. */
function localTime({ utc: time }: Timestamp, zone: string): Date {
  charge(clockCost);
  const fields = Object.fromEntries(
    clockOf(zone)
      .formatToParts(time)
      .map(({ type, value }) => [type, Number(value)]),
  );
  const { year = 0, month = 1, day = 1, hour = 0, minute = 0, second = 0 } = fields;
  const local = new Date(Date.UTC(2000, month - 1, day, hour, minute, second, time.getUTCMilliseconds()));
  local.setUTCFullYear(year, month - 1, day);
  return local;
}

const fields: Readonly<Record<string, (time: Date) => number>> = {
  getFullYear: (time) => time.getUTCFullYear(),
  getMonth: (time) => time.getUTCMonth(),
  getDate: (time) => time.getUTCDate(),
  getDayOfMonth: (time) => time.getUTCDate() - 1,
  getDayOfWeek: (time) => time.getUTCDay(),
  getDayOfYear: (time) => Math.floor((time.getTime() - new Date(time).setUTCMonth(0, 1)) / dayMs),
  getHours: (time) => time.getUTCHours(),
  getMinutes: (time) => time.getUTCMinutes(),
  getSeconds: (time) => time.getUTCSeconds(),
  getMilliseconds: (time) => time.getUTCMilliseconds(),
};

const units: Readonly<Record<string, bigint>> = {
  getHours: 3_600_000_000_000n,
  getMinutes: 60_000_000_000n,
  getSeconds: 1_000_000_000n,
  getMilliseconds: 1_000_000n,
};

export function addTime(library: Library): void {
  for (const [name, field] of Object.entries(fields)) {
    library
      .add(`${timestamp}.${name}(): int`, (time: Timestamp) => BigInt(field(time.utc)))
      .add(`${timestamp}.${name}(string): int`, (time: Timestamp, zone: string) =>
        BigInt(field(localTime(time, zone))),
      );
  }
  for (const [name, unit] of Object.entries(units)) {
    library.add(`${duration}.${name}(): int`, ({ nanoseconds }: Duration) => nanoseconds / unit);
  }
  library
    .add(`timestamp(string): ${timestamp}`, toTimestamp)
    .add(`timestamp(int): ${timestamp}`, (seconds: bigint) => toTime(seconds * 1_000_000_000n))
    .add(`timestamp(${timestamp}): ${timestamp}`, (time: Timestamp) => time)
    .add(`duration(string): ${duration}`, toDuration)
    .add(`duration(${duration}): ${duration}`, (given: Duration) => given);
}
