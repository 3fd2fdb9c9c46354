/**
 * The requests of an evaluation to the outside world. Expressions run synchronously: one that asks for something unknown
 * is interrupted, and run again once the answer is there. Answers are kept until the end of the evaluation, so that it sees one
 * state of the world.
 */
import { setImmediate } from 'node:timers/promises';

import type { AccessCheck, AccessDecision } from '../../../../lib/cel/authorizer.ts';
import { CelError, failure } from '../../../../lib/cel/failure.ts';
import { messageOf } from '../../../../lib/errors/errors.ts';
import { orAborted } from '../../../../lib/time/abort.ts';
import { EvaluationError, type AskedOfCluster, type EvaluateOptions, type JsonObject } from '../evaluator.ts';
import { askedAccess } from '../host-calls/cluster-reader.ts';
import type { ClusterReader, ListReference, ObjectReference, World } from './cluster.ts';

/** Limit for one evaluation; `object.spec.containers.all(c, kw.k8s...get(c.name))` makes many requests. */
const maxQuestions = 256;
const defaultDeadlineMs = 2_000;
/** How long a policy may occupy the thread, apart from finishing the current expression. */
const sliceMs = 25;

/** Interrupts an expression until its request is answered. Not a CEL error: nothing may swallow it. */
class Pending extends Error {
  readonly answered: Promise<void>;

  constructor(answered: Promise<void>) {
    super('a request to the cluster is pending');
    this.answered = answered;
  }
}

interface Answer {
  readonly value?: unknown;
  readonly error?: string;
}

function evaluationError(error: unknown): EvaluationError {
  if (error instanceof EvaluationError) return error;
  // A CelError here comes from a request made before any expression ran, such as that for the object's namespace.
  const why = error instanceof CelError ? 'expression' : 'trap';
  return new EvaluationError(why, messageOf(error), { cause: error });
}

let current: Asks | undefined;

/** An evaluation that can be repeated after an interruption. */
interface Resumed {
  /** Starts the evaluation again; answers that are already known are reused. */
  rewind(): void;
}

