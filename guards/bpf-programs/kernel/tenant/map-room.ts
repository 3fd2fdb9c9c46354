/** How much of the memory for maps each namespace has left on this node. */
import { notAllowed, type TenantRules } from './rules.ts';

/** What of a program in the kernel counts. */
interface Holder {
  readonly id: string;
  readonly namespace: string | undefined;
  readonly programId: number;
  readonly tenant: { readonly mapBytes: number } | undefined;
}

const MIB = 1024 * 1024;
/** Of the memory of its namespace, for one program. */
const SHARE = 4;

export class MapRoom {
  readonly #limitBytes: number;
  /** By namespace, then by id. */
  readonly #held = new Map<string, Map<string, number>>();

  /** @param running - Programs that stay; what was there first keeps its room. */
  constructor({ mapMemoryBytes }: TenantRules, running: readonly Holder[]) {
    this.#limitBytes = mapMemoryBytes;
    for (const { id, namespace, tenant } of running.toSorted((a, b) => a.programId - b.programId)) {
      if (namespace === undefined || tenant === undefined) continue;
      if (this.#heldOf(namespace, id) + tenant.mapBytes <= this.#limitBytes)
        this.#hold(namespace, id, tenant.mapBytes);
    }
  }

  /** @throws {ProgramFailure} `not-allowed`: nothing is held for it then */
  take(id: string, namespace: string, mapBytes: number): void {
    this.release(id, namespace);
    const others = this.#heldOf(namespace, id);
    const own = `The maps of the program take ${mib(mapBytes)} MiB`;
    const ask = `or ask the administrator of the cluster to raise --bpf-tenant-map-memory, which is ${mib(this.#limitBytes)}.`;
    if (mapBytes > this.#limitBytes / SHARE) {
      throw notAllowed(
        'map_memory_of_program',
        `${own}; a program of a namespaced kind may have ${mib(this.#limitBytes / SHARE)} MiB, a quarter of what its namespace has on a node`,
        `Reduce max_entries, use a cluster-scoped kind, ${ask}`,
      );
    }
    if (others + mapBytes > this.#limitBytes) {
      throw notAllowed(
        'map_memory_of_namespace',
        `${own}; other programs of namespace ${namespace} have ${mib(others)} MiB on this node already, and all of them together may have ${mib(this.#limitBytes)} MiB`,
        `Reduce max_entries, delete another program, share maps by mapownerselector, ${ask}`,
        true,
      );
    }
    this.#hold(namespace, id, mapBytes);
  }

  release(id: string, namespace: string): void {
    this.#held.get(namespace)?.delete(id);
  }

  #hold(namespace: string, id: string, bytes: number): void {
    const all = this.#held.get(namespace) ?? new Map<string, number>();
    this.#held.set(namespace, all.set(id, bytes));
  }

  #heldOf(namespace: string, except: string): number {
    const all = [...(this.#held.get(namespace) ?? [])];
    return all.reduce((sum, [id, bytes]) => (id === except ? sum : sum + bytes), 0);
  }
}

function mib(bytes: number): string {
  return String(Math.round((bytes / MIB) * 100) / 100);
}
