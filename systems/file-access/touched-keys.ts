/**
 * Keys that are to be looked at soon: each once, in slices, so that what comes in bursts keeps nothing else waiting.
 *
 * @module
 */
export interface TouchedKeysOptions<K> {
  /** Must be quick. What it throws goes to `onProblem`. */
  readonly each: (key: K) => void;
  readonly onProblem: (error: unknown, key: K) => void;
  /** Called behind each slice. */
  readonly onSliceEnd?: () => void;
}

const SLICE_MS = 10;

/** Disposing it forgets what waits. */
export class TouchedKeys<K = string> implements Disposable {
  readonly #options: TouchedKeysOptions<K>;
  readonly #keys = new Set<K>();
  #next: NodeJS.Immediate | undefined;

  constructor(options: TouchedKeysOptions<K>) {
    this.#options = options;
  }

  get size(): number {
    return this.#keys.size;
  }

  add(key: K): void {
    this.#keys.add(key);
    this.#next ??= setImmediate(() => this.#slice());
  }

  /** Looks at all that waits, now. */
  flush(): void {
    this.#run(Infinity);
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#next);
    this.#next = undefined;
    this.#keys.clear();
  }

  #slice(): void {
    this.#next = undefined;
    this.#run(performance.now() + SLICE_MS);
    if (this.#keys.size > 0) this.#next ??= setImmediate(() => this.#slice());
  }

  #run(untilMs: number): void {
    const { each, onProblem, onSliceEnd } = this.#options;
    for (const key of this.#keys) {
      this.#keys.delete(key);
      try {
        each(key);
      } catch (error) {
        onProblem(error, key);
      }
      if (performance.now() > untilMs) break;
    }
    onSliceEnd?.();
  }
}
