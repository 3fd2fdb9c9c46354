/**
 * Values of global variables as people write them: lists of integers, or base64.
 *
 * @module
 */

/** No variable of a program that the kernel takes is larger. */
const MAX_BYTES = 1 << 20;
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

export type GlobalData =
  | { readonly values: Readonly<Record<string, Uint8Array>> }
  /** A whole sentence that names the field. */
  | { readonly problem: string };

export function readGlobalData(written: Readonly<Record<string, unknown>> = {}): GlobalData {
  const values: Record<string, Uint8Array> = {};
  for (const [name, value] of Object.entries(written)) {
    const bytes = bytesOf(value);
    if (typeof bytes === 'string') return { problem: `spec.globaldata.${name} ${bytes}.` };
    values[name] = bytes;
  }
  return { values };
}

/** The bytes, or what is wrong. */
function bytesOf(value: unknown): Uint8Array | string {
  if (typeof value === 'string') {
    if (!base64.test(value))
      return 'is not base64; write the bytes in base64 or as a list of integers: [1, 0, 0, 0]';
    const bytes = Buffer.from(value, 'base64');
    return checked(bytes);
  }
  if (!Array.isArray(value)) return 'is neither base64 nor a list of integers, such as [1, 0, 0, 0]';
  const wrong = value.findIndex((byte) => !Number.isInteger(byte) || byte < 0 || byte > 255);
  if (wrong !== -1) {
    return `has ${JSON.stringify(value[wrong])} at place ${wrong}; each item is one byte, 0 to 255, in the byte order of the node`;
  }
  return checked(Uint8Array.from(value as readonly number[]));
}

function checked(bytes: Uint8Array): Uint8Array | string {
  if (bytes.length === 0) return 'is empty; leave it out to keep the value of the object file';
  return bytes.length > MAX_BYTES ? `has ${bytes.length} bytes; the maximum is ${MAX_BYTES}` : bytes;
}
