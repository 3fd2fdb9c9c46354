/**
 * The current policies of a server. They are replaced atomically: a request is answered either by the policies at
 * its arrival or by the current ones, and a policy is closed only after it has answered its requests.
 */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { Evaluator } from '../engine/evaluator.ts';
import type { PolicyStates } from './policy-states.ts';
import type { ServedPolicy } from './served-policy.ts';
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';

/** Opens the evaluator of a policy. @throws {Error} that says why it cannot be opened */
export type OpenPolicy = (policy: ServedPolicy, signal: AbortSignal) => Promise<Evaluator>;

export interface PolicyTableOptions {
  readonly open: OpenPolicy;
  /**
   * Whether policies that cannot be opened, or that reject their settings, are served all the same: in their
   * previous version, or by refusing every request with the reason. If false, the entire change is discarded.
   */
  readonly continueOnErrors: boolean;
  readonly logger: Logger;
}

/** A policy while a request uses it. */
export interface PolicyInUse extends Disposable {
  readonly policy: ServedPolicy;
  /** Why the policy cannot be evaluated; undefined if it can. */
  readonly problem: string | undefined;
  readonly evaluator: Evaluator | undefined;
}

interface Entry {
  readonly policy: ServedPolicy;
  /** Stays the same as long as the same code runs with the same settings. */
  readonly identity: string;
  readonly problem: string | undefined;
  readonly evaluator: SharedEvaluator | undefined;
  /** Why the previous version is served; undefined if the current one is. */
  readonly refused?: string;
  /** Whether the problem may disappear without a change of the policy. */
  readonly isOutOfReach?: boolean;
}

/** Maximum number of policies opened concurrently: enough to keep the network busy. */
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

  /** Why policies cannot be evaluated as written, keyed by their IDs. */
  get problems(): ReadonlyMap<string, string> {
    return new Map(
      [...this.#entries].flatMap(([id, { problem, refused = problem }]) =>
        refused === undefined ? [] : [[id, refused] as const],
      ),
    );
  }

  /** Policies that cannot be evaluated because their modules cannot be fetched. */
  get outOfReach(): readonly string[] {
    return [...this.#entries].flatMap(([id, { isOutOfReach = false }]) => (isOutOfReach ? [id] : []));
  }

  /** Whether each policy is evaluated. May be read by everyone, so it contains no details about modules or settings. */
  get states(): PolicyStates {
    return new Map(
      [...this.#entries].map(([id, { problem, isOutOfReach = false }]) => [
        id,
        problem === undefined ? '' : isOutOfReach ? 'its module is out of reach' : 'it cannot be opened',
      ]),
    );
  }

  /** The policy, in use until it is disposed; undefined if it does not exist. Dispose it when the request has been answered. */
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
   * @throws {Error} that says why a policy cannot be opened, unless errors are tolerated, or the signal's reason.
   * Nothing has changed then.
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
    // The order is that of the file.
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
    // Policies that could not be opened are retried: a registry may be available again.
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

/** An evaluator that is closed when it is no longer used. */
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

/** The identity of the policy's evaluator. Mode and messages are not part of it: they only affect how verdicts are reported. */
function identityOf({ program }: ServedPolicy): string {
  return JSON.stringify(program, (_, value: unknown) =>
    value instanceof Map ? { members: [...value] } : value,
  );
}

/** Waits for all promises even if one fails, so that nothing is opened after the caller has given up. */
async function settledAll(promises: readonly Promise<void>[]): Promise<void> {
  for (const result of await Promise.allSettled(promises))
    if (result.status === 'rejected') throw result.reason as Error;
}
