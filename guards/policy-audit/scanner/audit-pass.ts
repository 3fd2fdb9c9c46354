/** One pass over all objects, changed or not: it proves that nothing was missed. */
import type { Clock } from '../../../lib/time/clock.ts';

export interface PassSummary {
  /** When the pass ended, in ms since 1970. */
  readonly endedMs: number;
  readonly seconds: number;
  readonly namespaces: number;
  readonly objects: number;
  /** Number of objects with at least one fail or warn. */
  readonly failing: number;
  /** Number of objects with at least one error, and no fail or warn. */
  readonly errored: number;
  /** Number of evaluations during the pass. */
  readonly evaluations: number;
  readonly writes: number;
  /** Number of objects that had changed and had not been audited, although the watch had reported the change. */
  readonly missed: number;
  /** Kinds that could not be listed. */
  readonly unread: readonly string[];
}

/** A pass in progress. */
export interface PassProgress {
  /** When the pass began (RFC 3339). */
  readonly since: string;
  /** Number of namespaces with objects to audit; below, how many of these are left. */
  readonly namespaces: number;
  readonly left: number;
}

export class AuditPass {
  readonly #clock: Clock;
  readonly #beganMs: number;
  readonly #beganWallMs: number;
  readonly #evaluations: number;
  readonly #writes: number;
  readonly #ended = Promise.withResolvers<void>();
  #left = new Set<string>();
  #namespaces = 0;
  #missed = 0;

  constructor(clock: Clock, evaluations: number, writes: number) {
    this.#clock = clock;
    this.#beganMs = clock.monotonicMs();
    this.#beganWallMs = clock.wallMs();
    this.#evaluations = evaluations;
    this.#writes = writes;
  }

  get ended(): Promise<void> {
    return this.#ended.promise;
  }

  begin(namespaces: ReadonlySet<string>): void {
    this.#left = new Set(namespaces);
    this.#namespaces = namespaces.size;
    if (namespaces.size === 0) this.#ended.resolve();
  }

  has(namespace: string): boolean {
    return this.#left.has(namespace);
  }

  /** Number of namespaces that are left. */
  get left(): number {
    return this.#left.size;
  }

  /** The progress; undefined once the pass has ended. */
  get progress(): PassProgress | undefined {
    const since = new Date(this.#beganWallMs).toISOString();
    return this.left === 0 ? undefined : { since, namespaces: this.#namespaces, left: this.left };
  }

  miss(): void {
    this.#missed++;
  }

  end(namespace: string): void {
    if (this.#left.delete(namespace) && this.#left.size === 0) this.#ended.resolve();
  }

  summary(
    facts: Pick<PassSummary, 'errored' | 'evaluations' | 'failing' | 'objects' | 'unread' | 'writes'>,
  ): PassSummary {
    const ms = this.#clock.monotonicMs() - this.#beganMs;
    return {
      ...facts,
      endedMs: this.#clock.wallMs(),
      seconds: Math.round(ms) / 1000,
      namespaces: this.#namespaces,
      evaluations: facts.evaluations - this.#evaluations,
      writes: facts.writes - this.#writes,
      missed: this.#missed,
    };
  }
}
