/** One of the reports of a namespace, as it is in the API and as it is to be. Pure. */
import { partName } from './part-name.ts';
import { type Entry, sizeOf } from './part-report.ts';

/** What is to become of an object in a report; undefined: nothing is said of it any more. */
export type Pending = ReadonlyMap<string, Entry | undefined>;

export class Part {
  readonly namespace: string;
  readonly number: number;
  /** Of the report; undefined: there is none. */
  version: string | undefined;
  /** By the uid of the object: the bytes that it will take once all is written. */
  readonly #sizes = new Map<string, number>();
  #sizeBytes = 0;
  #pending = new Map<string, Entry | undefined>();
  /** What is being written. */
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

  /** How many objects wait to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  has(uid: string): boolean {
    return this.#sizes.has(uid);
  }

  /** Whether it has room for what an object is to take in it. */
  fits(uid: string, sizeBytes: number, limitBytes: number): boolean {
    const others = this.#sizeBytes - (this.#sizes.get(uid) ?? 0);
    // One that is too large for any report is in one by itself.
    return others === 0 || others + sizeBytes <= limitBytes;
  }

  /** What is to be written of an object, or is being written: `has` is false where nothing is. */
  waiting(uid: string): { readonly has: boolean; readonly entry?: Entry | undefined } {
    for (const one of [this.#pending, this.#writing])
      if (one?.has(uid) === true) return { has: true, entry: one.get(uid) };
    return { has: false };
  }

  set(uid: string, entry: Entry | undefined): void {
    this.#pending.set(uid, entry);
    this.#resize(uid, entry === undefined ? undefined : sizeOf(entry));
  }

  /** What waits is being written from now on. */
  begin(): Pending {
    this.#writing = this.#pending;
    this.#pending = new Map();
    return this.#writing;
  }

  /** @param isDone else it waits again, but for what is to be something else by now. */
  end(isDone: boolean): void {
    if (!isDone) this.#pending = new Map([...(this.#writing ?? []), ...this.#pending]);
    this.#writing = undefined;
  }

  /** The report is this now. @returns the uids of those that it said something of, and does not any more. */
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
