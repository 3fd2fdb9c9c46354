/** Writes what policies say into the stream of findings, limited for each policy, verdict and namespace. */
import { type ObjectReference, severities, type Severity } from '../../../guard/stream/finding.ts';
import { FindingLimiter } from '../../../guard/stream/finding-limiter.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { type PolicyFinding, policyFindingLine, type PolicyVerdict, shownObject } from './policy-finding.ts';

/** The facts about a policy that a line needs. */
export interface ReportedPolicy {
  readonly id: string;
  /** Null if only its id is known, as in a file that a person wrote. */
  readonly reference: ObjectReference | null;
  /** The policy's own; an unknown word counts as no severity. */
  readonly severity: string | undefined;
}

/** A write that a policy did not allow, or could not be asked about. */
export interface ReportedWrite {
  readonly verdict: 'errored' | 'monitored' | 'rejected';
  readonly operation: string;
  readonly user: string;
  readonly isDryRun: boolean;
  /** Its name is empty if the API will generate it; null for a review of something else. */
  readonly object: ObjectReference | null;
  readonly reason: string;
  /** Whether the write was refused, if the policy could not be evaluated. */
  readonly isRefused: boolean;
}

export interface PolicyFindingsOptions {
  readonly sink: (line: string) => void;
  readonly clock?: Clock;
}

/** Metric of {@link PolicyFindings.folded}. */
export const foldedMetric = {
  name: 'rampart_policy_findings_folded_total',
  help: 'Findings that were not told by themselves because there were too many like them.',
} as const;

/** The reason is whole in its own key. */
const MAX_REASON = 500;

/** Limit for a policy, verdict and namespace. */
const AUDITS_A_MINUTE = 1000;

export class PolicyFindings {
  readonly #options: PolicyFindingsOptions;
  readonly #clock: Clock;
  readonly #writes: FindingLimiter;
  readonly #audits: FindingLimiter;

  constructor(options: PolicyFindingsOptions) {
    this.#options = options;
    this.#clock = options.clock ?? systemClock;
    this.#writes = new FindingLimiter({ clock: this.#clock });
    this.#audits = new FindingLimiter({ clock: this.#clock, limit: AUDITS_A_MINUTE });
  }

  /** How many were folded. */
  get folded(): number {
    return this.#writes.folded + this.#audits.folded;
  }

  write(policy: ReportedPolicy, write: ReportedWrite): void {
    const { verdict, operation, user, isDryRun, object, reason, isRefused } = write;
    const what = `${operation} of ${object === null ? 'a request' : shownObject(object)} by ${user || 'an unknown user'}`;
    const name = nameOf(policy);
    const messages = {
      rejected: `${what} was rejected by ${name}`,
      monitored: `${what} was let through, although ${name} in monitor mode does not allow it`,
      errored: `${name} could not be evaluated for ${what}, which was ${isRefused ? 'rejected' : 'let through'}`,
    };
    this.#notify(policy, verdict, object, messages[verdict], {
      origin: 'admission',
      operation,
      user,
      ...(isDryRun && { dryRun: true }),
      reason,
    });
  }

  /** An object has begun or ceased to violate a policy, or cannot be judged. */
  audited(
    policy: ReportedPolicy,
    verdict: 'errored' | 'failing' | 'passing',
    object: ObjectReference,
    reason: string,
  ): void {
    const [name, what] = [nameOf(policy), shownObject(object)];
    const messages = {
      failing: `${what} violates ${name}`,
      passing: `${what} does not violate ${name} any more`,
      errored: `${name} could not be evaluated for ${what}`,
    };
    this.#notify(policy, verdict, object, messages[verdict], { origin: 'audit', reason });
  }

  /** @param problem - Why it cannot be evaluated as written; undefined: it is evaluated again. */
  policy(policy: ReportedPolicy, problem: string | undefined): void {
    const name = nameOf(policy);
    const [verdict, message] =
      problem === undefined
        ? (['passing', `${name} is evaluated again`] as const)
        : (['errored', `${name} cannot be evaluated as written`] as const);
    this.#notify(policy, verdict, policy.reference, message, { origin: 'policy', reason: problem ?? '' });
  }

  /**
   * The key includes the user and whether it is a dry run, so that neither folds the findings of others.
   * Changes of audits are reported once: they have more room.
   */
  #take(key: string, { origin, user, dryRun }: Omit<PolicyFinding, 'folded' | 'policyId'>) {
    if (origin !== 'admission') return this.#audits.take(key);
    return this.#writes.take(JSON.stringify([key, user, dryRun === true]));
  }

  #notify(
    { id, reference, severity }: ReportedPolicy,
    verdict: PolicyVerdict,
    object: ObjectReference | null,
    message: string,
    finding: Omit<PolicyFinding, 'folded' | 'policyId'>,
  ): void {
    const folded = this.#take(`${id} ${finding.origin} ${verdict} ${object?.namespace ?? ''}`, finding);
    if (folded === undefined) return;
    const { reason } = finding;
    const why = reason === '' ? '' : `: ${printable(reason.trim().slice(0, MAX_REASON)).replace(/\.$/, '')}`;
    this.#options.sink(
      policyFindingLine(
        {
          ...{ object, policy: reference, verdict },
          severity: verdict === 'passing' ? 'info' : verdict === 'errored' ? 'high' : severityOf(severity),
          message: `${printable(message)}${why}.`,
        },
        { ...finding, policyId: id, folded },
        this.#clock.wallMs(),
      ),
    );
  }
}

function nameOf({ id, reference }: ReportedPolicy): string {
  return reference === null ? `policy ${id}` : shownObject(reference);
}

function severityOf(own: string | undefined): Severity {
  return severities.find((one) => one === own) ?? 'medium';
}
