/**
 * Instances of one policy in one thread. Each evaluation begins with an instance as it is after its start, so that nothing of one
 * request is left for the next: a new one, or the same one put back, whatever takes less time. See docs/decisions/0012.
 *
 * @module
 */
import type { Restoring } from '../prepare.ts';

/** Two more instances that grew as much as this are not worth trying to start larger. */
const patience = 3;
/** More is not copied for each evaluation; a new instance costs less then. */
const largestImageBytes = 32 * 2 ** 20;

interface Image {
  readonly bytes: Uint8Array;
  /** After these the memory was zero. */
  readonly sizeBytes: number;
  readonly globals: readonly unknown[];
}

interface Kept<Guest> {
  readonly guest: Guest;
  readonly instance: WebAssembly.Instance;
  readonly image: Image | undefined;
}

export interface StartedInstance<Guest> {
  readonly guest: Guest;
  readonly instance: WebAssembly.Instance;
}

/**
 * @example
 * const instances = new Instances(restoring, (extraPages) => start(module, extraPages));
 * const answer = instances.with((guest) => guest.call('validate', input));
 */
export class Instances<Guest> {
  readonly #restoring: Restoring | undefined;
  readonly #start: (extraPages: number) => StartedInstance<Guest>;
  #kept: Kept<Guest> | undefined;
  #extraPages = 0;
  #grown = 0;

  constructor(restoring: Restoring | undefined, start: (extraPages: number) => StartedInstance<Guest>) {
    this.#restoring = restoring;
    this.#start = start;
  }

  /** Whatever `use` throws leaves nothing behind either. */
  with<T>(use: (guest: Guest) => T): T {
    const { guest, instance, image } = this.#kept ?? this.#started();
    // What a guest leaves when it is ended in the middle is put back with the rest, but not worth the risk.
    this.#kept = undefined;
    const result = use(guest);
    if (image !== undefined) this.#putBack(guest, instance, image);
    return result;
  }

  forget(): void {
    this.#kept = undefined;
  }

  #started(): Kept<Guest> {
    const { guest, instance } = this.#start(this.#extraPages);
    return { guest, instance, image: this.#grown > patience ? undefined : this.#imageOf(instance) };
  }

  #imageOf(instance: WebAssembly.Instance): Image | undefined {
    const memory = this.#memoryOf(instance);
    if (memory === undefined || memory.length > largestImageBytes) return undefined;
    let end = memory.length;
    const words = new Float64Array(memory.buffer);
    while (end > 0 && Object.is(words[end / 8 - 1], 0)) end -= 8;
    const globals = this.#restoring?.globals.map(
      (name) => (instance.exports[name] as WebAssembly.Global).value,
    );
    return { bytes: memory.slice(0, end), sizeBytes: memory.length, globals: globals ?? [] };
  }

  #putBack(guest: Guest, instance: WebAssembly.Instance, image: Image): void {
    const memory = this.#memoryOf(instance);
    if (memory === undefined) return;
    if (memory.length !== image.sizeBytes) {
      // Memory cannot shrink. The next instance begins with as much, which allocators take what they need from: all but
      // those that grow the memory whatever there is. A policy of such is given a new instance each time.
      this.#grown++;
      const pages = (memory.length - image.sizeBytes) / 65_536;
      this.#extraPages = this.#grown > patience ? 0 : this.#extraPages + pages;
      return;
    }
    memory.set(image.bytes);
    memory.fill(0, image.bytes.length);
    for (const [index, name] of (this.#restoring?.globals ?? []).entries()) {
      (instance.exports[name] as WebAssembly.Global).value = image.globals[index];
    }
    this.#kept = { guest, instance, image };
  }

  #memoryOf(instance: WebAssembly.Instance): Uint8Array | undefined {
    if (this.#restoring === undefined) return undefined;
    return new Uint8Array((instance.exports[this.#restoring.memory] as WebAssembly.Memory).buffer);
  }
}
