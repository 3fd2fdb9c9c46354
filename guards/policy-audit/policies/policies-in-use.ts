/** The open policies, those that audits use, and the substitutes for policies that are in use but cannot be opened. */
import type { Logger } from '../../../lib/telemetry/log.ts';
import type { EvaluateOptions, PolicyRequest, Verdict } from '../engine/evaluator.ts';
import { OpenPolicy, type Runtimes } from './open-policy.ts';
import type { Policy } from './policy.ts';
import { StandIn } from './stand-in.ts';

/** A change of the policies in use. */
export interface PolicyChange {
  readonly before: Policy | undefined;
  readonly now: Policy | undefined;
}

interface Substituted {
  readonly policy: OpenPolicy;
  readonly standIn: StandIn;
  /** Version of the policy that the substitute represents. */
  readonly version: string;
}

export class PoliciesInUse {
  readonly #runtimes: Runtimes;
  readonly #logger: Logger;
  readonly #open = new Map<string, OpenPolicy>();
  readonly #substitutes = new Map<string, Substituted>();
  readonly #announced = new Map<string, OpenPolicy>();
  readonly #changed: (change: PolicyChange) => void;
  /** Policies that apply to writes; a new list after each change. */
  enforced: readonly OpenPolicy[] = [];
  /** Policies that objects are audited with; a new list after each change. */
  audited: readonly OpenPolicy[] = [];

  /** @param changed - Called for each policy that is added, replaced or removed. */
  constructor(runtimes: Runtimes, logger: Logger, changed: (change: PolicyChange) => void) {
    this.#runtimes = runtimes;
    this.#logger = logger;
    this.#changed = changed;
  }

  get(id: string): OpenPolicy | undefined {
    return this.#open.get(id);
  }

  /** Whether a policy that is not open is enforced, by its failurePolicy. */
  isSubstituted(id: string): boolean {
    return this.#substitutes.get(id)?.standIn.isEnforced === true;
  }

  /** Uses a policy instead of its previous version. Requests that wait for it continue. */
  use(opened: OpenPolicy): void {
    const { id } = opened.policy;
    const before = this.#open.get(id);
    this.#open.set(id, opened);
    const substitute = this.#substitutes.get(id);
    this.#substitutes.delete(id);
    substitute?.standIn.opened((request, options) => verdictOf(opened, request, options));
    this.#refresh();
    if (before !== undefined) this.#close(before);
  }

  /**
   * Makes requests to a policy that is not open wait until it is, or until the reason is known why it cannot be.
   *
   * @param isEnforced - Whether the policy's failurePolicy then decides on writes.
   */
  substitute(policy: Policy, isEnforced: boolean, problem?: string): void {
    const { id, version } = policy;
    if (this.#open.has(id)) return;
    const known = this.#substitutes.get(id);
    if (known === undefined || known.version !== version) {
      known?.standIn.failed('it was changed');
      const standIn = new StandIn(isEnforced || known?.standIn.isEnforced === true);
      // The version differs so that results are renewed once the policy can be evaluated.
      const described = { ...policy, version: `${version} unavailable` };
      const open = OpenPolicy.unopened(described, this.#runtimes, standIn);
      this.#substitutes.set(id, { policy: open, standIn, version });
      this.#refresh();
    }
    if (problem !== undefined) this.#substitutes.get(id)?.standIn.failed(problem);
  }

  /** Makes audits use the current version of the policy. */
  announce(id: string): void {
    const now = this.#open.get(id) ?? this.#substitutes.get(id)?.policy;
    const before = this.#announced.get(id);
    if (now === undefined || now === before) return;
    this.#announced.set(id, now);
    this.#notify({ before: before?.policy, now: now.policy });
  }

  /** Whether audits use this version of the policy. */
  isAnnounced(open: OpenPolicy): boolean {
    return this.#announced.get(open.policy.id) === open;
  }

  remove(id: string): void {
    const open = this.#open.get(id);
    const substitute = this.#substitutes.get(id);
    this.#open.delete(id);
    this.#substitutes.delete(id);
    this.#refresh();
    const before = this.#announced.get(id);
    if (this.#announced.delete(id)) this.#notify({ before: before?.policy, now: undefined });
    substitute?.standIn.failed('it was deleted');
    if (open !== undefined) this.#close(open);
  }

  async closeAll(): Promise<void> {
    for (const { standIn } of this.#substitutes.values()) standIn.failed('Rampart is being stopped');
    const all = [...this.#open.values()];
    for (const map of [this.#open, this.#substitutes, this.#announced]) map.clear();
    this.enforced = this.audited = [];
    await Promise.allSettled(all.map((one) => one[Symbol.asyncDispose]()));
  }

  #refresh(): void {
    const substitutes = [...this.#substitutes.values()].filter(({ standIn }) => standIn.isEnforced);
    this.enforced = [...this.#open.values(), ...substitutes.map(({ policy }) => policy)].toSorted(byId);
  }

  #notify(change: PolicyChange): void {
    this.audited = [...this.#announced.values()].toSorted(byId);
    this.#changed(change);
  }

  #close(policy: OpenPolicy): void {
    policy[Symbol.asyncDispose]().catch((err: unknown) =>
      this.#logger.warn({ err, policy: policy.policy.id }, 'cannot close a policy'),
    );
  }
}

/** @throws {EvaluationError} if the policy could not be evaluated. */
async function verdictOf(
  open: OpenPolicy,
  request: PolicyRequest,
  { signal, model }: Pick<EvaluateOptions, 'model' | 'signal'>,
): Promise<Verdict> {
  const judgement = await open.ask(request, signal, model);
  if (judgement.type === 'error') throw judgement.error;
  return judgement.type === 'skipped' ? { allowed: true } : judgement.verdict;
}

const byId = (a: OpenPolicy, b: OpenPolicy): number => (a.policy.id < b.policy.id ? -1 : 1);
