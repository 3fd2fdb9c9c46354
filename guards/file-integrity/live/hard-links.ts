/**
 * Other names of a file, as far as a baseline has them: its content changes under all of them, and the kernel tells of one.
 */
import { setOf } from '../model/attributes.ts';
import type { Baseline } from '../database/read-baseline.ts';
import type { ByteString, Entry } from '../model/entry.ts';

/** Names that are remembered, at some 150 bytes each. */
const mostNames = 50_000;
const needed = setOf('i', 'n');

export class HardLinks {
  readonly #baseline: Baseline;
  #names: Map<bigint, ByteString[]> | undefined;

  constructor(baseline: Baseline) {
    this.#baseline = baseline;
  }

  /** The names in the baseline of the file with this entry, its own too; none where it has but one. */
  async namesOf(
    { type, attributes, linkCount, inode }: Entry,
    signal: AbortSignal,
  ): Promise<readonly ByteString[]> {
    if (type === 'd' || (attributes & needed) !== needed || linkCount < 2) return [];
    this.#names ??= await this.#read(signal);
    return this.#names.get(inode) ?? [];
  }

  /** The whole baseline is read for it, so not before a file with several names changes. */
  async #read(signal: AbortSignal): Promise<Map<bigint, ByteString[]>> {
    const names = new Map<bigint, ByteString[]>();
    let count = 0;
    for await (const batch of this.#baseline.entries(signal)) {
      for (const { type, attributes, linkCount, inode, path } of batch) {
        if (type === 'd' || (attributes & needed) !== needed || linkCount < 2 || count >= mostNames) continue;
        count++;
        const known = names.get(inode);
        if (known === undefined) names.set(inode, [path]);
        else known.push(path);
      }
    }
    return names;
  }
}
