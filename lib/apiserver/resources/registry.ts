import { errorCodes, RampartError } from '../../errors/errors.ts';
import { Listeners } from '../../time/listeners.ts';
import { apiVersionOf, type Resource } from './resource.ts';

/** All versions of one kind, which may belong to several groups: events are served by two. */
interface ResourceSet {
  /** In order of preference. */
  readonly versions: readonly Resource[];
  readonly storeName: string;
}

/** The served kinds, which change with the CustomResourceDefinitions; `generation` grows with each change. */
export class Registry {
  readonly #sets = new Map<string, ResourceSet>();
  readonly #byPath = new Map<string, Resource>();
  readonly #listeners = new Listeners();
  #all: readonly Resource[] | undefined;
  #generation = 0;

  /** Grows with each change. */
  get generation(): number {
    return this.#generation;
  }

  /** All versions of all kinds, in the order in which they were added. */
  get all(): readonly Resource[] {
    this.#all ??= [...this.#sets.values()].flatMap(({ versions }) => versions);
    return this.#all;
  }

  get sets(): Iterable<ResourceSet> {
    return this.#sets.values();
  }

  /** Finds a resource by the parts of a path: `/apis/GROUP/VERSION/PLURAL`. */
  find(group: string, version: string, plural: string): Resource | undefined {
    return this.#byPath.get(`${group}/${version}/${plural}`);
  }

  /** Finds a resource by the fields of an object. Slow: only for owner references and the like. */
  findKind(apiVersion: string, kind: string): Resource | undefined {
    return this.all.find((resource) => resource.kind === kind && apiVersionOf(resource) === apiVersion);
  }

  /** The preferred version of the kind that is stored under a name. */
  findStored(storeName: string): Resource | undefined {
    return this.#sets.get(storeName)?.versions[0];
  }

  /** Adds the versions of a kind, replacing its previous ones. @throws {RampartError} `INPUT` for versions of different kinds. */
  add(versions: readonly Resource[]): void {
    const [first] = versions;
    if (
      first === undefined ||
      versions.some((one) => one.storeName !== first.storeName || one.plural !== first.plural)
    ) {
      throw new RampartError(errorCodes.INPUT, {
        what: 'cannot serve versions of different resources as one',
      });
    }
    const set = { versions, storeName: first.storeName };
    for (const old of this.#sets.get(first.storeName)?.versions ?? []) this.#byPath.delete(pathOf(old));
    this.#sets.set(first.storeName, set);
    for (const resource of versions) this.#byPath.set(pathOf(resource), resource);
    this.#changed();
  }

  remove(storeName: string): void {
    const set = this.#sets.get(storeName);
    if (set === undefined) return;
    this.#sets.delete(storeName);
    for (const resource of set.versions) this.#byPath.delete(pathOf(resource));
    this.#changed();
  }

  /** Calls the listener after each change, until the result is disposed. */
  onChange(listener: () => void): Disposable {
    return this.#listeners.add(listener);
  }

  #changed(): void {
    this.#all = undefined;
    this.#generation++;
    this.#listeners.notify();
  }
}

function pathOf({ group, version, plural }: Resource): string {
  return `${group}/${version}/${plural}`;
}
