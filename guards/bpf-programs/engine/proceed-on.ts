/**
 * Masks of return codes after which the next program of a chain runs. A word's bit is its position in the list of its type: XDP's list is
 * ordered by number (include/uapi/linux/bpf.h), TC's starts at -1. The last word, libxdp's `dispatcher_return`, has bit 31.
 */
import { tcActions, type TcSpec, xdpActions, type XdpSpec } from '../spec-schema.ts';

export function xdpMask(actions: XdpSpec['proceedon']): number {
  return maskOf(actions, xdpActions);
}

export function tcMask(actions: TcSpec['proceedon']): number {
  return maskOf(actions, tcActions);
}

/** The words of a mask, with the list of the program's type. */
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
