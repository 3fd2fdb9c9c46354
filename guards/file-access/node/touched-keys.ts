/** A set of keys to examine soon, each once and in slices, so that bursts do not delay other work. */
export interface TouchedKeysOptions<K> {
  /** Must be quick. Its errors go to `onProblem`, and the key is examined again after 5 s. */
  readonly each: (key: K) => void;
  readonly onProblem: (error: unknown, key: K) => void;
  /** Called after each slice. */
  readonly onSliceEnd?: () => void;
}

const SLICE_MS = 10;
/** A failed key is examined again: that may succeed, and if nothing else touches it, a container would stay unwatched. */
const FAILED_AGAIN_MS = 5000;

/** Disposing it drops the waiting keys. */
export class TouchedKeys<K = string> implements Disposable {
  readonly #options: TouchedKeysOptions<K>;
  readonly #keys = new Set<K>();
  readonly #failed = new Set<K>();
  #next: NodeJS.Immediate | undefined;
  #timer: NodeJS.Timeout | undefined;

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

  /** Examines all waiting keys now. */
  flush(): void {
    this.#run(Infinity);
  }

  [Symbol.dispose](): void {
    clearImmediate(this.#next);
    this.#next = undefined;
    this.#keys.clear();
    clearTimeout(this.#timer);
    this.#failed.clear();
  }

  #slice(): void {
    this.#next = undefined;
    this.#run(performance.now() + SLICE_MS);
    if (this.#keys.size > 0) this.#next ??= setImmediate(() => this.#slice());
  }

  #again(): void {
    this.#timer = undefined;
    const keys = [...this.#failed];
    this.#failed.clear();
    for (const key of keys) this.add(key);
  }

  #run(untilMs: number): void {
    const { each, onProblem, onSliceEnd } = this.#options;
    for (const key of this.#keys) {
      this.#keys.delete(key);
      this.#failed.delete(key);
      try {
        each(key);
      } catch (error) {
        this.#failed.add(key);
        this.#timer ??= setTimeout(() => this.#again(), FAILED_AGAIN_MS);
        onProblem(error, key);
      }
      if (performance.now() > untilMs) break;
    }
    onSliceEnd?.();
  }
}
