/** Writes the results of policies to the stream of findings, with a limit for each policy, verdict and namespace. */
import { type ObjectReference, severities, type Severity } from '../../../guard/stream/finding.ts';
import { FindingLimiter } from '../../../guard/stream/finding-limiter.ts';
import { printable } from '../../../lib/output/printable.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { type PolicyFinding, policyFindingLine, type PolicyVerdict, shownObject } from './policy-finding.ts';

/** What a line contains about a policy. */
export interface ReportedPolicy {
  readonly id: string;
  /** Null if only the policy's ID is known, as for one in a file that was written by hand. */
  readonly reference: ObjectReference | null;
  /** The severity that the policy declares; an unknown word counts as no severity. */
  readonly severity: string | undefined;
}

/** A write that a policy did not allow, or for which it could not be evaluated. */
export interface ReportedWrite {
  readonly verdict: 'errored' | 'monitored' | 'rejected';
  readonly operation: string;
  readonly user: string;
  readonly isDryRun: boolean;
  /** Null for a review that is not about an object. The name is empty if the API has yet to generate it. */
  readonly object: ObjectReference | null;
  readonly reason: string;
  /** Only if the policy could not be evaluated: whether the write was refused. */
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

/** Limit of the reason in the message, in characters. The key `reason` contains all of it. */
const MAX_REASON = 500;

/** Limit per minute for findings of audits, for each policy, verdict and namespace. */
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

  /** How many findings were folded. */
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

  /** Reports that an object has begun or ceased to violate a policy, or that it cannot be evaluated. */
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

  /** @param problem - Why the policy cannot be evaluated as written; undefined: it can be evaluated again. */
  policy(policy: ReportedPolicy, problem: string | undefined): void {
    const name = nameOf(policy);
    const [verdict, message] =
      problem === undefined
        ? (['passing', `${name} is evaluated again`] as const)
        : (['errored', `${name} cannot be evaluated as written`] as const);
    this.#notify(policy, verdict, policy.reference, message, { origin: 'policy', reason: problem ?? '' });
  }

  /**
   * The key includes the user, and whether the write is a dry run: so one user's findings do not fold those of
   * others, nor do dry runs. Audits have a higher limit, since each of their changes is reported only once.
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
