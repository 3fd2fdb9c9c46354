/** The lines of this guard: what a policy decided about a write or an object, and how that is shown to people. */
import type { Decision, LineKind, PrettyLineOptions } from '../../../guard/line-kind.ts';
import { type FindingHead, findingLine, type ObjectReference } from '../../../guard/stream/finding.ts';
import { dateBefore } from '../../../lib/output/date-before.ts';
import { clockTime, printable } from '../../../lib/output/printable.ts';
import { paint } from '../../../lib/output/table.ts';

/** `errored`: the policy could not be evaluated. */
export type PolicyVerdict = 'errored' | 'failing' | 'monitored' | 'passing' | 'rejected';

/** The keys of a line that follow those of a FindingHead. */
export interface PolicyFinding {
  /** `admission`: a write; `audit`: an object that exists; `policy`: the policy itself. */
  readonly origin: 'admission' | 'audit' | 'policy';
  /** The policy's ID in policy servers and webhooks: `clusterwide-no-root`. */
  readonly policyId: string;
  /** Operation of a write: `CREATE`, `UPDATE`, `DELETE`, `CONNECT`. */
  readonly operation?: string;
  /** The user who sent the write. */
  readonly user?: string;
  /** The write was a dry run: nothing would have been stored. */
  readonly dryRun?: true;
  /** The reason given by the policy, or why it could not be evaluated; empty if the policy gives no reason. */
  readonly reason: string;
  /** How many similar findings were folded since the last one. */
  readonly folded: number;
}

const kind = 'PolicyFinding';

export function policyFindingLine(
  head: Pick<FindingHead, 'message' | 'object' | 'policy' | 'severity'> & { readonly verdict: PolicyVerdict },
  finding: PolicyFinding,
  timeMs: number,
): string {
  return findingLine(
    // The name of the node is empty: the API refuses writes, not a node.
    { guard: 'policy-audit', kind, time: new Date(timeMs).toISOString(), node: { name: '' }, ...head },
    finding,
  );
}

export const policyFindings: LineKind = {
  kind,
  view({ head, timeNs, keys }) {
    const { origin, policyId, reason, folded, dryRun } = keys as Partial<PolicyFinding>;
    const isWhole =
      typeof origin === 'string' &&
      typeof policyId === 'string' &&
      typeof reason === 'string' &&
      typeof folded === 'number';
    if (!isWhole) return undefined;
    const next = explainWords(head.object, origin);
    return {
      ...(next && { next }),
      ...(head.verdict === 'rejected' && dryRun !== true && { decision: decisionOf(head, policyId) }),
      pretty: (options) => formatFinding(head, { reason, folded, policyId }, timeNs, options),
    };
  },
};

/** The decision that a refusal calls for: whether the policy is wrong, or the writer. */
function decisionOf({ object }: FindingHead, policyId: string): Decision {
  const { kind: of = '', namespace = '', name = '' } = object ?? {};
  return {
    key: [policyId, of, namespace, name].join('\0'),
    isOpen: true,
    what: ['refused write', 'refused writes'],
  };
}

/** The arguments of `rampart audit explain`; undefined for an object that is not in the cluster, since its write was refused. */
export function explainWords(
  object: Pick<ObjectReference, 'kind' | 'name' | 'namespace'> | null,
  origin = 'audit',
): string[] | undefined {
  if (origin !== 'audit' || object === null || object.name === '') return undefined;
  const { kind: of, namespace, name } = object;
  const where = namespace === '' ? [] : ['-n', namespace];
  return ['audit', 'explain', `${of.toLowerCase()}/${name}`, ...where];
}

const OBJECT_COLUMNS = 40;

/**
 * @example
 * // 10:00:00.123   rejected      Pod shop/web                              the root user is not allowed  ClusterAdmissionPolicy no-root
 */
function formatFinding(
  { verdict, object, policy }: FindingHead,
  { reason, folded, policyId }: Pick<PolicyFinding, 'folded' | 'policyId' | 'reason'>,
  timeNs: bigint,
  { colour, nowMs }: PrettyLineOptions,
): string {
  const timeMs = Number(timeNs / 1_000_000n);
  const what = object === null ? '' : shownObject(object);
  const subject = `  ${verdict.padEnd(12)}  ${printable(what).padEnd(OBJECT_COLUMNS)}`;
  const shown = verdict === 'passing' ? subject : paint('red', subject, colour);
  const by = policy === null ? policyId : shownObject(policy);
  const more = folded === 0 ? '' : ` (${folded} more like it before)`;
  const after = paint('dim', printable(by), colour);
  return `${dateBefore(timeMs, nowMs)}${clockTime(timeMs)} ${shown}  ${printable(reason)}${more}  ${after}`;
}

/** `Pod shop/web`, `Namespace shop` */
export function shownObject({ kind: of, namespace, name }: ObjectReference): string {
  return `${of} ${namespace === '' ? name : `${namespace}/${name}`}`;
}
