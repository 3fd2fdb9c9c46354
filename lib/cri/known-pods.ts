/** The pods of the runtime's last list, with their network, which lists do not contain. */
import type { Cri } from './cri.ts';
import { noNetwork, type Pod, type PodNetwork } from './records.ts';
import { Search } from './search.ts';
import type { WorkLimit } from './work-limit.ts';

interface Known {
  pod: Pod;
  needsNetwork: boolean;
  readonly network: Search<PodNetwork>;
}

interface KnownPodsOptions {
  readonly cri: Cri;
  readonly limit: WorkLimit;
  readonly signal: AbortSignal;
  readonly timeoutMs: number;
  readonly onError: (error: unknown) => void;
  /** Called when an attempt to find a pod's addresses has ended. */
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

  isSearching(id: string): boolean {
    return this.#pods.get(id)?.network.attempt !== undefined;
  }

  attempts(): Promise<void>[] {
    return [...this.#pods.values()].flatMap(({ network }) => network.attempt ?? []);
  }

  /** When the network of a pod may next be queried; Infinity if that is not needed. */
  nextAtMs(): number {
    let atMs = Infinity;
    for (const { needsNetwork, network } of this.#pods.values()) {
      if (needsNetwork && network.attempt === undefined) atMs = Math.min(atMs, network.nextAtMs);
    }
    return atMs;
  }

  /** Applies a list: drops pods that are not in it, and queries the addresses of new ones. */
  take(listed: readonly Pod[]): void {
    const ids = new Set(listed.map(({ id }) => id));
    for (const id of this.#pods.keys()) if (!ids.has(id)) this.#pods.delete(id);
    for (const pod of listed) {
      const known = this.#pods.get(pod.id) ?? this.#add(pod);
      if (known.pod.state !== pod.state) {
        // A sandbox that is no longer ready has released its addresses.
        known.pod = { ...pod, hostNetwork: known.pod.hostNetwork };
        known.needsNetwork = pod.state === 'ready';
        known.network.reset();
      }
      if (known.needsNetwork) known.network.begin();
    }
  }

  #add(pod: Pod): Known {
    const { cri, limit, signal, timeoutMs, onError, onSearched } = this.#options;
    const known: Known = {
      pod,
      needsNetwork: pod.state === 'ready',
      network: new Search({
        limit,
        find: async () => {
          try {
            return (await cri.podNetwork(pod.id, { signal, timeoutMs })) ?? noNetwork;
          } catch (error) {
            onError(error);
            return undefined;
          }
        },
        onEnd(network) {
          if (network !== undefined && known.needsNetwork) {
            known.pod = { ...known.pod, ...network };
            known.needsNetwork = false;
          }
          onSearched(pod.id);
        },
      }),
    };
    this.#pods.set(pod.id, known);
    return known;
  }
}
