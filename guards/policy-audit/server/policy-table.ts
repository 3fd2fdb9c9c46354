/**
 * The current policies of a server. They are replaced atomically: a request is answered either by the policies from when it arrived or by
 * the current ones, and a policy is closed only when it has answered its requests.
 */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { Evaluator } from '../engine/evaluator.ts';
import type { PolicyStates } from './policy-states.ts';
import type { ServedPolicy } from './served-policy.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';

/** Opens the runtime of a policy. @throws {Error} why it cannot. */
export type OpenPolicy = (policy: ServedPolicy, signal: AbortSignal) => Promise<Evaluator>;

export interface PolicyTableOptions {
  readonly open: OpenPolicy;
  /**
   * Serve policies that cannot be opened or reject their settings: in their previous version, or by rejecting
   * every request with the reason. Otherwise, the entire change is discarded.
   */
  readonly continueOnErrors: boolean;
  readonly logger: Logger;
}

/** In use by a request. */
export interface PolicyInUse extends Disposable {
  readonly policy: ServedPolicy;
  /** Why it cannot be evaluated. */
  readonly problem: string | undefined;
  readonly evaluator: Evaluator | undefined;
}

interface Entry {
  readonly policy: ServedPolicy;
  /** Unchanged as long as the same code and settings run. */
  readonly identity: string;
  readonly problem: string | undefined;
  readonly evaluator: SharedEvaluator | undefined;
  /** Why the previous version is served. */
  readonly refused?: string;
  /** Whether there may be no problem later, without a change. */
  readonly isOutOfReach?: boolean;
}

/** Opened concurrently: enough to keep the network busy. */
const OPENED_AT_ONCE = 4;

export class PolicyTable implements AsyncDisposable {
  readonly #options: PolicyTableOptions;
  #entries: ReadonlyMap<string, Entry> = new Map();

  constructor(options: PolicyTableOptions) {
    this.#options = options;
  }

  get ids(): readonly string[] {
    return [...this.#entries.keys()];
  }

  /** Why policies cannot be evaluated as written, by their IDs. */
  get problems(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#entries].flatMap(([id, { problem, refused = problem }]) =>
        refused === undefined ? [] : [[id, refused] as const],
      ),
    );
  }

  /** Policies that cannot be evaluated, because their modules are out of reach. */
  get outOfReach(): readonly string[] {
    return [...this.#entries].flatMap(([id, { isOutOfReach = false }]) => (isOutOfReach ? [id] : []));
  }

  /** Whether each is evaluated, for everybody: without what its module or its settings are. */
  get states(): PolicyStates {
    return new Map(
      [...this.#entries].map(([id, { problem, isOutOfReach = false }]) => [
        id,
        problem === undefined ? '' : isOutOfReach ? 'its module is out of reach' : 'it cannot be opened',
      ]),
    );
  }

  /** Undefined if there is no such policy. Dispose it when the request is answered. */
  take(id: string): PolicyInUse | undefined {
    const entry = this.#entries.get(id);
    if (entry === undefined) return undefined;
    const { policy, problem, evaluator } = entry;
    const release = evaluator?.use();
    return { policy, problem, evaluator: evaluator?.evaluator, [Symbol.dispose]: () => release?.() };
  }

  /**
   * Switches to these policies. Unchanged ones keep running.
   *
   * @throws {Error} why one cannot be opened, unless errors are tolerated; nothing has changed then. The signal's reason.
   */
  async replace(policies: readonly ServedPolicy[], signal: AbortSignal): Promise<void> {
    const next = new Map<string, Entry>();
    const opened: SharedEvaluator[] = [];
    try {
      const queue = policies.values();
      const work = async (): Promise<void> => {
        for (const policy of queue) next.set(policy.id, await this.#entryOf(policy, opened, signal));
      };
      await settledAll(Array.from({ length: OPENED_AT_ONCE }, work));
      signal.throwIfAborted();
    } catch (error) {
      await Promise.all(opened.map((evaluator) => evaluator.close()));
      throw error;
    }
    const before = this.#entries;
    // In file order.
    this.#entries = new Map(
      policies.flatMap(({ id }) => {
        const entry = next.get(id);
        return entry === undefined ? [] : [[id, entry] as const];
      }),
    );
    const kept = new Set([...next.values()].map(({ evaluator }) => evaluator));
    for (const { evaluator, policy } of before.values()) {
      if (evaluator === undefined || kept.has(evaluator)) continue;
      evaluator.close().catch((error: unknown) => {
        this.#options.logger.warn({ err: error, policy: policy.id }, 'cannot close a policy');
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const entries = this.#entries;
    this.#entries = new Map();
    await Promise.all([...entries.values()].flatMap(({ evaluator }) => evaluator?.close() ?? []));
  }

  async #entryOf(policy: ServedPolicy, opened: SharedEvaluator[], signal: AbortSignal): Promise<Entry> {
    const identity = identityOf(policy);
    const known = this.#entries.get(policy.id);
    // Retries those that could not be opened: a registry may be back.
    if (known !== undefined && known.identity === identity && known.problem === undefined)
      return { policy, identity, problem: undefined, evaluator: known.evaluator };
    let evaluator: SharedEvaluator | undefined;
    try {
      signal.throwIfAborted();
      evaluator = new SharedEvaluator(await this.#options.open(policy, signal));
      opened.push(evaluator);
      const { valid, message = 'no reason' } = await evaluator.evaluator.validateSettings({ signal });
      if (!valid) throw new Error(`Policy settings are invalid: ${message}`);
      return { policy, identity, problem: undefined, evaluator };
    } catch (error) {
      signal.throwIfAborted();
      const problem = messageOf(error);
      if (!this.#options.continueOnErrors)
        throw new Error(`policy ${policy.id}: ${problem}`, { cause: error });
      const { logger } = this.#options;
      if (known !== undefined && known.problem === undefined) {
        logger.error(
          { policy: policy.id, problem },
          'a policy cannot run: its previous version stays in use',
        );
        await evaluator?.close();
        return { ...known, refused: problem };
      }
      logger.error({ policy: policy.id, problem }, 'a policy cannot run: it rejects every request');
      const isOutOfReach = error instanceof RampartError && error.code === errorCodes.API_UNREACHABLE;
      return { policy, identity, problem, evaluator, isOutOfReach };
    }
  }
}

/** Closed when it is no longer used. */
class SharedEvaluator {
  readonly evaluator: Evaluator;
  #users = 0;
  readonly #idle = Promise.withResolvers<void>();
  #closing = false;

  constructor(evaluator: Evaluator) {
    this.evaluator = evaluator;
  }

  use(): () => void {
    this.#users++;
    let released = false;
    return () => {
      if (released) return;
      released = true;
      if (--this.#users === 0 && this.#closing) this.#idle.resolve();
    };
  }

  async close(): Promise<void> {
    this.#closing = true;
    if (this.#users > 0) await this.#idle.promise;
    await this.evaluator[Symbol.asyncDispose]();
  }
}

/** The identity of its evaluator; mode and messages only affect how its verdicts are reported. */
function identityOf({ program }: ServedPolicy): string {
  return JSON.stringify(program, (_, value: unknown) =>
    value instanceof Map ? { members: [...value] } : value,
  );
}

/** Waits for all of them, even if one fails: nothing is opened after the caller has given up. */
async function settledAll(promises: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(promises))
    if (result.status === 'rejected') throw result.reason as Error;
}
