/** The audit of one object: results that still hold are kept, and the other policies are evaluated. */
import { type KubeObject, objectKey } from '../../../lib/kube/object/object.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';
import type { Labels } from '../../../lib/kube/selectors/selectors.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { eachOf } from '../../../lib/time/each-of.ts';
import { loopSlice } from '../../../lib/time/loop-slice.ts';
import type { AskedOfCluster, GroupVersionResource, PolicyRequest } from '../engine/evaluator.ts';
import type { Exception } from '../exceptions/exception.ts';
import type { ExceptionSet } from '../exceptions/exception-set.ts';
import { matchPolicy } from '../policies/match.ts';
import type { PolicyFindings } from '../findings/policy-findings.ts';
import type { Evaluation, OpenPolicy } from '../policies/open-policy.ts';
import { reportedPolicy } from '../policies/policy.ts';
import {
  type AuditReport,
  digestOf,
  exceptedResult,
  objectReport,
  type ReportResult,
  type ReportTypes,
  resultOf,
} from '../reports/report.ts';
import { policyMarks } from '../reports/report-facts.ts';
import type { Reports } from '../reports/reports.ts';
import {
  changeOf,
  errorLetter,
  exceptedLetter,
  letterOf,
  type ObjectState,
  type ObjectStates,
  type PolicyAsked,
  sameSignature,
  type Signature,
} from './object-states.ts';
import { auditTarget } from './audit-target.ts';
import { askedBy, type Before, EarlierResults } from './earlier-results.ts';
import { objectRequest, scopeOf } from './object-request.ts';
import type { ServedKind } from './served-kinds.ts';

export interface ObjectAuditOptions {
  readonly client: KubeClient;
  readonly states: ObjectStates;
  readonly store: Reports;
  readonly types: ReportTypes;
  /** Whether only results other than `pass` are written, and no report if there are no such results. */
  readonly failuresOnly: boolean;
  /** Maximum number of policies evaluated concurrently for one object. */
  readonly parallelPolicies: number;
  /** Uid of this process, for the label of reports. */
  readonly runUid: string;
  /** Returns the labels of a namespace; undefined if it does not exist. */
  readonly namespaceLabels: (name: string) => Labels | undefined;
  /** Whether changes of this object are reported. If not, each full pass requests it again. */
  readonly isFollowed: (asked: AskedOfCluster) => boolean;
  /** Called with each evaluation. */
  readonly onEvaluated: (evaluation: Evaluation, result: ReportResult | undefined) => void;
  /** Exceptions that exempt objects from policies. Default: none. */
  readonly exceptions?: Pick<ExceptionSet, 'find' | 'isEmpty'> | undefined;
  /** Receives results that have changed. */
  readonly findings?: Pick<PolicyFindings, 'audited'> | undefined;
  readonly clock?: Clock;
}

/** A policy that applies to an object, and the version of the object that it sees. */
type Relevant = readonly [OpenPolicy, GroupVersionResource];

interface Found extends Before {
  readonly asked: readonly PolicyAsked[];
}

export interface AuditOptions {
  /** Whether everything that is known is ignored. */
  readonly isForced?: boolean;
  /**
   * Whether this is a full pass: it also retries policies that could not be evaluated, and those that requested
   * something whose changes are not reported.
   */
  readonly isPass?: boolean;
}

/** The outcome of an audit of one object. */
export type Audited = 'audited' | 'known' | 'unwanted';

export class ObjectAudit {
  /** The number of full passes that have begun. */
  passes = 0;
  readonly #options: ObjectAuditOptions;
  readonly #clock: Clock;

  constructor(options: ObjectAuditOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
  }