/** The requests of the current evaluation. */
export function currentAsks(): Asks {
  if (current === undefined) throw failure('this expression cannot query the cluster');
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
  readonly #world: World;
  readonly #signals: readonly AbortSignal[];
  readonly #deadlineMs: number;
  readonly #endsAt: number;
  readonly #evaluations = new Map<string, Resumed>();
  #pauseAt: number;
  #waiting: AbortSignal | undefined;

  /** @param closed - Aborted once the policy is closed. */
  constructor(
    world: World,
    { signal, deadlineMs = defaultDeadlineMs }: EvaluateOptions,
    closed?: AbortSignal,
  ) {
    this.#world = world;
    this.#signals = [signal, closed].filter((one) => one !== undefined);
    this.#deadlineMs = deadlineMs;
    const nowMs = performance.now();
    this.#endsAt = nowMs + deadlineMs;
    this.#pauseAt = nowMs + sliceMs;
    this.check(nowMs);
  }

  /**
   * The evaluation of this name: always the same, however often the policy is run.
   *
   * @param make - Creates the evaluation, and may make requests.
   */
  evaluation<T extends Resumed>(name: string, make: () => T): T {
    // Evaluations of the same name have the same type.
    const evaluation = (this.#evaluations.get(name) as T | undefined) ?? make();
    this.#evaluations.set(name, evaluation);
    evaluation.rewind();
    return evaluation;
  }

  /** Called between two expressions. If the evaluation has taken long, other work gets a turn. @throws {EvaluationError} like `check`. */
  pause(): void {
    const nowMs = performance.now();
    this.check(nowMs);
    if (nowMs < this.#pauseAt) return;
    throw new Pending(setImmediate());
  }

  /** @throws {EvaluationError} if the time is up, or the evaluation was cancelled. */
  check(nowMs = performance.now()): void {
    for (const { aborted, reason } of this.#signals) {
      if (aborted) throw new EvaluationError('aborted', 'the evaluation was cancelled', { cause: reason });
    }
    if (nowMs > this.#endsAt) throw new EvaluationError('deadline', this.#tooLate);
  }

  get #tooLate(): string {
    return `the evaluation took longer than ${this.#deadlineMs} ms`;
  }

  /** Runs the function again until all its requests have been answered. @throws {EvaluationError} */
  async answered<T>(run: () => T): Promise<T> {
    for (;;) {
      try {
        return within(this, run);
      } catch (error) {
        if (!(error instanceof Pending)) throw evaluationError(error);
        await this.#untilEnd(error.answered);
        this.check();
        this.#pauseAt = performance.now() + sliceMs;
      }
    }
  }

  /** The requested object; undefined if it does not exist. @throws {CelError} */
  object(reference: ObjectReference): JsonObject | undefined {
    const { apiVersion, kind, namespace, name } = reference;
    const known = { apiVersion, kind, name, ...(namespace !== undefined && { namespace }) };
    return this.#askCluster('get', known, known, (cluster, signal) => cluster.get(known, signal));
  }

  /** @throws {CelError} */
  list(reference: ListReference): JsonObject {
    const { apiVersion, kind, namespace } = reference;
    const known = { apiVersion, kind, ...(namespace !== undefined && { namespace }) };
    return this.#askCluster('list', reference, known, (cluster, signal) => cluster.list(reference, signal));
  }

  /** A check that fails is a decision, too: expressions see its error through `errored()`. */
  access(check: AccessCheck): AccessDecision {
    const { access } = this.#world;
    if (access === undefined) return { allowed: false, error: 'the policy has no authorizer' };
    const errored = (error: unknown): AccessDecision => ({ allowed: false, error: messageOf(error) });
    if (!this.asked.includes(askedAccess)) this.asked.push(askedAccess);
    return this.#ask(`access ${JSON.stringify(check)}`, (signal) => {
      try {
        const decision = access(check, signal);
        return decision instanceof Promise ? decision.catch(errored) : decision;
      } catch (error) {
        return errored(error);
      }
    });
  }

  #askCluster<T>(
    what: string,
    question: object,
    asked: AskedOfCluster,
    fetch: (cluster: ClusterReader, signal: AbortSignal) => T | Promise<T>,
  ): T {
    const { cluster } = this.#world;
    if (cluster === undefined) throw failure('the policy has no access to the cluster');
    const key = `${what} ${JSON.stringify(question)}`;
    if (!this.#answers.has(key)) this.asked.push(asked);
    return this.#ask(key, (signal) => fetch(cluster, signal));
  }

  /** The answer, if it is known or available immediately. @throws {Pending} if it has to be waited for. */
  #ask<T>(key: string, fetch: (signal: AbortSignal) => T | Promise<T>): T {
    if (!this.#answers.has(key)) this.#fetch(key, fetch);
    const known = this.#answers.get(key);
    if (known?.error !== undefined) throw failure(known.error);
    return known?.value as T;
  }

  #fetch(key: string, fetch: (signal: AbortSignal) => unknown): void {
    if (this.#answers.size >= maxQuestions)
      throw failure(`the policy makes more than ${maxQuestions} requests to the cluster`);
    const keep = (answer: Answer): void => void this.#answers.set(key, answer);
    const keepError = (error: unknown): void => keep({ error: messageOf(error) });
    let value: unknown;
    try {
      value = fetch(this.#untilSignal());
    } catch (error) {
      keepError(error);
      return;
    }
    if (value instanceof Promise)
      throw new Pending(value.then((given: unknown) => keep({ value: given }), keepError));
    keep({ value });
  }

  #untilSignal(): AbortSignal {
    const leftMs = Math.max(0, Math.ceil(this.#endsAt - performance.now()));
    this.#waiting ??= AbortSignal.any([...this.#signals, AbortSignal.timeout(leftMs)]);
    return this.#waiting;
  }

  async #untilEnd(answered: Promise<void>): Promise<void> {
    const signal = this.#untilSignal();
    try {
      await orAborted(answered, signal);
    } catch (error) {
      if (!signal.aborted) throw error;
      this.check();
      throw new EvaluationError('deadline', `${this.#tooLate}: it waited for the cluster`);
    }
  }
}
