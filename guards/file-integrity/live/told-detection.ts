/** When jobs are told how changes are detected: each telling is a result that is sent. */
import type { Detection } from '../model/finding.ts';

/** Told when they change, but for lost events, which are told at once. */
const paced = [
  'watchedDirectories',
  'unwatchedDirectories',
  'lostAuthors',
  'directoriesWithoutAuthors',
] as const;
/** Numbers that only went up or down a little are told so often. */
const countsMs = 30_000;

/** Disposing it ends the telling. */
export class ToldDetection implements Disposable {
  readonly #now: () => Detection;
  readonly #tell: (detection: Detection) => void;
  #told: Detection | undefined;
  #toldMs = -Infinity;
  #timer: NodeJS.Timeout | undefined;

  constructor(now: () => Detection, tell: (detection: Detection) => void) {
    this.#now = now;
    this.#tell = tell;
  }

  tell(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    this.#told = this.#now();
    this.#toldMs = performance.now();
    this.#tell(this.#told);
  }

  /** Something may have changed since it was told. */
  tellSoon(): void {
    if (this.#timer !== undefined || this.#told === undefined) return;
    const [told, now] = [this.#told, this.#now()];
    const isWorse =
      told.lostEvents !== now.lostEvents ||
      paced.some((number) => number !== 'watchedDirectories' && (told[number] === 0) !== (now[number] === 0));
    if (!isWorse && paced.every((number) => told[number] === now[number])) return;
    const dueMs = isWorse ? 0 : this.#toldMs + countsMs;
    this.#timer = setTimeout(() => this.tell(), Math.max(1000, dueMs - performance.now()));
    this.#timer.unref();
  }

  [Symbol.dispose](): void {
    clearTimeout(this.#timer);
  }
}
