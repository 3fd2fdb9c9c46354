/**
 * The string formats that the API server checks. All others are ignored, including `int32` and the like
 * (apiextensions-apiserver `pkg/apiserver/validation/formats.go`; kubernetes/kubernetes issue 136091), and so are formats
 * of books, cards, colours and identifiers, which no resource uses. Each format accepts the same texts as in kube-openapi
 * `pkg/validation/strfmt`.
 */
import { isIP } from 'node:net';

const uuidOf = (version: string, variant: string): RegExp =>
  new RegExp(`^[0-9a-f]{8}-?[0-9a-f]{4}-?${version}[0-9a-f]{3}-?${variant}[0-9a-f]{3}-?[0-9a-f]{12}$`, 'i');

const anyUuid = uuidOf('[0-9a-f]', '[0-9a-f]');
const uuid3 = uuidOf('3', '[0-9a-f]');
const uuid4 = uuidOf('4', '[89ab]');
const uuid5 = uuidOf('5', '[89ab]');

const byName: Readonly<Record<string, (text: string) => boolean>> = {
  uri: isUri,
  email: isEmail,
  hostname: isHostname,
  ipv4: (text) => isIP(text) === 4,
  ipv6: (text) => isIP(text) === 6 && !text.includes('%'),
  cidr: isCidr,
  mac: isMac,
  uuid: (text) => anyUuid.test(text),
  uuid3: (text) => uuid3.test(text),
  uuid4: (text) => uuid4.test(text),
  uuid5: (text) => uuid5.test(text),
  byte: isBase64,
  password: () => true,
  date: isDate,
  duration: (text) => parseDuration(text) !== undefined,
  datetime: isDateTime,
  k8sshortname: (text) => text.length <= 63 && /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(text),
  k8slongname: (text) =>
    text.length <= 253 && text.split('.').every((part) => /^[a-z0-9](?:[-a-z0-9]*[a-z0-9])?$/.test(part)),
};

/** The check of a format; `date-time` and `datetime` are the same. `undefined` for a format that is ignored. */
export function formatCheck(format: string): ((text: string) => boolean) | undefined {
  const name = format.replaceAll('-', '');
  return Object.hasOwn(byName, name) ? byName[name] : undefined;
}

/** Go's `url.ParseRequestURI`: an absolute URI or an absolute path, without a fragment. */
export function isUri(text: string): boolean {
  // oxlint-disable-next-line no-control-regex -- control characters must be found
  return !/[\u0000-\u0020\u007f]/.test(text) && isRequestUri(text);
}

function isRequestUri(text: string): boolean {
  if (/%(?![0-9a-fA-F]{2})/.test(text)) return false;
  if (text.startsWith('/')) return true;
  const scheme = /^[a-zA-Z][a-zA-Z0-9+.-]*:/.exec(text);
  if (scheme === null) return text === '*';
  const rest = text.slice(scheme[0].length);
  if (!rest.startsWith('//')) return true;
  const authority = rest.slice(2).split(/[/?]/, 1)[0] ?? '';
  const host = authority.slice(authority.lastIndexOf('@') + 1);
  if (host.startsWith('[')) return /^\[[0-9a-fA-F:.]+(?:%25[^\]]+)?\](?::\d*)?$/.test(host);
  const port = host.indexOf(':');
  return (port < 0 || /^\d*$/.test(host.slice(port + 1))) && !/[[\]<>"#\\^`{|}]/.test(host);
}

/** One address as Go's `mail.ParseAddress` reads it: bare, or after a name in angle brackets. */
function isEmail(text: string): boolean {
  const bracketed = /^[^<>@]*<([^<>]+)>\s*$/.exec(text);
  const address = (bracketed?.[1] ?? text).trim();
  const at = address.lastIndexOf('@');
  if (at <= 0 || address.length > 1_024) return false;
  const [local, domain] = [address.slice(0, at), address.slice(at + 1)];
  const quoted = local.startsWith('"') && local.endsWith('"') && local.length > 2;
  if (!quoted && !isDotAtom(local)) return false;
  return isDotAtom(domain) || /^\[[^\][\\]+\]$/.test(domain);
}

