/** The standard functions (cel-spec, "List of Standard Definitions"): sizes and conversions. */
import { isUtf8 } from 'node:buffer';
import { failure } from './failure.ts';
import { durationText } from './format-text.ts';
import { goNumber, goQuote } from './go-text.ts';
import { toInt, toUint } from './operators.ts';
import type { Library } from './register.ts';
import type { Duration, Timestamp, Uint } from './values.ts';

/** The length in code points. */
function textSize(text: string): bigint {
  return BigInt(/[\ud800-\udfff]/.test(text) ? Array.from(text).length : text.length);
}

const mapSize = (map: object): bigint => BigInt(map instanceof Map ? map.size : Object.keys(map).length);

function parseNumber(text: string, kind: 'Int' | 'Uint'): bigint {
  const pattern = kind === 'Int' ? /^[+-]?\d+$/ : /^\d+$/;
  const value = text.length <= 20 && pattern.test(text) ? BigInt(text.replace(/^\+/, '')) : undefined;
  const kept = value !== undefined && (kind === 'Int' ? BigInt.asIntN(64, value) : BigInt.asUintN(64, value));
  if (value !== undefined && kept === value) return value;
  throw failure(`strconv.Parse${kind}: parsing ${goQuote(text)}: invalid syntax`);
}

function whole(value: number, limit: number, overflow: string): bigint {
  if (Math.abs(value) < limit) return BigInt(Math.trunc(value));
  throw failure(overflow);
}

const named: ReadonlyMap<string, number> = new Map([
  ['inf', Infinity],
  ['infinity', Infinity],
  ['nan', NaN],
]);

function toDouble(text: string): number {
  if (/^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i.test(text)) return Number(text);
  const size = named.get(text.replace(/^[+-]/, '').toLowerCase());
  if (size !== undefined) return text.startsWith('-') ? -size : size;
  throw failure(`strconv.ParseFloat: parsing ${goQuote(text)}: invalid syntax`);
}

const booleans: ReadonlyMap<string, boolean> = new Map([
  ...['1', 't', 'T', 'true', 'TRUE', 'True'].map((text) => [text, true] as const),
  ...['0', 'f', 'F', 'false', 'FALSE', 'False'].map((text) => [text, false] as const),
]);

function toBool(text: string): boolean {
  const value = booleans.get(text);
  if (value === undefined) throw failure(`strconv.ParseBool: parsing ${goQuote(text)}: invalid syntax`);
  return value;
}

function toText(bytes: Uint8Array): string {
  if (!isUtf8(bytes)) throw failure('invalid UTF-8 in bytes, cannot convert to string');
  return Buffer.from(bytes).toString();
}

const same = (value: unknown): unknown => value;

export function addStandard(library: Library): void {
  for (const [type, size] of [
    ['string', textSize],
    ['bytes', (bytes: Uint8Array) => BigInt(bytes.length)],
    ['list', (list: readonly unknown[]) => BigInt(list.length)],
    ['map', mapSize],
  ] as const) {
    library.add(`size(${type}): int`, size).add(`${type}.size(): int`, size);
  }
  for (const type of ['bool', 'int', 'uint', 'double', 'string', 'bytes', 'dyn']) {
    library.add(`${type}(${type}): ${type}`, same);
  }
  library
    .add('type(dyn): type', (value: unknown) => library.typeOf(value))
    .add('bool(string): bool', toBool)
    .add('bytes(string): bytes', (text: string) => new Uint8Array(Buffer.from(text)))
    .add('double(int): double', Number)
    .add('double(uint): double', ({ value }: Uint) => Number(value))
    .add('double(string): double', toDouble)
    .add('int(uint): int', ({ value }: Uint) => toInt(value))
    .add('int(double): int', (value: number) => whole(value, 2 ** 63, 'integer overflow'))
    .add('int(string): int', (text: string) => parseNumber(text, 'Int'))
    .add('int(google.protobuf.Timestamp): int', (time: Timestamp) =>
      BigInt(Math.floor(time.utc.getTime() / 1_000)),
    )
    .add('uint(int): uint', toUint)
    .add('uint(double): uint', (value: number) => toUint(whole(value, 2 ** 64, 'unsigned integer overflow')))
    .add('uint(string): uint', (text: string) => toUint(parseNumber(text, 'Uint')))
    .add('string(bool): string', String)
    .add('string(int): string', String)
    .add('string(uint): string', ({ value }: Uint) => String(value))
    .add('string(double): string', goNumber)
    .add('string(bytes): string', toText)
    .add('string(google.protobuf.Timestamp): string', String)
    .add('string(google.protobuf.Duration): string', (duration: Duration) => durationText(duration));
}