  /**
   * Audits an object, and writes its report if that has changed.
   *
   * @param policies - The policies that apply to the object's kind.
   * @throws {KubeError} or the signal's reason: the object then has to be audited again.
   */
  async audit(
    kind: ServedKind,
    object: KubeObject,
    policies: readonly OpenPolicy[],
    signal: AbortSignal,
    { isForced = false, isPass = false }: AuditOptions = {},
  ): Promise<Audited> {
    const { states, store } = this.#options;
    const { uid = '', namespace = '', resourceVersion = '' } = object.metadata;
    const relevant = this.relevant(kind, object, policies);
    const known = isForced ? undefined : states.get(uid);
    if (relevant.length === 0) {
      await this.forget(namespace, uid, signal);
      return 'unwanted';
    }
    const signature = states.signature(relevant.map(([{ policy }]) => policy));
    const excepted = this.#excepted(kind, object, relevant);
    const exceptions = exceptionsText(excepted);
    if (
      known !== undefined &&
      known.exceptions === exceptions &&
      this.#holds(known, resourceVersion, signature, isPass)
    ) {
      return 'known';
    }
    if (
      known === undefined &&
      !isForced &&
      exceptions === '' &&
      this.#adopt(kind, object, relevant, signature)
    )
      return 'known';
    using meanwhile = states.begin();
    const earlier = new EarlierResults(object, states.get(uid), {
      ...{ store, signal, isForced, isPass, failuresOnly: this.#options.failuresOnly },
      isUnreported: (state, asked) => this.#isUnreported(state, asked),
    });
    const letters = await this.#lettersOf(earlier, relevant);
    const found: Found[] = [];
    await eachOf(relevant.entries(), this.#options.parallelPolicies, async ([at, [open, version]]) => {
      const exception = excepted[at];
      if (exception !== undefined) {
        const result = exceptedResult(open.policy, exception, this.#clock.wallMs());
        found[at] = { letter: exceptedLetter, result, asked: [] };
        return;
      }
      const isAvailable = open.unavailable === undefined;
      const old =
        isAvailable && !earlier.isKnown
          ? undefined
          : await (isAvailable ? earlier.held(open) : earlier.kept(open));
      if (loopSlice.over) await loopSlice.next();
      // If the earlier result holds, the policy would now make the same requests.
      found[at] =
        old === undefined
          ? await this.#evaluate(
              open,
              await objectRequest(this.#options.client, kind, version, object, signal),
              signal,
            )
          : { ...old, asked: askedBy(open.policy, known) };
    });
    const results = found.flatMap(({ result }) => result ?? []);
    const asked = found.flatMap((one) => one.asked);
    const shown = this.#options.failuresOnly
      ? results.filter(({ result }) => result !== 'pass' && result !== 'skip')
      : results;
    const state = {
      kind: kind.key,
      key: objectKey(object),
      version: resourceVersion,
      signature,
      outcome: states.outcome(found.map(({ letter }) => letter).join('')),
      exceptions,
      asked: asked.length === 0 ? undefined : unique(asked),
      pass: this.passes,
      isForged: false,
    };
    if (shown.length === 0) {
      await store.delete(namespace, uid, known?.reportVersion, signal);
      states.set(uid, {
        ...state,
        isStale: meanwhile.hasChanged(asked),
        digest: undefined,
        reportVersion: '',
      });
      this.#notify(kind, object, relevant, found, letters);
      return 'audited';
    }
    const next = objectReport(this.#options.types, scopeOf(kind, object), shown, this.#options.runUid);
    const digest = digestOf(next);
    // A forced report is always written, so that its time shows when it was made.
    const reportVersion = await this.#write(next, isForced ? undefined : digest, known, signal);
    if (reportVersion === undefined) return 'audited';
    states.set(uid, { ...state, isStale: meanwhile.hasChanged(asked), digest, reportVersion });
    this.#notify(kind, object, relevant, found, letters);
    return 'audited';
  }

  /** The letters of the earlier results, at the indexes of the policies. They are read before the report is written. */
  #lettersOf(
    earlier: EarlierResults,
    relevant: readonly Relevant[],
  ): Promise<readonly (string | undefined)[]> | readonly [] {
    if (this.#options.findings === undefined || !earlier.isKnown) return [];
    return Promise.all(relevant.map(([{ policy }]) => earlier.letter(policy.id)));
  }

  /** Called after the report was written, so that a restart does not report the same findings again. */
  #notify(
    { type }: ServedKind,
    { metadata: { namespace = '', name = '' } }: KubeObject,
    relevant: readonly Relevant[],
    found: readonly Found[],
    letters: readonly (string | undefined)[],
  ): void {
    const { findings } = this.#options;
    if (findings === undefined) return;
    for (const [at, [{ policy }]] of relevant.entries()) {
      const { letter = '', result } = found[at] ?? {};
      const verdict = changeOf(letters[at], letter);
      if (verdict === undefined) continue;
      const isExcepted = result?.result === 'skip';
      const reason = verdict === 'passing' && !isExcepted ? '' : (result?.message ?? '');
      findings.audited(reportedPolicy(policy), verdict, { kind: type.kind, namespace, name }, reason);
    }
  }

  async #evaluate(open: OpenPolicy, request: PolicyRequest, signal: AbortSignal): Promise<Found> {
    const { policy } = open;
    const beganMs = performance.now();
    const judgement = await open.ask(request, signal);
    const latencyMs = performance.now() - beganMs;
    const result = resultOf(policy, judgement, this.#clock.wallMs());
    this.#options.onEvaluated({ policy, request, judgement, latencyMs }, result);
    const { asked } = judgement;
    const isLasting =
      judgement.type === 'error' && judgement.error.why === 'expression' && asked.length === 0;
    return {
      letter: letterOf(result?.result, isLasting),
      ...(result !== undefined && { result }),
      asked: asked.map((one) => ({ ...one, policy: policy.id })),
    };
  }

  /** Removes the report of an object that is gone or that no policy applies to. */
  async forget(namespace: string, uid: string, signal: AbortSignal): Promise<void> {
    const { states, store } = this.#options;
    await store.delete(namespace, uid, states.get(uid)?.reportVersion, signal);
    states.delete(uid);
  }

  /** The policies that apply to an object, sorted by ID. */
  relevant(kind: ServedKind, object: KubeObject, policies: readonly OpenPolicy[]): readonly Relevant[] {
    const target = auditTarget(kind, object, this.#options.namespaceLabels);
    const found: Relevant[] = [];
    for (const open of policies) {
      if (!open.policy.backgroundAudit) continue;
      const shown = matchPolicy(open.policy, target);
      if (typeof shown !== 'string') found.push([open, shown]);
    }
    return found;
  }

  /** For each item of `relevant`, the exception that exempts the object; empty if there are no exceptions at all. */
  #excepted(
    { type }: ServedKind,
    { metadata: { namespace = '', name = '', labels = {} } }: KubeObject,
    relevant: readonly Relevant[],
  ): readonly (Exception | undefined)[] {
    const { exceptions } = this.#options;
    if (exceptions === undefined || exceptions.isEmpty) return [];
    const target = { group: type.group, kind: type.kind, namespace, name, labels };
    return relevant.map(([{ policy }]) => exceptions.find(policy.origin, target));
  }

  #holds(known: ObjectState, version: string, signature: Signature, isPass: boolean): boolean {
    if (known.version !== version || known.isStale || known.isForged) return false;
    if (isPass && known.pass < this.passes && known.outcome.includes(errorLetter)) return false;
    if (isPass && this.#isUnreported(known, known.asked)) return false;
    return sameSignature(known.signature, signature);
  }

  /** Whether the object was audited before this pass, and the policy requested something whose changes are not reported. */
  #isUnreported({ pass }: ObjectState, asked: readonly PolicyAsked[] = []): boolean {
    return pass < this.passes && asked.some((one) => !this.#options.isFollowed(one));
  }

  /** Adopts the report of an earlier process if it matches the current object and policies. @returns whether it does */
  #adopt(kind: ServedKind, object: KubeObject, relevant: readonly Relevant[], signature: Signature): boolean {
    const { states, store, failuresOnly } = this.#options;
    const { uid = '', namespace = '', resourceVersion = '' } = object.metadata;
    const found = store.facts(namespace, uid);
    if (found === undefined || failuresOnly || found.scope.resourceVersion !== resourceVersion) return false;
    if (relevant.some(([{ policy }]) => policy.isContextAware)) return false;
    if (found.outcome.includes(exceptedLetter)) return false;
    // Policies that could not be evaluated earlier may be evaluated now.
    if (found.outcome.includes(errorLetter)) return false;
    if (found.marks !== policyMarks(relevant.map(([{ policy }]) => policy))) return false;
    states.set(uid, {
      kind: kind.key,
      key: objectKey(object),
      version: resourceVersion,
      signature,
      outcome: states.outcome(found.outcome),
      exceptions: '',
      digest: found.digest,
      reportVersion: found.version,
      asked: undefined,
      pass: this.passes,
      isStale: false,
      isForged: false,
    });
    return true;
  }

  /** @param digest - Digest of the report: a report with the same digest is not written again. Undefined: the report is always written. */
  async #write(
    report: AuditReport,
    digest: string | undefined,
    known: ObjectState | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { store } = this.#options;
    const { namespace = '', name: uid = '' } = report.metadata;
    if (digest !== undefined && known?.digest === digest && !known.isForged) return known.reportVersion;
    const cached = store.facts(namespace, uid);
    if (digest !== undefined && cached?.digest === digest && known?.digest === undefined)
      return cached.version;
    const written = known === undefined || known.reportVersion === '' ? undefined : known.reportVersion;
    const version = known?.isForged === true ? cached?.version : (written ?? cached?.version);
    return store.write(report, version, signal);
  }
}

function exceptionsText(excepted: readonly (Exception | undefined)[]): string {
  return excepted
    .map((one) => (one === undefined ? '' : `${one.key} ${one.version}`))
    .join(',')
    .replace(/^,+$/, '');
}

function unique(asked: readonly PolicyAsked[]): readonly PolicyAsked[] {
  return [...new Map(asked.map((one) => [JSON.stringify(one), one])).values()];
}
