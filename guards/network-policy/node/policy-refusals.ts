/**
 * How many packets were refused, or would be, because of each policy: from the counters of pods, which the kernel has, and the policies that isolate them.
 *
 * A packet is refused if none of the policies that isolate the pod allows it, so it counts for each of them.
 */
import {
  type Direction,
  type NodeRules,
  type PolicyKey,
  policyRulesKey,
  type RefusalVerdict,
} from '../engine/rules.ts';
import type { Refused } from '../dataplane/dataplane.ts';

export interface PolicyRefused {
  readonly policy: PolicyKey;
  readonly direction: Direction;
  readonly verdict: RefusalVerdict;
  readonly packets: number;
  readonly bytes: number;
}

type Counted = Pick<Refused, 'bytes' | 'packets'>;

const none: Counted = { packets: 0, bytes: 0 };

/** Counts from the first call on: what the counters have then, an earlier process has counted. */
export class PolicyRefusals {
  #before: ReadonlyMap<string, Counted> | undefined;
  #sums: ReadonlyMap<string, PolicyRefused> = new Map();

  /**
   * Adds what the counters have more than at the last call to the policies that isolate their pods now.
   *
   * @returns a sum for each policy that isolates one of these pods; that of another is forgotten.
   */
  add(counters: readonly Refused[], { pods }: Pick<NodeRules, 'pods'>): readonly PolicyRefused[] {
    const now = new Map<string, Counted>();
    const sums = new Map<string, PolicyRefused>();
    for (const counter of counters) {
      const { pod, direction, verdict } = counter;
      if (pod === undefined) continue;
      const key = `${verdict} ${direction} ${pod}`;
      now.set(key, counter);
      const more = this.#before === undefined ? none : since(counter, this.#before.get(key) ?? none);
      for (const policy of pods.get(pod)?.[direction] ?? []) {
        const of = `${verdict} ${policyRulesKey(direction, policy)}`;
        const sum = sums.get(of) ?? this.#sums.get(of) ?? none;
        sums.set(of, {
          ...{ policy, direction, verdict },
          packets: sum.packets + more.packets,
          bytes: sum.bytes + more.bytes,
        });
      }
    }
    this.#before = now;
    this.#sums = sums;
    return [...sums.values()];
  }
}

/** A counter that has less than before was recreated, and counts from 0. */
function since({ packets, bytes }: Counted, before: Counted): Counted {
  if (packets < before.packets || bytes < before.bytes) return { packets, bytes };
  return { packets: packets - before.packets, bytes: bytes - before.bytes };
}
