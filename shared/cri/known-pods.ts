/**
 * The pods of the runtime's last list, with their addresses, which no list tells.
 *
 * @module
 */
import type { Cri } from './cri.ts';
import type { Pod } from './records.ts';
import { Search } from './search.ts';
import type { WorkLimit } from './work-limit.ts';

interface Known {
  pod: Pod;
  needsIps: boolean;
  readonly ips: Search<readonly string[]>;
}

export interface KnownPodsOptions {
  readonly cri: Cri;
  readonly limit: WorkLimit;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly onError: (error: unknown) => void;
  /** An attempt to find out a pod's addresses has ended. */
  readonly onSearched: (podId: string) => void;
}

export class KnownPods {
  readonly #options: KnownPodsOptions;
  readonly #pods = new Map<string, Known>();

  constructor(options: KnownPodsOptions) {
    this.#options = options;
  }

  get(id: string): Pod | undefined {
    return this.#pods.get(id)?.pod;
  }

  /** Whether the pod's addresses are being asked for. */
  isSearching(id: string): boolean {
    return this.#pods.get(id)?.ips.attempt !== undefined;
  }

  /** The attempts under way. */
  attempts(): Promise<void>[] {
    return [...this.#pods.values()].flatMap(({ ips }) => ips.attempt ?? []);
  }

  /** When the next pod may be asked for again; Infinity for never. */
  nextAtMs(): number {
    let atMs = Infinity;
    for (const { needsIps, ips } of this.#pods.values()) {
      if (needsIps && ips.attempt === undefined) atMs = Math.min(atMs, ips.nextAtMs);
    }
    return atMs;
  }

  /** Takes a list: those that are not in it are forgotten, the new ones' addresses are asked for. */
  take(listed: readonly Pod[]): void {
    const ids = new Set(listed.map(({ id }) => id));
    for (const id of this.#pods.keys()) if (!ids.has(id)) this.#pods.delete(id);
    for (const pod of listed) {
      const known = this.#pods.get(pod.id) ?? this.#add(pod);
      if (known.pod.state !== pod.state) {
        // A sandbox that is no longer ready has given its addresses back.
        known.pod = pod;
        known.needsIps = pod.state === 'ready';
        known.ips.reset();
      }
      if (known.needsIps) known.ips.begin();
    }
  }

  #add(pod: Pod): Known {
    const { cri, limit, signal, timeoutMs, onError, onSearched } = this.#options;
    const known: Known = {
      pod,
      needsIps: pod.state === 'ready',
      ips: new Search({
        limit,
        find: async () => {
          try {
            return (await cri.podIps(pod.id, { signal, timeoutMs })) ?? [];
          } catch (error) {
            onError(error);
            return undefined;
          }
        },
        onEnd(ips) {
          if (ips !== undefined && known.needsIps) {
            known.pod = { ...known.pod, ips };
            known.needsIps = false;
          }
          onSearched(pod.id);
        },
      }),
    };
    this.#pods.set(pod.id, known);
    return known;
  }
}
