/**
 * What is known about an object before it is audited: results of this process, or the report of an earlier one.
 * The report is read at most once.
 */
import type { KubeObject } from '../../../lib/kube/object/object.ts';
import type { OpenPolicy } from '../policies/open-policy.ts';
import { property, type ReportResult } from '../reports/report.ts';
import type { Reports } from '../reports/reports.ts';
import {
  errorLetter,
  exceptedLetter,
  letterOf,
  type ObjectState,
  passLetter,
  type PolicyAsked,
  skippedLetter,
} from './object-states.ts';

/** The previous result of a policy. */
export interface Before {
  readonly letter: string;
  /** Undefined if there is no result for reports. */
  readonly result?: ReportResult;
}

export interface EarlierOptions {
  readonly store: Reports;
  /** Whether reports contain only results other than `pass`. */
  readonly failuresOnly: boolean;
  /** Whether everything is evaluated again, and no earlier result is reused. */
  readonly isForced: boolean;
  /** Whether a policy requested something whose changes are not reported, so that this pass must request it again. */
  readonly isUnreported: (state: ObjectState, asked: readonly PolicyAsked[]) => boolean;
  readonly isPass: boolean;
  readonly signal: AbortSignal;
}

type Report = Awaited<ReturnType<Reports['read']>>;

export class EarlierResults {
  readonly #object: KubeObject;
  /** What this process knows about the object. */
  readonly #state: ObjectState | undefined;
  readonly #options: EarlierOptions;
  #report: Promise<Report> | undefined;

  constructor(object: KubeObject, state: ObjectState | undefined, options: EarlierOptions) {
    this.#object = object;
    this.#state = state;
    this.#options = options;
  }

  /** Whether any earlier result is known. */
  get isKnown(): boolean {
    return this.#state !== undefined || this.#hasReport;
  }

  /** The letter of a policy's earlier result, see object-states.ts. */
  async letter(policyId: string): Promise<string | undefined> {
    if (this.#state !== undefined) return this.#letterIn(this.#state, policyId);
    const result = this.#hasReport ? await this.#result(policyId) : undefined;
    return result && letterOf(result.result);
  }

  /** The earlier result of a policy if it still holds; undefined if the policy must be evaluated. */
  async held(open: OpenPolicy): Promise<Before | undefined> {
    const { resourceVersion = '' } = this.#object.metadata;
    const state = this.#state;
    if (this.#options.isForced) return undefined;
    if (state !== undefined)
      return state.isForged || state.version !== resourceVersion ? undefined : this.#heldBy(state, open);
    if (!this.#hasReport) return undefined;
    const report = await this.#read();
    if (report?.scope?.resourceVersion !== resourceVersion) return undefined;
    const { policy } = open;
    const result = await this.#result(policy.id);
    if (result === undefined || result.result === 'error' || result.result === 'skip') return undefined;
    const { properties } = result;
    const isOf =
      properties[property.uid] === policy.origin.uid &&
      properties[property.resourceVersion] === policy.origin.resourceVersion;
    // The requests of that evaluation are not in the report.
    const hasAsked = properties[property.contextAware] !== undefined || policy.isContextAware;
    return isOf && !hasAsked ? { letter: letterOf(result.result), result } : undefined;
  }

  /**
   * The earlier result of a policy that cannot be evaluated now, whatever the versions of the object and the
   * policy were then. Undefined if the policy is enforced and no result is known: then the result is the error
   * itself.
   */
  async kept({ policy, isEnforced }: OpenPolicy): Promise<Before | undefined> {
    const result = await this.#result(policy.id);
    // `skip` came from an exception, which has ended: it is no result for the object.
    if (result !== undefined && result.result !== 'skip') return { letter: letterOf(result.result), result };
    // A report that contains only failures has no `pass`, so the state of this process decides.
    if (this.#options.failuresOnly)
      return { letter: (this.#state && this.#letterIn(this.#state, policy.id)) ?? skippedLetter };
    return isEnforced ? undefined : { letter: skippedLetter };
  }

  async #heldBy(state: ObjectState, { policy }: OpenPolicy): Promise<Before | undefined> {
    const { isPass, isUnreported, failuresOnly } = this.#options;
    const at = state.signature.index.get(policy.id);
    if (at === undefined || state.signature.policies[at]?.version !== policy.version) return undefined;
    const asked = askedBy(policy, state);
    if (asked.length > 0 && (state.isStale || (isPass && isUnreported(state, asked)))) return undefined;
    const letter = state.outcome[at] ?? '';
    if (letter === skippedLetter) return { letter };
    if (letter === exceptedLetter || (letter === errorLetter && isPass)) return undefined;
    const result = await this.#result(policy.id);
    if (result !== undefined) return { letter, result };
    return letter === passLetter && failuresOnly ? { letter } : undefined;
  }

  #letterIn({ outcome, signature }: ObjectState, policyId: string): string | undefined {
    return outcome[signature.index.get(policyId) ?? -1];
  }

  get #hasReport(): boolean {
    const { namespace = '', uid = '' } = this.#object.metadata;
    return this.#options.store.facts(namespace, uid) !== undefined;
  }

  async #result(policyId: string): Promise<ReportResult | undefined> {
    return (await this.#read())?.results.find(({ policy }) => policy === policyId);
  }

  #read(): Promise<Report> {
    const { namespace = '', uid = '' } = this.#object.metadata;
    const { store, signal } = this.#options;
    return (this.#report ??= store.read(namespace, uid, signal));
  }
}

/** What a policy requested when it was evaluated for an object. */
export function askedBy(
  { id }: OpenPolicy['policy'],
  known: ObjectState | undefined,
): readonly PolicyAsked[] {
  return known?.asked?.filter(({ policy }) => policy === id) ?? [];
}
