// Bytes of protobuf by hand: tags, varints, and the envelope of Kubernetes.

export const varint = (value: number | bigint): Buffer => {
  let left = BigInt.asUintN(64, BigInt(value));
  const bytes: number[] = [];
  for (; left > 0x7fn; left >>= 7n) bytes.push(Number(left & 0x7fn) | 0x80);
  return Buffer.from([...bytes, Number(left)]);
};

export const tag = (number: number, wireType: number): Buffer =>
  varint((BigInt(number) << 3n) | BigInt(wireType));

/** A field that is a number. */
export const number = (field: number, value: number | bigint): Buffer =>
  Buffer.concat([tag(field, 0), varint(value)]);

/** A field that is a text, bytes, or a message of these parts. */
export const bytes = (field: number, ...parts: readonly (string | Buffer)[]): Buffer => {
  const content = Buffer.concat(parts.map((part) => (typeof part === 'string' ? Buffer.from(part) : part)));
  return Buffer.concat([tag(field, 2), varint(content.length), content]);
};

export const double = (field: number, value: number): Buffer => {
  const content = Buffer.alloc(8);
  content.writeDoubleLE(value);
  return Buffer.concat([tag(field, 1), content]);
};

/** A body: an object of this kind, whose message is made of these parts. */
export const body = (apiVersion: string, kind: string, ...parts: readonly Buffer[]): Buffer =>
  Buffer.concat([
    Buffer.from('k8s\0'),
    bytes(1, bytes(1, apiVersion), bytes(2, kind)),
    bytes(2, ...parts),
    bytes(3),
    bytes(4),
  ]);
