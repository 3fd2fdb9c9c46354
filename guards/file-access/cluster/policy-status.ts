/** Computes the status of a policy: the operator combines what agents report for their nodes. */
import { isDeepStrictEqual } from 'node:util';

import {
  type Condition,
  findCondition,
  removeCondition,
  setCondition,
} from '../../../lib/kube/object/conditions.ts';
import type { KivePolicy } from '../api.ts';
import { compilePolicy } from '../policy/matching.ts';
import {
  isMatched,
  MAX_CALLBACK_PROBLEMS,
  MAX_PROBLEMS,
  type NodePart,
  type PolicyPart,
  type PolicyStatus,
  statusOf,
} from '../policy-status-schema.ts';
import { defaultScope, type PolicyScope } from '../policy/policy-scope.ts';
import { describeProblem, noMatchMessage } from '../policy/validation.ts';
import { compareText } from '../../../lib/output/compare-text.ts';
import { counted } from '../../../lib/output/words.ts';

/** How many problems the condition names; the others are only counted. */
const SHOWN_PROBLEMS = 3;
const SHOWN_NODES = 3;

/** The latest of these times. All are in UTC and whole seconds, so that texts can be compared. */
export function lastAlertTimeOf(known: string | undefined, parts: readonly NodePart[]): string | undefined {
  return [known, ...parts.map((part) => part.lastAlertTime)]
    .filter((time) => time !== undefined)
    .sort()
    .at(-1);
}

/**
 * The status of a policy as the operator writes it; the same object if nothing changes.
 *
 * @param parts - The nodes' parts for this policy.
 */
export function clusterStatus(
  policy: KivePolicy,
  parts: readonly NodePart[],
  scope: PolicyScope = defaultScope,
): PolicyStatus {
  const before = statusOf(policy);
  const sum = (read: (part: NodePart) => number): number =>
    parts.reduce((total, part) => total + read(part), 0);
  const counts = {
    matchedContainers: sum((part) => part.matchedContainers),
    watchedFiles: sum((part) => part.watchedFiles),
    problemCount: sum((part) => part.problemCount),
    matchedNodes: parts.filter(isMatched).length,
  };
  // A node's time is kept even after the node is deleted.
  const lastAlertTime = lastAlertTimeOf(before.lastAlertTime, parts);
  const ready = setCondition(before.conditions, {
    type: 'Ready',
    observedGeneration: policy.metadata.generation,
    ...readiness(policy, parts, counts, scope),
  });
  const problems = parts.flatMap(({ node, problems: of = [] }) => of.map((one) => ({ node, ...one })));
  const callbackProblems = parts.flatMap(({ node, callbackProblems: of = [] }) =>
    of.map((one) => ({ node, ...one })),
  );
  const status: PolicyStatus = {
    conditions: withDelivering(ready, policy, callbackProblems),
    scope: scope.isWide(policy.metadata.namespace ?? '') ? 'Cluster' : 'Namespace',
    ...counts,
    ...(lastAlertTime !== undefined && { lastAlertTime }),
    ...(problems.length > 0 && { problems: problems.slice(0, MAX_PROBLEMS) }),
    ...(callbackProblems.length > 0 && {
      callbackProblems: callbackProblems.slice(0, MAX_CALLBACK_PROBLEMS),
    }),
  };
  return isDeepStrictEqual(status, before) ? before : status;
}

/**
 * Sets the condition Delivering, for policies whose callbacks do not accept alerts, or did not earlier. The condition Ready does not
 * change, since the files are watched.
 */
