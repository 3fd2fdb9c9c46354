/** Long work on many things in small steps, so that nothing else on the event loop waits for it. */

/** Steps between two looks at the clock, some tenths of a millisecond. */
const STEPS = 16;

interface SlicedWorkOptions<K> {
  /** Begins the work on a thing; a step ends with each `yield`. Undefined if there is nothing to do. */
  readonly start: (thing: K) => Generator<void> | undefined;
  /** Called when the work on a thing is done; not if the thing was deleted. */
  readonly onDone: (thing: K) => void;
}

/** Things in the order in which they came, each worked on to its end before the next. */
export class SlicedWork<K> implements Disposable {
  readonly #options: SlicedWorkOptions<K>;
  readonly #waiting = new Set<K>();
  #current: { readonly thing: K; readonly steps: Generator<void> } | undefined;

  constructor(options: SlicedWorkOptions<K>) {
    this.#options = options;
  }

  get isDone(): boolean {
    return this.#current === undefined && this.#waiting.size === 0;
  }

  /** Adds a thing. One that is being worked on is worked on again after the others. */
  add(thing: K): void {
    this.#waiting.add(thing);
  }

  /** Removes a thing, and ends work on it that has begun. */
  delete(thing: K): void {
    this.#waiting.delete(thing);
    if (this.#current?.thing === thing) this.#end();
  }

  /** Works until a time of `performance.now()`, or until all is done. */
  run(untilMs: number): void {
    while (this.#begin() && performance.now() < untilMs) {
      for (let step = 0; step < STEPS; step++) {
        const current = this.#current;
        if (current === undefined) break;
        if (current.steps.next().done !== true) continue;
        // The last step may have removed it.
        if (this.#current !== current) break;
        this.#end();
        this.#options.onDone(current.thing);
        break;
      }
    }
  }

  /** Begins the next work if none is under way. @returns whether there is work */
  #begin(): boolean {
    while (this.#current === undefined) {
      const [thing] = this.#waiting;
      if (thing === undefined) return false;
      this.#waiting.delete(thing);
      const steps = this.#options.start(thing);
      if (steps !== undefined) this.#current = { thing, steps };
    }
    return true;
  }

  #end(): void {
    const current = this.#current;
    this.#current = undefined;
    current?.steps.return(undefined);
  }

  [Symbol.dispose](): void {
    this.#waiting.clear();
    this.#end();
  }
}
