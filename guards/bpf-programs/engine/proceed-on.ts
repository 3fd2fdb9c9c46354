/** Masks of return codes after which the next program of a chain runs. */
import { tcActions, type TcSpec, type XdpSpec } from '../spec-schema.ts';

/** `XDP_ABORTED` to `XDP_REDIRECT` (include/uapi/linux/bpf.h); `dispatcher_return` is libxdp's, bit 31. */
const xdpBits = { aborted: 0, drop: 1, pass: 2, tx: 3, redirect: 4, dispatcher_return: 31 } as const;

/** Bit 1 << action for each. */
export function xdpMask(actions: XdpSpec['proceedon']): number {
  return maskOf(actions.map((action) => xdpBits[action]));
}

/** Bit 1 << (action + 1) for each: `TC_ACT_UNSPEC` is -1. */
export function tcMask(actions: TcSpec['proceedon']): number {
  return maskOf(actions.map((action) => (action === 'dispatcher_return' ? 31 : tcActions.indexOf(action))));
}

function maskOf(bits: readonly number[]): number {
  // JavaScript's bit operators return a negative number if bit 31 is set.
  return bits.reduce((mask, bit) => mask | (1 << bit), 0) >>> 0;
}
