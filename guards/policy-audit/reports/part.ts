/** One of the reports of a namespace: its current state in the API, and its desired state. Pure. */
import { partName } from './part-name.ts';
import { type Entry, sizeOf } from './part-report.ts';

/** The desired entry of an object in a report; undefined: it is removed. */
export type Pending = ReadonlyMap<string, Entry | undefined>;

export class Part {
  readonly namespace: string;
  readonly number: number;
  /** Version of the report; undefined if it does not exist. */
  version: string | undefined;
  /** The size in bytes of each entry once everything is written, keyed by the uid of the object. */
  readonly #sizes = new Map<string, number>();
  #sizeBytes = 0;
  #pending = new Map<string, Entry | undefined>();
  /** The entries being written. */
  #writing: Pending | undefined;

  constructor(namespace: string, number: number) {
    this.namespace = namespace;
    this.number = number;
  }

  get name(): string {
    return partName(this.namespace, this.number);
  }

  get key(): string {
    return this.namespace === '' ? this.name : `${this.namespace}/${this.name}`;
  }

  get uids(): IterableIterator<string> {
    return this.#sizes.keys();
  }

  get isWriting(): boolean {
    return this.#writing !== undefined;
  }

  /** Number of objects that have yet to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  has(uid: string): boolean {
    return this.#sizes.has(uid);
  }

  /** Whether the part has room for an object. */
  fits(uid: string, sizeBytes: number, limitBytes: number): boolean {
    const others = this.#sizeBytes - (this.#sizes.get(uid) ?? 0);
    // An entry that is too large for any part gets a part of its own.
    return others === 0 || others + sizeBytes <= limitBytes;
  }

  /** The pending or current write of an object; if there is no such write, `has` is false. */
  waiting(uid: string): { readonly has: boolean; readonly entry?: Entry | undefined } {
    for (const one of [this.#pending, this.#writing])
      if (one?.has(uid) === true) return { has: true, entry: one.get(uid) };
    return { has: false };
  }

  set(uid: string, entry: Entry | undefined): void {
    this.#pending.set(uid, entry);
    this.#resize(uid, entry === undefined ? undefined : sizeOf(entry));
  }

  /** Starts to write the pending entries. */
  begin(): Pending {
    this.#writing = this.#pending;
    this.#pending = new Map();
    return this.#writing;
  }

  /** @param isDone - If false, the entries become pending again, except those that have changed by now. */
  end(isDone: boolean): void {
    if (!isDone) this.#pending = new Map([...(this.#writing ?? []), ...this.#pending]);
    this.#writing = undefined;
  }

  /** Sets the current content of the report. @returns the uids of objects that it no longer contains. */
  is(version: string | undefined, sizes: ReadonlyMap<string, number>): string[] {
    this.version = version;
    const gone = [...this.#sizes.keys()].filter((uid) => !sizes.has(uid) && !this.#pending.has(uid));
    for (const uid of gone) this.#resize(uid, undefined);
    for (const [uid, sizeBytes] of sizes) if (!this.#pending.has(uid)) this.#resize(uid, sizeBytes);
    return gone;
  }

  #resize(uid: string, sizeBytes: number | undefined): void {
    this.#sizeBytes += (sizeBytes ?? 0) - (this.#sizes.get(uid) ?? 0);
    if (sizeBytes === undefined) this.#sizes.delete(uid);
    else this.#sizes.set(uid, sizeBytes);
  }
}
