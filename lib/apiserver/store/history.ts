/** The changes since the compacted version: the newest in memory, all in the database. */
import { ExpiredError } from './errors.ts';
import { type Change, type ObjectKey, restamp, type Revision, type StoredObject } from './object.ts';
import type { Reader } from './reader.ts';

export interface ChangeFilter {
  readonly resource: string;
  /** `undefined` for all namespaces. */
  readonly namespace: string | undefined;
  /** Whether changes include the previous object, which may cost a read for each. */
  readonly withPrevious: boolean;
}

/** All changes that match the filter, up to the version `upTo`. */
interface ChangePage {
  readonly changes: readonly Change[];
  readonly upTo: bigint;
}

interface RecentLimits {
  /** Limit of changes in memory. */
  readonly count: number;
  /** Limit of the size of their texts, in UTF-16 units; a change counts twice, for the text that it replaced. */
  readonly size: number;
}

/** Limit of changes returned by one call. */
const pageLimit = 500;

class Recent {
  readonly committed: Revision;
  plain: Change | undefined;
  withPrevious: Change | undefined;

  constructor(committed: Revision) {
    this.committed = committed;
  }

  get size(): number {
    return 2 * (this.committed.object?.text.length ?? 0);
  }
}

export class History {
  readonly #reader: Reader;
  readonly #limits: RecentLimits;
  /** One entry for each version from `#firstVersion` to `version`, without gaps. */
  #recent: Recent[] = [];
  #firstVersion: bigint;
  #recentSize = 0;
  #version: bigint;
  #compacted: bigint;

  constructor(reader: Reader, limits: RecentLimits) {
    const { version, compacted } = reader.state();
    this.#reader = reader;
    this.#limits = limits;
    this.#version = version;
    this.#compacted = compacted;
    this.#firstVersion = version + 1n;
  }

  get version(): bigint {
    return this.#version;
  }

  /** The oldest version whose state and later changes can be read. */
  get compacted(): bigint {
    return this.#compacted;
  }

  /** Number of changes in memory. */
  get recentCount(): number {
    return this.#recent.length;
  }

  /** Adds committed changes. Their versions have to follow the present one without gaps. */
  publish(changes: readonly Revision[]): void {
    for (const committed of changes) {
      const recent = new Recent(committed);
      this.#recent.push(recent);
      this.#recentSize += recent.size;
      this.#version = committed.version;
    }
    this.#trim();
  }

  /** From now on, no earlier version can be read, so that its rows may be removed. */
  compactTo(version: bigint): void {
    if (version <= this.#compacted) return;
    this.#compacted = version;
    // Frees memory as well: with few changes, the memory limits would only be reached after hours of growth.
    this.#forget(Number(version + 1n - this.#firstVersion));
  }

  /** @throws {ExpiredError} if the changes after a version are no longer kept. */
  checkVersion(what: string, version: bigint): void {
    if (version < this.#compacted) throw new ExpiredError(what, version, this.#compacted);
  }

  /** Changes after a version, oldest first. @throws {ExpiredError} if the history after that version is compacted. */
  changesAfter(version: bigint, filter: ChangeFilter): ChangePage {
    this.checkVersion('watch from', version);
    return version + 1n < this.#firstVersion
      ? this.#stored(version, filter)
      : this.#inMemory(version, filter);
  }

  /** The change that belongs to a published revision; shared with other callers if it is still in memory. */
  changeOf(committed: Revision, withPrevious: boolean): Change {
    const recent = this.#recent[Number(committed.version - this.#firstVersion)];
    return this.#resolve(
      recent?.committed.version === committed.version ? recent : new Recent(committed),
      withPrevious,
    );
  }

  #inMemory(version: bigint, filter: ChangeFilter): ChangePage {
    const changes: Change[] = [];
    let index = Number(version + 1n - this.#firstVersion);
    for (; index < this.#recent.length && changes.length < pageLimit; index++) {
      const recent = this.#recent[index];
      if (recent !== undefined && matches(recent.committed, filter)) {
        changes.push(this.#resolve(recent, filter.withPrevious));
      }
    }
    const upTo = this.#firstVersion + BigInt(index) - 1n;
    return { changes, upTo: upTo > version ? upTo : version };
  }

  #stored(version: bigint, filter: ChangeFilter): ChangePage {
    const lastStored = this.#firstVersion - 1n;
    const { revisions, upTo } = this.#reader.changes(filter, version, lastStored, pageLimit);
    return { changes: revisions.map((row) => this.#resolve(new Recent(row), filter.withPrevious)), upTo };
  }

  /** Returns the same change to all callers. */
  #resolve(recent: Recent, withPrevious: boolean): Change {
    const known = withPrevious ? recent.withPrevious : recent.plain;
    if (known !== undefined) return known;
    const { object, previous: previousVersion, version } = recent.committed;
    const isCreation = previousVersion === 0n;
    const previous =
      !isCreation && (withPrevious || object === undefined) ? this.#objectAt(previousVersion) : undefined;
    if (withPrevious) {
      const change = changed(object, previous, version, isCreation);
      recent.withPrevious = change;
      return change;
    }
    const { type, object: after } = changed(object, previous, version, isCreation);
    recent.plain = { type, object: after };
    return recent.plain;
  }

  #objectAt(version: bigint): StoredObject {
    const recent = this.#recent[Number(version - this.#firstVersion)]?.committed.object;
    const object = recent ?? this.#reader.revision(version)?.object;
    // Not expected: an object is kept as long as the change that replaced it, which was checked against `compacted`.
    if (object === undefined) throw new ExpiredError('read', version, this.#compacted);
    return object;
  }

  #trim(): void {
    const { count, size } = this.#limits;
    if (this.#recent.length <= count && this.#recentSize <= size) return;
    // Drops a quarter at once, because each time the rest of the array has to be moved.
    let forget = 0;
    let keptSize = this.#recentSize;
    while (
      forget < this.#recent.length &&
      (this.#recent.length - forget > count * 0.75 || keptSize > size * 0.75)
    ) {
      keptSize -= this.#recent[forget]?.size ?? 0;
      forget++;
    }
    this.#forget(forget);
  }

  #forget(count: number): void {
    if (count <= 0) return;
    const forgotten = this.#recent.splice(0, count);
    for (const recent of forgotten) this.#recentSize -= recent.size;
    this.#firstVersion += BigInt(forgotten.length);
  }
}

export function matches(key: ObjectKey, { resource, namespace }: ChangeFilter): boolean {
  return key.resource === resource && (namespace === undefined || key.namespace === namespace);
}

function changed(
  object: StoredObject | undefined,
  previous: StoredObject | undefined,
  version: bigint,
  isCreation: boolean,
): Change {
  if (object !== undefined) return { type: isCreation ? 'ADDED' : 'MODIFIED', object, previous };
  if (previous === undefined) throw new TypeError(`deletion ${version} of nothing`);
  return { type: 'DELETED', object: restamp(previous, version), previous };
}
