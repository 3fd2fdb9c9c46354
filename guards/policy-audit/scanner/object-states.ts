/** The state of each audited object. It takes little memory, since there may be a hundred thousand objects. */
import type { AskedOfCluster } from '../engine/evaluator.ts';
import type { AuditResult } from '../reports/report.ts';
import type { Policy } from '../policies/policy.ts';

/** A policy in one version. */
export type PolicyVersion = Pick<Policy, 'id' | 'version'>;

/** The policies that apply to an object, sorted by ID. Signatures with the same content are the same object. */
export interface Signature {
  readonly policies: readonly PolicyVersion[];
  readonly index: ReadonlyMap<string, number>;
}

/**
 * One letter for the result of each policy in the signature: the first one of pass, fail, error, warn or skip (by
 * an exception); `x` for an error that recurs in every evaluation; `-` if a match condition excluded the policy.
 */
export type Outcome = string;

const letters: Readonly<Record<AuditResult, string>> = {
  ...{ pass: 'p', fail: 'f', error: 'e', warn: 'w' },
  skip: 's',
};
export const skippedLetter = '-';
export const passLetter = letters.pass;
export const errorLetter = letters.error;
export const exceptedLetter = letters.skip;
const lastingErrorLetter = 'x';

/** @param isLasting - For an error: whether the policy always returns it for this object. */
export function letterOf(result: AuditResult | undefined, isLasting = false): string {
  if (result === undefined) return skippedLetter;
  return result === 'error' && isLasting ? lastingErrorLetter : letters[result];
}

/** The change from the earlier letter, if there is one to report: an object that passes a policy at first is not reported. */
export function changeOf(
  before: string | undefined,
  now: string,
): 'errored' | 'failing' | 'passing' | undefined {
  const isError = (letter: string | undefined): boolean =>
    letter === errorLetter || letter === lastingErrorLetter;
  if (now === letters.fail) return before === letters.fail ? undefined : 'failing';
  if (isError(now)) return isError(before) ? undefined : 'errored';
  return before === letters.fail || isError(before) ? 'passing' : undefined;
}

/** What a policy requested when it was evaluated for an object. */
export interface PolicyAsked extends AskedOfCluster {
  /** The ID of the policy. */
  readonly policy: string;
}

export interface ObjectState {
  readonly kind: string;
  /** `namespace/name` */
  readonly key: string;
  /** Version of the object when it was audited. */
  readonly version: string;
  readonly signature: Signature;
  readonly outcome: Outcome;
  /** The exceptions that exempted the object from policies, with their versions; '' without any. */
  readonly exceptions: string;
  /** Digest of the report's content; undefined if there should be no report. */
  readonly digest: string | undefined;
  /** Version of the report. */
  reportVersion: string;
  /** What the policies requested. */
  readonly asked: readonly PolicyAsked[] | undefined;
  /** Number of the full pass during or after which the object was audited. */
  readonly pass: number;
  /** Whether an answer has changed, so that the policies with requests must be evaluated again. */
  isStale: boolean;
  /** Whether another client has changed or removed the report, so that its content cannot be trusted. */
  isForged: boolean;
}

/** A change of an object or, without a name, of any object of the kind. */
export type Change = AskedOfCluster;

/** The states of all objects, keyed by uid. */
export class ObjectStates {
  readonly #states = new Map<string, ObjectState>();
  readonly #signatures = new Map<string, Signature>();
  #latest: Signature = { policies: [], index: new Map() };
  readonly #outcomes = new Map<string, Outcome>();
  /** The uids of objects for which a policy requested objects of a kind, keyed by `apiVersion/kind`. */
  readonly #askers = new Map<string, Set<string>>();
  #hasNewKinds = false;
  /** Changes since the start of each audit in progress. */
  readonly #meanwhile = new Set<Change[]>();
  /** Number of objects with each outcome. */
  readonly #counts = new Map<Outcome, number>();

  get size(): number {
    return this.#states.size;
  }

  get(uid: string): ObjectState | undefined {
    return this.#states.get(uid);
  }

  set(uid: string, state: ObjectState): void {
    this.delete(uid);
    this.#states.set(uid, state);
    this.#counts.set(state.outcome, (this.#counts.get(state.outcome) ?? 0) + 1);
    for (const asked of state.asked ?? []) {
      const kind = kindOf(asked);
      const uids = this.#askers.get(kind);
      if (uids !== undefined) uids.add(uid);
      else {
        this.#askers.set(kind, new Set([uid]));
        this.#hasNewKinds = true;
      }
    }
  }

