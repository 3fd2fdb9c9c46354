/** Accounts for the memory that maps of each namespace use on this node. A map counts once, however many programs use it. */
import { notAllowed, type TenantRules } from './rules.ts';

/** A map that a program uses. */
export interface MapHold {
  /** The kernel's ID of the map; for a map that does not exist yet, its name. */
  readonly key: number | string;
  readonly bytes: number;
  /** Whether it belongs to another program: then it does not count towards this program's own limit. */
  readonly shared: boolean;
}

/** A program in the kernel, with the memory of its maps. */
interface Holder {
  readonly id: string;
  readonly namespace: string | undefined;
  readonly programId: number;
  readonly maps: readonly {
    readonly id: number;
    readonly bytes?: number;
    readonly shared?: boolean;
  }[];
  readonly tenant: { readonly mapBytes?: number } | undefined;
}

const MIB = 1024 * 1024;
/** One program may use at most one part in this many of its namespace's memory. */
const SHARE = 4;

/** The maps that a program uses. */
export function holdsOf({ maps, tenant }: Pick<Holder, 'maps' | 'tenant'>): readonly MapHold[] {
  const holds = maps.flatMap(({ id, bytes, shared = false }) =>
    bytes === undefined ? [] : [{ key: id, bytes, shared }],
  );
  const { mapBytes } = tenant ?? {};
  return mapBytes === undefined ? holds : [{ key: 'all', bytes: mapBytes, shared: false }];
}

export class MapRoom {
  readonly #limitBytes: number;
  /** Bytes of each map, keyed by namespace, then by the program's id, then by map. */
  readonly #held = new Map<string, Map<string, ReadonlyMap<number | string, number>>>();

  /** @param running - Programs that stay. If the limit was lowered, those that were loaded first keep their memory. */
  constructor({ mapMemoryBytes }: TenantRules, running: readonly Holder[]) {
    this.#limitBytes = mapMemoryBytes;
    for (const { id, namespace, ...holder } of running.toSorted((a, b) => a.programId - b.programId)) {
      if (namespace === undefined) continue;
      const maps = byMap(id, holdsOf(holder));
      if (this.#heldBytes(namespace, id, maps) <= this.#limitBytes) this.#hold(namespace, id, maps);
    }
  }

  /**
   * @param maps - All maps of the program.
   * @throws {ProgramFailure} `not-allowed`: then nothing is reserved for it
   */
  take(id: string, namespace: string, maps: readonly MapHold[]): void {
    this.release(id, namespace);
    const ownBytes = sum(maps.filter(({ shared }) => !shared).map(({ bytes }) => bytes));
    const held = byMap(id, maps);
    const othersBytes = this.#heldBytes(namespace, id, new Map());
    const allBytes = this.#heldBytes(namespace, id, held);
    const own = `The maps of the program take ${mib(ownBytes)} MiB`;
    const ask = `or ask the administrator of the cluster to raise --bpf-tenant-map-memory, which is ${mib(this.#limitBytes)}.`;
    if (ownBytes > this.#limitBytes / SHARE) {
      throw notAllowed(
        'map_memory_of_program',
        `${own}; a program of a namespaced kind may have ${mib(this.#limitBytes / SHARE)} MiB, a quarter of what its namespace has on a node`,
        `Reduce max_entries, use a cluster-scoped kind, ${ask}`,
      );
    }
    if (allBytes > this.#limitBytes) {
      throw notAllowed(
        'map_memory_of_namespace',
        `${own}; other programs of namespace ${namespace} have ${mib(othersBytes)} MiB on this node already, and all of them together may have ${mib(this.#limitBytes)} MiB`,
        `Reduce max_entries, delete another program, share maps by mapownerselector, ${ask}`,
        true,
      );
    }
    this.#hold(namespace, id, held);
  }

  release(id: string, namespace: string): void {
    this.#held.get(namespace)?.delete(id);
  }

  #hold(namespace: string, id: string, maps: ReadonlyMap<number | string, number>): void {
    const all = this.#held.get(namespace) ?? new Map<string, ReadonlyMap<number | string, number>>();
    this.#held.set(namespace, all.set(id, maps));
  }

  /** Bytes of the maps in `more` and of those of all programs except `except`. */
  #heldBytes(namespace: string, except: string, more: ReadonlyMap<number | string, number>): number {
    const all = new Map(more);
    for (const [id, maps] of this.#held.get(namespace) ?? [])
      if (id !== except) for (const [key, bytes] of maps) all.set(key, bytes);
    return sum([...all.values()]);
  }
}

/** Keys of maps: a map that has only a name belongs to this program alone. */
function byMap(id: string, maps: readonly MapHold[]): ReadonlyMap<number | string, number> {
  return new Map(maps.map(({ key, bytes }) => [typeof key === 'number' ? key : `${id} ${key}`, bytes]));
}

function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0);
}

function mib(bytes: number): string {
  return String(Math.round((bytes / MIB) * 100) / 100);
}