function withDelivering(
  conditions: readonly Condition[],
  { metadata, spec }: KivePolicy,
  problems: readonly { readonly node: string; readonly callback: string; readonly message: string }[],
): readonly Condition[] {
  const all = problems.map(({ node, callback, message }) => `alerts for ${callback} on ${node}: ${message}`);
  const type = 'Delivering';
  if (all.length === 0) {
    if (findCondition(conditions, type) === undefined) return conditions;
    if (!spec.traps.some(({ callback }) => callback)) return removeCondition(conditions, type);
  }
  const more = all.length > SHOWN_PROBLEMS ? ` And ${all.length - SHOWN_PROBLEMS} more.` : '';
  return setCondition(conditions, {
    type,
    observedGeneration: metadata.generation,
    ...(all.length === 0
      ? { status: 'True', reason: 'Delivering', message: 'No callback is known to reject alerts.' }
      : {
          status: 'False',
          reason: 'CallbackFailing',
          message: `Not delivered: ${all.slice(0, SHOWN_PROBLEMS).join('; ')}.${more}`,
        }),
  });
}

function readiness(
  policy: KivePolicy,
  parts: readonly NodePart[],
  counts: {
    readonly matchedContainers: number;
    readonly matchedNodes: number;
    readonly watchedFiles: number;
    readonly problemCount: number;
  },
  scope: PolicyScope,
): Pick<Condition, 'status' | 'reason' | 'message'> {
  const { matchedContainers, matchedNodes, watchedFiles, problemCount: missing } = counts;
  const { traps, problems } = compilePolicy(policy, scope);
  if (problems.length > 0) {
    const working =
      traps.length > 0 ? ` The other ${traps.length} ${traps.length === 1 ? 'works' : 'work'}.` : '';
    return {
      status: 'False',
      reason: 'TrapsRefused',
      message: `${problems.map(describeProblem).join(' ')}${working}`,
    };
  }
  if (matchedNodes === 0) {
    return { status: 'False', reason: 'NoMatch', message: noMatchMessage(policy, scope) };
  }
  const behind = parts.filter((part) => isMatched(part) && !isCurrentPart(part, policy));
  if (behind.length > 0) {
    const names = behind.slice(0, SHOWN_NODES).map(({ node }) => node);
    const more = behind.length > SHOWN_NODES ? ` and ${behind.length - SHOWN_NODES} more` : '';
    return {
      status: 'Unknown',
      reason: 'NodesBehind',
      message: `${counted(behind.length, 'node')} ${behind.length === 1 ? 'has' : 'have'} reported only on an older version of the policy: ${names.join(', ')}${more}.`,
    };
  }
  const hosts = parts.filter(({ host }) => host).length;
  const where = [
    ...(matchedContainers > 0 ? [`in ${counted(matchedContainers, 'container')}`] : []),
    ...(hosts > 0 ? [`on ${counted(hosts, 'node')}`] : []),
  ].join(' and ');
  const watched = `${counted(watchedFiles, 'file')} ${where} ${are(watchedFiles)} watched`;
  if (missing === 0) return { status: 'True', reason: 'Watching', message: `${watched}.` };
  const shown = parts
    .flatMap(({ node, problems: of = [] }) => of.map((one) => ({ node, ...one })))
    .slice(0, SHOWN_PROBLEMS)
    .map(
      ({ node, path, container, message }) =>
        `${path} ${container === '' ? `on ${node}` : `in ${container}`}: ${message}`,
    );
  const more = missing > shown.length ? ` And ${missing - shown.length} more.` : '';
  return {
    status: 'False',
    reason: 'FilesMissing',
    message: `${watched}, ${missing} ${are(missing)} not. ${shown.join('; ')}.${more}`,
  };
}

function are(count: number): string {
  return count === 1 ? 'is' : 'are';
}

/** Parts about the policy with this uid, by node: there may also be parts about an earlier policy with the same name. */
export function partsOf(uid: string | undefined, parts: Iterable<NodePart>): NodePart[] {
  return [...parts].filter((part) => part.uid === uid).toSorted((a, b) => compareText(a.node, b.node));
}

/** Whether the part is about the current version of the policy. */
export function isCurrentPart({ observedGeneration }: PolicyPart, { metadata }: KivePolicy): boolean {
  return observedGeneration === undefined || observedGeneration >= (metadata.generation ?? 0);
}
