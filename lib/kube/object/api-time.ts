/** `metav1.Time`: RFC 3339, whole seconds. */
export function apiTime(wallMs: number): string {
  return `${new Date(wallMs).toISOString().slice(0, '2026-11-21T10:00:00'.length)}Z`;
}

/** `metav1.MicroTime`: RFC 3339 with six digits. */
export function apiMicroTime(wallMs: number): string {
  return new Date(wallMs).toISOString().replace('Z', '000Z');
}

/** Nanoseconds since 1970 of a time in RFC 3339, cut off at nine digits; undefined for an invalid time. */
export function apiTimeNs(text: string): bigint | undefined {
  const [, seconds, fraction = '', zone] =
    /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9})\d*)?(Z|[+-]\d\d:\d\d)$/.exec(text) ?? [];
  if (seconds === undefined || zone === undefined) return undefined;
  const ms = Date.parse(`${seconds}${zone}`);
  if (Number.isNaN(ms)) return undefined;
  return BigInt(ms) * 1_000_000n + BigInt(fraction.padEnd(9, '0'));
}
