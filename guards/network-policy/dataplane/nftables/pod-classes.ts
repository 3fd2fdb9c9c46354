/**
 * Pods that are isolated by the same policies in a direction share a chain; those of one Deployment always do.
 * Fewer chains matter because the kernel walks all of them on each change
 * (docs/decisions/0024-chains-of-classes.md).
 */
import type { Direction, LocalPod, PolicyKey, RefusalVerdict } from '../../engine/rules.ts';
import { classChain, directions } from './names.ts';
import type { Verdict } from './rule.ts';

export interface PodClass {
  /** Name of the chain. */
  readonly name: string;
  readonly goto: Verdict;
  readonly direction: Direction;
  readonly policies: readonly PolicyKey[];
  /** The fate of packets that no policy allows. */
  readonly verdict: RefusalVerdict;
}

/** Caches classes: a change affects one pod of a node, so the names of the other pods' classes need not be hashed again. */
const known = { ingress: new WeakMap<LocalPod, PodClass>(), egress: new WeakMap<LocalPod, PodClass>() };

/** The pod's class; undefined if the pod is not isolated in this direction. */
export function classOf(pod: LocalPod, direction: Direction): PodClass | undefined {
  const policies = pod[direction];
  if (policies === undefined) return undefined;
  let of = known[direction].get(pod);
  if (of === undefined) {
    const verdict = pod.monitors[direction] ? 'would-refuse' : 'refused';
    const name = classChain(direction, verdict, policies);
    of = { name, goto: { kind: 'goto', chain: name }, direction, policies, verdict };
    known[direction].set(pod, of);
  }
  return of;
}

/** Which classes have pods, so that they need a chain. */
export class PodClasses {
  /** Keyed by name. */
  readonly #used = new Map<string, { readonly of: PodClass; readonly pods: number }>();

  get(name: string): PodClass | undefined {
    return this.#used.get(name)?.of;
  }

  clear(): void {
    this.#used.clear();
  }

  /**
   * Classes that get their first pod or lose their last one when `before` become `after`. It takes effect when
   * {@link ClassChange.done} is called.
   */
  change(before: Iterable<LocalPod>, after: Iterable<LocalPod>): ClassChange {
    const counts = new Map<string, { readonly of: PodClass; pods: number }>();
    for (const [pods, step] of [
      [before, -1],
      [after, 1],
    ] as const) {
      for (const of of classesOf(pods)) {
        const count = counts.get(of.name) ?? { of, pods: this.#used.get(of.name)?.pods ?? 0 };
        count.pods += step;
        counts.set(of.name, count);
      }
    }
    const all = [...counts.values()];
    return {
      come: all.filter(({ of, pods }) => pods > 0 && !this.#used.has(of.name)).map(({ of }) => of),
      gone: all.filter(({ of, pods }) => pods === 0 && this.#used.has(of.name)).map(({ of }) => of),
      done: () => {
        for (const [name, count] of counts) {
          if (count.pods === 0) this.#used.delete(name);
          else this.#used.set(name, count);
        }
      },
    };
  }
}

export interface ClassChange {
  readonly come: readonly PodClass[];
  readonly gone: readonly PodClass[];
  /** Call once the kernel has the change. */
  readonly done: () => void;
}

function classesOf(pods: Iterable<LocalPod>): PodClass[] {
  return [...pods].flatMap((pod) => directions.flatMap((direction) => classOf(pod, direction) ?? []));
}
