/** One of the reports of a namespace: its state in the API, and its desired state. Pure. */
import { partName } from './part-name.ts';
import { type Entry, sizeOf } from './part-report.ts';

/** The desired entry of an object in a report; undefined: it is removed. */
export type Pending = ReadonlyMap<string, Entry | undefined>;

export class Part {
  readonly namespace: string;
  readonly number: number;
  /** Version of the report; undefined if it does not exist. */
  version: string | undefined;
  /** Keyed by the uid of the object: the bytes that it will take once everything is written. */
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

  /** How many objects are waiting to be written. */
  get pending(): number {
    return this.#pending.size;
  }

  has(uid: string): boolean {
    return this.#sizes.has(uid);
  }

  /** Whether it has room for an object. */
  fits(uid: string, sizeBytes: number, limitBytes: number): boolean {
    const others = this.#sizeBytes - (this.#sizes.get(uid) ?? 0);
    // An entry that is too large for any report gets one of its own.
    return others === 0 || others + sizeBytes <= limitBytes;
  }

  /** A pending or running write for an object: `has` is false without one. */
  waiting(uid: string): { readonly has: boolean; readonly entry?: Entry | undefined } {
    for (const one of [this.#pending, this.#writing])
      if (one?.has(uid) === true) return { has: true, entry: one.get(uid) };
    return { has: false };
  }

  set(uid: string, entry: Entry | undefined): void {
    this.#pending.set(uid, entry);
    this.#resize(uid, entry === undefined ? undefined : sizeOf(entry));
  }

  /** Waiting entries are being written from now on. */
  begin(): Pending {
    this.#writing = this.#pending;
    this.#pending = new Map();
    return this.#writing;
  }

  /** @param isDone otherwise entries wait again, except those that have changed by now. */
  end(isDone: boolean): void {
    if (!isDone) this.#pending = new Map([...(this.#writing ?? []), ...this.#pending]);
    this.#writing = undefined;
  }

  /** Sets the current report. @returns the uids of objects that it no longer contains. */
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
