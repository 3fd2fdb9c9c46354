/**
 * Instances of one policy in one thread. Each evaluation starts with an instance in its initial state, so that no
 * data of one request remains for the next: a new one, or the same one reset, whichever takes less time. See
 * docs/decisions/0012.
 */
import type { GuestPolicy } from '../messages.ts';
import { pageBytes } from '../prepare.ts';
import type { Restoring } from '../put-back.ts';
import { GuestFailure } from './failure.ts';

/** Beyond this size a new instance costs less than copying and clearing. */
const largestBytes = 8 * 2 ** 20;

interface Image {
  readonly bytes: Uint8Array;
  readonly globals: readonly unknown[];
}

export interface StartedInstance<Guest> {
  readonly guest: Guest;
  readonly instance: WebAssembly.Instance;
}

/** What a module imports from its host. */
export type Imports = readonly WebAssembly.ModuleImportDescriptor[];

type StartGuest<Guest> = (policy: GuestPolicy, imports: Imports) => StartedInstance<Guest>;

interface Kept<Guest> extends StartedInstance<Guest> {
  /** Initial state for resets; undefined if the instance cannot be reset. */
  readonly image: Image | undefined;
}

/**
 * @example
 * const instances = new Instances(policy, start);
 * const answer = instances.with((guest) => guest.call('validate', input));
 */
export class Instances<Guest> {
  readonly #restoring: Restoring | undefined;
  readonly #memoryPages: number;
  readonly #start: () => StartedInstance<Guest>;
  #kept: Kept<Guest> | undefined;

  constructor(policy: GuestPolicy, start: StartGuest<Guest>) {
    const imports = WebAssembly.Module.imports(policy.module);
    this.#restoring = policy.restoring;
    this.#memoryPages = policy.memoryPages;
    this.#start = () => start(policy, imports);
  }

  /**
   * Runs `use` with an instance. If it throws, the instance is discarded.
   *
   * @throws {GuestFailure} `memory` instead of the error, if the guest has run out of memory.
   */
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
    const started = this.#start();
    return { ...started, image: this.#imageOf(started.instance) };
  }

  #imageOf({ exports }: WebAssembly.Instance): Image | undefined {
    const memory = this.#memoryOf(exports);
    if (memory === undefined || memory.length > largestBytes) return undefined;
    let size = memory.length;
    const words = new Float64Array(memory.buffer);
    while (size > 0 && Object.is(words[size / 8 - 1], 0)) size -= 8;
    return { bytes: memory.slice(0, size), globals: this.#globalsOf(exports).map(({ value }) => value) };
  }

  #putBack(kept: Kept<Guest>, { bytes, globals }: Image): void {
    const { exports } = kept.instance;
    const memory = this.#memoryOf(exports);
    if (memory === undefined || memory.length > largestBytes) return;
    memory.set(bytes);
    // Clears the whole memory, even beyond the size that the guest uses for now: the guest may have written there.
    memory.fill(0, bytes.length);
    for (const [index, global] of this.#globalsOf(exports).entries()) global.value = globals[index];
    this.#kept = kept;
  }

  #globalsOf(exports: WebAssembly.Instance['exports']): WebAssembly.Global[] {
    return this.#restoring?.globals.map((name) => exports[name] as WebAssembly.Global) ?? [];
  }

  #memoryOf(exports: WebAssembly.Instance['exports']): Uint8Array | undefined {
    if (this.#restoring === undefined) return undefined;
    return new Uint8Array((exports[this.#restoring.memory] as WebAssembly.Memory).buffer);
  }

  /** A guest that is refused memory traps in its own way. So this is recognized by the guest's use of nearly all of its limit. */
  #isFull({ exports }: WebAssembly.Instance): boolean {
    const memory = exports[this.#restoring?.memory ?? 'memory'];
    return (
      memory instanceof WebAssembly.Memory &&
      memory.buffer.byteLength > (this.#memoryPages * pageBytes * 7) / 8
    );
  }
}

function full(memoryPages: number): GuestFailure {
  const limit = (memoryPages * pageBytes) / 2 ** 20;
  return new GuestFailure('memory', `the policy has exhausted its memory limit of ${limit} MiB`);
}
