/**
 * Counts folded accesses: the rate limit's buckets in the kernel count upwards, the ledger turns that into
 * "since the last record" and finds the ones that no later record reported.
 */
import type { BpfMap } from '../ebpf/map.ts';
import { bucket, bucketKey } from './layout.ts';

/** Folded accesses that no record will report: the process stopped, or has fewer accesses now. */
export interface Folded {
  readonly targetId: number;
  readonly pid: number;
  readonly mask: number;
  readonly count: number;
}

/** The result of one {@link FoldLedger.sweep}. */
interface Sweep {
  readonly found: readonly Folded[];
  /** Buckets that have folded something and are not quiet yet: another sweep is needed. */
  readonly waiting: number;
}

const bucketName = (bornNs: bigint, pid: number, targetId: number, mask: number): string =>
  `${bornNs}:${pid}:${targetId}:${mask}`;

/** The counts reported so far, by bucket. Has an entry only for buckets that folded something. */
export class FoldLedger {
  readonly #reported = new Map<string, number>();
  /** Buckets removed by the last sweep: one of their records may not have been read by then. */
  readonly #swept: string[] = [];

  /**
   * How much a record's running total exceeds that of the last record. Never negative, although records of two
   * CPUs may come out of order.
   */
  sinceLast(bornNs: bigint, pid: number, targetId: number, mask: number, total: number): number {
    if (total === 0) return 0;
    const name = bucketName(bornNs, pid, targetId, mask);
    const before = this.#reported.get(name) ?? 0;
    if (total <= before) return 0;
    this.#reported.set(name, total);
    return total - before;
  }

  /**
   * Removes buckets that have been quiet for `quietNs` from the kernel, and returns those of their folded accesses
   * that no record reported. A quiet bucket has all its tokens again, so removing it lets no more accesses through.
   * Read the records in the ring first, so that their accesses are not reported again. Buckets that the kernel has
   * evicted meanwhile (it keeps the latest 16,384) are forgotten.
   */
  sweep(buckets: BpfMap, nowNs: bigint, quietNs: bigint): Sweep {
    const found: Folded[] = [];
    const waiting = new Set<string>();
    for (const name of this.#swept.splice(0)) this.#reported.delete(name);
    // Keys first: deleting the current key would restart the kernel's walk.
    for (const key of [...buckets.keys()]) {
      const now = buckets.lookup(key);
      if (now === undefined) continue;
      const seen = new DataView(now.buffer);
      if (seen.getUint32(bucket.folded, true) === 0) continue;
      const keyView = new DataView(key.buffer);
      const pid = keyView.getUint32(bucketKey.pid, true);
      const targetId = keyView.getUint32(bucketKey.targetId, true);
      const mask = keyView.getUint16(bucketKey.maskAndVerdict, true);
      if (seen.getBigUint64(bucket.nextNs, true) + quietNs > nowNs) {
        waiting.add(bucketName(seen.getBigUint64(bucket.bornNs, true), pid, targetId, mask));
        continue;
      }
      const last = buckets.take(key);
      if (last === undefined) continue;
      const taken = new DataView(last.buffer);
      const bornNs = taken.getBigUint64(bucket.bornNs, true);
      const count = this.sinceLast(bornNs, pid, targetId, mask, taken.getUint32(bucket.folded, true));
      this.#swept.push(bucketName(bornNs, pid, targetId, mask));
      if (count > 0) found.push({ targetId, pid, mask, count });
    }
    const swept = new Set(this.#swept);
    for (const name of this.#reported.keys()) {
      if (!waiting.has(name) && !swept.has(name)) this.#reported.delete(name);
    }
    return { found, waiting: waiting.size };
  }
}
