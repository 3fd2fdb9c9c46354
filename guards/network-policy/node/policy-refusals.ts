/**
 * How many packets were refused, or would be, because of each policy: computed from the kernel's counters of pods,
 * and from the policies that isolate the pods.
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

/** Counts from the first call on: an earlier process has already counted what the counters contain then. */
export class PolicyRefusals {
  #before: ReadonlyMap<string, Counted> | undefined;
  #sums: ReadonlyMap<string, PolicyRefused> = new Map();

  /**
   * Adds the increase of each counter since the last call to the policies that isolate its pod now.
   *
   * @returns a sum for each policy that isolates one of these pods; the sums of other policies are forgotten.
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

/** A counter that has decreased was created again, and so counts from 0. */
function since({ packets, bytes }: Counted, before: Counted): Counted {
  if (packets < before.packets || bytes < before.bytes) return { packets, bytes };
  return { packets: packets - before.packets, bytes: bytes - before.bytes };
}
