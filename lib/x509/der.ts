/** The distinguished encoding rules of ASN.1 (ITU-T X.690), as far as a certificate needs them. */

const tags = {
  boolean: 0x01,
  integer: 0x02,
  bitString: 0x03,
  octetString: 0x04,
  oid: 0x06,
  utf8String: 0x0c,
  utcTime: 0x17,
  generalizedTime: 0x18,
  sequence: 0x30,
  set: 0x31,
};

/** Any element: tag, length, content. */
export function element(tag: number, ...content: readonly Uint8Array[]): Buffer {
  const body = Buffer.concat(content);
  return Buffer.concat([Buffer.from([tag]), encodedLength(body.length), body]);
}

function encodedLength(length: number): Buffer {
  if (length < 0x80) return Buffer.from([length]);
  const bytes: number[] = [];
  for (let rest = length; rest > 0; rest = Math.floor(rest / 256)) bytes.unshift(rest % 256);
  return Buffer.from([0x80 | bytes.length, ...bytes]);
}

export function sequence(...elements: readonly Uint8Array[]): Buffer {
  return element(tags.sequence, ...elements);
}

export function set(...elements: readonly Uint8Array[]): Buffer {
  return element(tags.set, ...elements);
}

/** `[number]` around an element. */
export function explicit(number: number, content: Uint8Array): Buffer {
  return element(0xa0 | number, content);
}

/** `[number]` in place of the tag of an element that is not a sequence. */
export function implicit(number: number, content: Uint8Array): Buffer {
  return element(0x80 | number, content);
}

export function boolean(value: boolean): Buffer {
  return element(tags.boolean, Buffer.from([value ? 0xff : 0]));
}

/** A number that is not negative, from its bytes, most significant first. */
export function unsignedInteger(bytes: Uint8Array): Buffer {
  let start = 0;
  while (start < bytes.length - 1 && bytes[start] === 0) start++;
  const digits = bytes.subarray(start);
  // A set highest bit would make it negative.
  const sign = (digits[0] ?? 0) >= 0x80 || digits.length === 0 ? [0] : [];
  return element(tags.integer, Buffer.from(sign), digits);
}

/** @param bits numbers of bits in the first byte; 0 is the most significant, as in X.509. */
export function namedBits(bits: readonly number[]): Buffer {
  const last = Math.max(...bits);
  const bytes = Buffer.alloc((last >> 3) + 1);
  for (const bit of bits) bytes[bit >> 3] = (bytes[bit >> 3] ?? 0) | (0x80 >> (bit & 7));
  return bitString(bytes, 7 - (last & 7));
}

export function bitString(bytes: Uint8Array, unusedBits = 0): Buffer {
  return element(tags.bitString, Buffer.from([unusedBits]), bytes);
}

export function octetString(bytes: Uint8Array): Buffer {
  return element(tags.octetString, bytes);
}

export function utf8String(text: string): Buffer {
  return element(tags.utf8String, Buffer.from(text, 'utf8'));
}

/** @param dotted such as `2.5.4.3`. */
export function oid(dotted: string): Buffer {
  const [first = 0, second = 0, ...rest] = dotted.split('.').map(Number);
  const bytes: number[] = [];
  for (const arc of [first * 40 + second, ...rest]) {
    const groups = [arc & 0x7f];
    for (let left = arc >>> 7; left > 0; left >>>= 7) groups.unshift((left & 0x7f) | 0x80);
    bytes.push(...groups);
  }
  return element(tags.oid, Buffer.from(bytes));
}

/** A time in whole seconds: UTCTime up to 2049, GeneralizedTime from then on (RFC 5280, 4.1.2.5). */
export function time(date: Date): Buffer {
  const digits = `${date.toISOString().slice(0, 19).replaceAll(/[-T:]/g, '')}Z`;
  return date.getUTCFullYear() < 2050
    ? element(tags.utcTime, Buffer.from(digits.slice(2)))
    : element(tags.generalizedTime, Buffer.from(digits));
}
