/**
 * Instances of one policy in one thread. Each evaluation begins with an instance as it is after its start, so that nothing of one
 * request is left for the next: a new one, or the same one put back, whatever takes less time. See docs/decisions/0012.
 *
 * @module
 */
import type { GuestPolicy } from '../messages.ts';
import { pageBytes, type Restoring } from '../prepare.ts';
import { GuestFailure } from './failure.ts';

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
 * const instances = new Instances(policy, (extraPages) => start(policy, extraPages));
 * const answer = instances.with((guest) => guest.call('validate', input));
 */
export class Instances<Guest> {
  readonly #restoring: Restoring | undefined;
  readonly #memoryPages: number;
  readonly #start: (extraPages: number) => StartedInstance<Guest>;
  #kept: Kept<Guest> | undefined;
  #extraPages = 0;
  #grown = 0;

  constructor(
    { restoring, memoryPages }: Pick<GuestPolicy, 'memoryPages' | 'restoring'>,
    start: (extraPages: number) => StartedInstance<Guest>,
  ) {
    this.#restoring = restoring;
    this.#memoryPages = memoryPages;
    this.#start = start;
  }

  /** What `use` throws ends the instance. @throws {GuestFailure} `memory` in its place, where that was what there was none of. */
  with<T>(use: (guest: Guest) => T): T {
    const kept = this.#kept ?? this.#started();
    this.#kept = undefined;
    try {
      const result = use(kept.guest);
      if (kept.image !== undefined) this.#putBack(kept, kept.image);
      return result;
    } catch (error) {
      throw this.#isFull(kept.instance) && !(error instanceof GuestFailure) ? full(this.#memoryPages) : error;
    }
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

  #putBack({ guest, instance }: Kept<Guest>, image: Image): void {
    const memory = this.#memoryOf(instance);
    if (memory === undefined) return;
    if (memory.length !== image.sizeBytes) {
      // Memory cannot shrink. The next instance begins with as much, which allocators take what they need from: all but
      // those that grow the memory whatever there is. A policy of such is given a new instance each time.
      this.#grown++;
      const pages = (memory.length - image.sizeBytes) / pageBytes;
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

  /** A guest that is refused memory traps in its own way; seen is that it had taken nearly all that it may have. */
  #isFull({ exports }: WebAssembly.Instance): boolean {
    const memory = exports[this.#restoring?.memory ?? 'memory'];
    return (
      memory instanceof WebAssembly.Memory &&
      memory.buffer.byteLength > (this.#memoryPages * pageBytes * 7) / 8
    );
  }

  #memoryOf(instance: WebAssembly.Instance): Uint8Array | undefined {
    if (this.#restoring === undefined) return undefined;
    return new Uint8Array((instance.exports[this.#restoring.memory] as WebAssembly.Memory).buffer);
  }
}

function full(memoryPages: number): GuestFailure {
  const limit = (memoryPages * pageBytes) / 2 ** 20;
  return new GuestFailure('memory', `the policy has used up the ${limit} MiB of memory that it may have`);
}