function isDotAtom(text: string): boolean {
  return text.split('.').every((part) => /^[A-Za-z0-9!#$%&'*+/=?^_`{|}~\u0080-\u{10ffff}-]+$/u.test(part));
}

function isHostname(text: string): boolean {
  if (text.length === 0 || Buffer.byteLength(text) > 255) return false;
  const labels = text.split('.');
  const last = labels.at(-1) ?? '';
  const wellFormed = labels.every(
    (label) =>
      Buffer.byteLength(label) <= 63 &&
      /^[a-zA-Z0-9\p{S}\p{L}](?:[a-zA-Z0-9\p{S}\p{L}-]*[a-zA-Z0-9\p{S}\p{L}])?$/u.test(label),
  );
  // The last label of a name with dots has at least two characters and no two hyphens in a row.
  return wellFormed && !last.includes('--') && (labels.length === 1 || last.length > 1);
}

function isCidr(text: string): boolean {
  const [address = '', prefix = '', ...rest] = text.split('/');
  const version = isIP(address);
  if (version === 0 || address.includes('%') || rest.length > 0 || !/^\d{1,3}$/.test(prefix)) return false;
  return (prefix === '0' || !prefix.startsWith('0')) && Number(prefix) <= (version === 4 ? 32 : 128);
}

/** Go's `net.ParseMAC`: 6, 8 or 20 bytes, separated by colons or hyphens, or in groups of four digits with dots. */
function isMac(text: string): boolean {
  for (const [separator, digits] of [
    [':', 2],
    ['-', 2],
    ['.', 4],
  ] as const) {
    const groups = text.split(separator);
    const bytes = (groups.length * digits) / 2;
    if (![6, 8, 20].includes(bytes)) continue;
    if (groups.every((group) => group.length === digits && /^[0-9a-fA-F]+$/.test(group))) return true;
  }
  return false;
}

function isBase64(text: string): boolean {
  return text.length > 0 && text.length % 4 === 0 && /^[A-Za-z0-9+/]+={0,2}$/.test(text);
}

const daysInMonth = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];

/** RFC 3339 `full-date`. */
function isDate(text: string): boolean {
  const match = /^(\d{4})-(\d{2})-(\d{2})$/.exec(text);
  if (match === null) return false;
  const [year, month, day] = match.slice(1).map(Number) as [number, number, number];
  const leap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0);
  const last = month === 2 && leap ? 29 : (daysInMonth[month - 1] ?? 0);
  return month >= 1 && month <= 12 && day >= 1 && day <= last;
}

/** Go's `time.Parse` with RFC 3339. strfmt's `date-time` also accepts lower-case letters and leap seconds. */
export function isTimestamp(text: string): boolean {
  return isDateTime(text) && !/[tz]|:60/.test(text);
}

/** RFC 3339 `date-time`; a leap second is accepted. */
export function isDateTime(text: string): boolean {
  const match = /^(\d{4}-\d{2}-\d{2})[Tt](\d{2}):(\d{2}):(\d{2})(?:\.\d+)?(?:[Zz]|[+-](\d{2}):(\d{2}))$/.exec(
    text,
  );
  if (match === null || !isDate(match[1] ?? '')) return false;
  const [hour = 0, minute = 0, second = 0] = match.slice(2, 5).map(Number);
  return hour < 24 && minute < 60 && second <= 60 && Number(match[5] ?? 0) < 24 && Number(match[6] ?? 0) < 60;
}

const nanosecondsPer: Readonly<Record<string, number>> = {
  ns: 1,
  us: 1e3,
  µs: 1e3,
  μs: 1e3,
  ms: 1e6,
  s: 1e9,
  m: 60e9,
  h: 3_600e9,
};

const wordUnits: ReadonlyMap<string, number> = new Map(
  [
    [['nanosecond', 'nanoseconds', 'nanos', 'nano', 'ns'], 1],
    [['microsecond', 'microseconds', 'micros', 'micro', 'us', 'µs'], 1e3],
    [['millisecond', 'milliseconds', 'millis', 'milli', 'ms'], 1e6],
    [['second', 'seconds', 'secs', 'sec', 's'], 1e9],
    [['minute', 'minutes', 'mins', 'min', 'm'], 60e9],
    [['hour', 'hours', 'hrs', 'hr', 'h'], 3_600e9],
    [['day', 'days', 'd'], 86_400e9],
    [['week', 'weeks', 'wks', 'wk', 'w'], 604_800e9],
  ].flatMap(([names, nanoseconds]) =>
    (names as string[]).map((name) => [name, nanoseconds as number] as const),
  ),
);

/**
 * A duration as Go's `time.ParseDuration` reads it ("1h30m", "-2.5s"), or in the longer form of strfmt ("2 days").
 *
 * @returns nanoseconds, exact up to 2^53, `undefined` for anything else.
 */
export function parseDuration(text: string): number | undefined {
  const nanoseconds = parseGoDuration(text);
  if (nanoseconds !== undefined) return Number(nanoseconds);
  if (text.length > maxDurationLength) return undefined;
  const long = /^\s*(\d+)\s*([a-zµ]+)\s*$/i.exec(text);
  const unit = wordUnits.get((long?.[2] ?? '').toLowerCase());
  return long === null || unit === undefined ? undefined : Number(long[1]) * unit;
}

// Longer than any meaningful duration. Bounded, because the regular expressions below do not take linear time.
const maxDurationLength = 256;

/** Go's `time.ParseDuration`, in nanoseconds; fractions of a nanosecond are cut off. */
export function parseGoDuration(text: string): bigint | undefined {
  if (text.length > maxDurationLength) return undefined;
  const body = text.replace(/^[+-]/, '');
  if (body === '0') return 0n;
  if (!/^(?:(?:\d+\.?\d*|\.\d+)(?:ns|us|µs|μs|ms|s|m|h))+$/.test(body)) return undefined;
  let total = 0n;
  for (const [, whole = '', fraction = '', unit = ''] of body.matchAll(
    /(\d*)\.?(\d*)(ns|us|µs|μs|ms|s|m|h)/g,
  )) {
    const size = BigInt(nanosecondsPer[unit] ?? 0);
    total += BigInt(whole) * size + (BigInt(fraction) * size) / 10n ** BigInt(fraction.length);
  }
  const signed = text.startsWith('-') ? -total : total;
  return BigInt.asIntN(64, signed) === signed ? signed : undefined;
}
