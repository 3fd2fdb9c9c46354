/**
 * Masks of return codes after which the next program of a chain runs. Each word has the bit of its place in the list of its type: XDP's
 * are by number (include/uapi/linux/bpf.h), TC's from -1 on. The last is libxdp's `dispatcher_return`, bit 31.
 */
import { tcActions, type TcSpec, xdpActions, type XdpSpec } from '../spec-schema.ts';

export function xdpMask(actions: XdpSpec['proceedon']): number {
  return maskOf(actions, xdpActions);
}

export function tcMask(actions: TcSpec['proceedon']): number {
  return maskOf(actions, tcActions);
}

/** The words of a mask, by the list of a type. */
export function actionsOf(mask: number, words: readonly string[]): string[] {
  return words.filter((_, index) => ((mask >>> bitOf(index, words)) & 1) === 1);
}

function maskOf<Word extends string>(actions: readonly Word[], words: readonly Word[]): number {
  // JavaScript's bit operators return a negative number if bit 31 is set.
  return actions.reduce((mask, action) => mask | (1 << bitOf(words.indexOf(action), words)), 0) >>> 0;
}

function bitOf(index: number, { length }: readonly string[]): number {
  return index === length - 1 ? 31 : index;
}
