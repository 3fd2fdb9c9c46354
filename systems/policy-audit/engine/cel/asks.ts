/**
 * Questions of an evaluation to the world outside. Expressions run without waiting: one that asks for what is not known yet
 * is broken off, and run again once the answer is there. Answers are kept to the end of the evaluation, so that it sees one
 * state of the world.
 *
 * @module
 */
import { failure } from '../../../../shared/cel/failure.ts';
import { EvaluationError, type AskedOfCluster, type EvaluateOptions, type JsonObject } from '../evaluator.ts';
import type { ClusterReader, ListReference, ObjectReference } from './cluster.ts';

/** Of one evaluation; `object.spec.containers.all(c, kw.k8s...get(c.name))` asks many. */
const mostQuestions = 256;
const defaultDeadlineMs = 2_000;

/** Ends the run of an expression until its question is answered. No error of CEL: nothing may swallow it. */
class Pending extends Error {
  readonly answered: Promise<void>;

  constructor(answered: Promise<void>) {
    super('a question to the cluster is open');
    this.answered = answered;
  }
}

interface Answer {
  readonly value?: unknown;
  readonly error?: string;
}

let current: Asks | undefined;

/** The questions of the evaluation that runs. */
export function currentAsks(): Asks {
  if (current === undefined) throw failure('this expression cannot ask the cluster');
  return current;
}

function within<T>(asks: Asks, run: () => T): T {
  const outer = current;
  current = asks;
  try {
    return run();
  } finally {
    current = outer;
  }
}

export class Asks {
  readonly asked: AskedOfCluster[] = [];
  readonly #answers = new Map<string, Answer>();
  readonly #cluster: ClusterReader | undefined;
  readonly #signals: readonly AbortSignal[];
  readonly #deadlineMs: number;
  readonly #endsAt: number;
  #waiting: AbortSignal | undefined;

  /** @param closed aborted once the policy is closed. */
  constructor(
    cluster: ClusterReader | undefined,
    { signal, deadlineMs = defaultDeadlineMs }: EvaluateOptions,
    closed?: AbortSignal,
  ) {
    this.#cluster = cluster;
    this.#signals = [signal, closed].filter((one) => one !== undefined);
    this.#deadlineMs = deadlineMs;
    this.#endsAt = performance.now() + deadlineMs;
    this.check();
  }

  /** @throws {EvaluationError} once it is too late, or nobody wants to know any more. */
  check(): void {
    for (const { aborted, reason } of this.#signals) {
      if (aborted) throw new EvaluationError('aborted', 'the evaluation was cancelled', { cause: reason });
    }
    if (performance.now() > this.#endsAt) throw new EvaluationError('deadline', this.#tooLate);
  }

  get #tooLate(): string {
    return `the evaluation took longer than ${this.#deadlineMs} ms`;
  }

  /** Runs what asks, as often as it takes to have all answers. */
  async answered<T>(run: () => T): Promise<T> {
    for (;;) {
      try {
        return within(this, run);
      } catch (error) {
        if (!(error instanceof Pending)) throw error;
        await this.#untilEnd(error.answered);
        this.check();
      }
    }
  }

  /** Undefined where there is no such object. Fails as an expression does. */
  object(reference: ObjectReference): JsonObject | undefined {
    const { apiVersion, kind, namespace, name } = reference;
    const known = { apiVersion, kind, name, ...(namespace !== undefined && { namespace }) };
    return this.ask('get', known, known, (cluster, signal) => cluster.get(known, signal)) as
      JsonObject | undefined;
  }

  list(reference: ListReference): JsonObject {
    const { apiVersion, kind, namespace } = reference;
    const known = { apiVersion, kind, ...(namespace !== undefined && { namespace }) };
    return this.ask('list', reference, known, (cluster, signal) =>
      cluster.list(reference, signal),
    ) as JsonObject;
  }

  /** @param asked what is remembered of the question, where it is one to the cluster. */
  ask(
    what: string,
    question: object,
    asked: AskedOfCluster | undefined,
    fetch: (cluster: ClusterReader, signal: AbortSignal) => unknown,
  ): unknown {
    const key = `${what} ${JSON.stringify(question)}`;
    const known = this.#answers.get(key);
    if (known !== undefined) {
      if (known.error !== undefined) throw failure(known.error);
      return known.value;
    }
    if (this.#cluster === undefined) throw failure('the policy has no access to the cluster');
    if (this.#answers.size >= mostQuestions)
      throw failure(`the policy asks the cluster more than ${mostQuestions} times`);
    if (asked !== undefined) this.asked.push(asked);
    const keep = (answer: Answer): void => void this.#answers.set(key, answer);
    const keepError = (error: unknown): void =>
      keep({ error: error instanceof Error ? error.message : String(error) });
    let value: unknown;
    try {
      value = fetch(this.#cluster, this.#untilSignal());
    } catch (error) {
      keepError(error);
      return this.ask(what, question, undefined, fetch);
    }
    if (value instanceof Promise)
      throw new Pending(value.then((given: unknown) => keep({ value: given }), keepError));
    keep({ value });
    return value;
  }

  #untilSignal(): AbortSignal {
    const leftMs = Math.max(0, Math.ceil(this.#endsAt - performance.now()));
    this.#waiting ??= AbortSignal.any([...this.#signals, AbortSignal.timeout(leftMs)]);
    return this.#waiting;
  }

  async #untilEnd(answered: Promise<void>): Promise<void> {
    const signal = this.#untilSignal();
    const ended = Promise.withResolvers<void>();
    const end = (): void => ended.resolve();
    signal.addEventListener('abort', end, { once: true });
    if (signal.aborted) end();
    try {
      await Promise.race([answered, ended.promise]);
    } finally {
      signal.removeEventListener('abort', end);
    }
    if (!signal.aborted) return;
    this.check();
    throw new EvaluationError('deadline', `${this.#tooLate}: it waited for the cluster`);
  }
}