  delete(uid: string): void {
    const state = this.#states.get(uid);
    if (state === undefined) return;
    this.#states.delete(uid);
    const left = (this.#counts.get(state.outcome) ?? 1) - 1;
    if (left === 0) this.#counts.delete(state.outcome);
    else this.#counts.set(state.outcome, left);
    for (const asked of state.asked ?? []) {
      const kind = kindOf(asked);
      const uids = this.#askers.get(kind);
      uids?.delete(uid);
      if (uids?.size === 0) this.#askers.delete(kind);
    }
  }

  /** Whether a policy has requested objects of that kind. */
  isAsked(apiVersion: string, kind: string): boolean {
    return this.#askers.has(kindOf({ apiVersion, kind }));
  }

  /** Whether new kinds were requested since the last call. */
  takeNewKinds(): boolean {
    const has = this.#hasNewKinds;
    this.#hasNewKinds = false;
    return has;
  }

  /** Marks the objects as stale for which a policy requested something that this change may affect. They must be audited again. */
  changed(change: Change): readonly ObjectState[] {
    for (const changes of this.#meanwhile) changes.push(change);
    const stale: ObjectState[] = [];
    for (const uid of this.#askers.get(kindOf(change)) ?? []) {
      const state = this.#states.get(uid);
      if (state?.asked === undefined || !state.asked.some((asked) => isPartOf(change, asked))) continue;
      state.isStale = true;
      stale.push(state);
    }
    return stale;
  }

  /**
   * Starts an audit, which ends when the result is disposed. {@link changed} does not find an object whose state
   * has not been set yet, so the audit itself must check whether an answer has changed.
   */
  begin(): Disposable & { hasChanged(asked: readonly PolicyAsked[]): boolean } {
    const changes: Change[] = [];
    this.#meanwhile.add(changes);
    return {
      hasChanged: (asked) => changes.some((change) => asked.some((one) => isPartOf(change, one))),
      [Symbol.dispose]: () => void this.#meanwhile.delete(changes),
    };
  }

  /** Number of all objects, of those with at least one fail or warn, and of the others with at least one error. */
  counts(): { readonly objects: number; readonly failing: number; readonly errored: number } {
    let [failing, errored] = [0, 0];
    for (const [outcome, objects] of this.#counts) {
      if (/[fw]/.test(outcome)) failing += objects;
      else if (/[ex]/.test(outcome)) errored += objects;
    }
    return { objects: this.#states.size, failing, errored };
  }

  signature(policies: readonly PolicyVersion[]): Signature {
    // Usually, it is the same as for the previous object.
    if (isOf(this.#latest, policies)) return this.#latest;
    const text = JSON.stringify(policies.map(({ id, version }) => [id, version]));
    let known = this.#signatures.get(text);
    if (known === undefined) {
      // Each change of a policy leaves an old signature behind. They are dropped only when there are many.
      if (this.#signatures.size >= 4096) this.#signatures.clear();
      const own = policies.map(({ id, version }) => ({ id, version }));
      known = { policies: own, index: new Map(own.map(({ id }, at) => [id, at])) };
      this.#signatures.set(text, known);
    }
    this.#latest = known;
    return known;
  }

  outcome(text: string): Outcome {
    const known = this.#outcomes.get(text);
    if (known !== undefined) return known;
    if (this.#outcomes.size >= 4096) this.#outcomes.clear();
    this.#outcomes.set(text, text);
    return text;
  }
}

function kindOf({ apiVersion, kind }: Pick<AskedOfCluster, 'apiVersion' | 'kind'>): string {
  return `${apiVersion}/${kind}`;
}

function isPartOf(change: Change, asked: AskedOfCluster): boolean {
  const { namespace, name } = asked;
  return (
    kindOf(asked) === kindOf(change) &&
    (namespace === undefined || change.namespace === undefined || namespace === change.namespace) &&
    (name === undefined || change.name === undefined || name === change.name)
  );
}

/** Whether two signatures contain the same policies at the same versions. */
export function sameSignature(a: Signature, b: Signature): boolean {
  if (a === b) return true;
  return isOf(a, b.policies);
}

function isOf({ policies }: Signature, others: readonly PolicyVersion[]): boolean {
  if (policies.length !== others.length) return false;
  return policies.every(({ id, version }, at) => others[at]?.id === id && others[at].version === version);
}
