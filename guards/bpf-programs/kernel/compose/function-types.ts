/**
 * BTF made by us (Documentation/bpf/btf.rst): functions that take nothing known and return an int. Static ones the verifier follows
 * from their caller, so that it needs to know no more.
 */

import { btfOf } from '../../../../lib/ebpf/kernel-types.ts';

const kind = { INT: 1 << 24, FUNC: 12 << 24, FUNC_PROTO: 13 << 24 } as const;
/** BTF_INT_SIGNED, of 32 bits. */
const SIGNED_32 = (1 << 24) | 32;
/** Type ids: the int, and the prototype behind it. */
const PROTOTYPE = 2;
const STATIC = 0;

/** @returns raw BTF, and the type's id of each name. */
export function functionTypes(names: readonly string[]): {
  readonly bytes: Uint8Array;
  readonly ids: readonly number[];
} {
  let strings = '\0int\0';
  const types = [strings.indexOf('int'), kind.INT, 4, SIGNED_32, 0, kind.FUNC_PROTO, 1];
  const ids = names.map((name, index) => {
    types.push(strings.length, kind.FUNC | STATIC, PROTOTYPE);
    strings += `${name.replaceAll(/\W/g, '_')}\0`;
    return PROTOTYPE + 1 + index;
  });
  const typeBytes = Buffer.from(new Uint32Array(types).buffer);
  return { bytes: btfOf([typeBytes], [Buffer.from(strings, 'latin1')]), ids };
}
