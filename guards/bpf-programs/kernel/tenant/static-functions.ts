/**
 * Makes all functions of an object file static, in its BTF (Documentation/bpf/btf.rst). The verifier checks a global function once, however
 * often it is called, so a few global functions that call each other in loops could run for hours. It follows static functions from each
 * call: a program that it accepts ends after a million instructions.
 */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

const HEADER_BYTES = 24;
const TYPE_BYTES = 12;
const FUNC = 12;
const STATIC = 0;
const GLOBAL = 1;

/** The size of the data after a type, by the type's kind: a fixed part, and a part for each member. */
const restOf: readonly (readonly [number, number])[] = [
  [0, 0],
  [4, 0], // int
  [0, 0],
  [12, 0], // array
  [0, 12], // struct
  [0, 12], // union
  [0, 8], // enum
  ...Array.from({ length: 6 }, () => [0, 0] as const), // forward, typedef, volatile, const, restrict, function
  [0, 8], // function prototype
  [4, 0], // variable
  [0, 12], // section
  [0, 0], // float
  [4, 0], // tag of a declaration
  [0, 0], // tag of a type
  [0, 12], // enum of 64 bits
];

/** Changes the BTF in place. @throws {RampartError} `DECODE` */
export function makeStatic(btf: Buffer): void {
  if (btf.length < HEADER_BYTES) throw malformed();
  const begin = btf.readUInt32LE(4) + btf.readUInt32LE(8);
  const end = begin + btf.readUInt32LE(12);
  if (end > btf.length) throw malformed();
  for (let at = begin; at < end;) {
    if (at + TYPE_BYTES > end) throw malformed();
    const info = btf.readUInt32LE(at + 4);
    const kind = (info >>> 24) & 0x1f;
    const count = info & 0xffff;
    const rest = restOf[kind];
    if (kind === 0 || rest === undefined) throw malformed();
    // For a function, this field has the linkage; for other kinds, the number of members.
    if (kind === FUNC && count === GLOBAL) btf.writeUInt16LE(STATIC, at + 4);
    at += TYPE_BYTES + rest[0] + rest[1] * count;
  }
}

function malformed(): RampartError {
  return new RampartError(errorCodes.DECODE, {
    what: 'cannot read the object file',
    why: 'its BTF is malformed',
  });
}
