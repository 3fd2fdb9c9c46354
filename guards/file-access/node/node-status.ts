/** An agent's report on the policies of its node, in the KiveNodeStatus. */
import { visibleText } from '../../../lib/output/printable.ts';
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import type { KiveNodeStatus, KivePolicy } from '../api.ts';
import { type CallbackProblem, MAX_MESSAGE, MAX_PARTS, type PolicyPart } from '../policy-status-schema.ts';
import { hostId, placeText } from '../kive-data.ts';
import type { MatchedTrap } from './looked.ts';

const MAX_PROBLEMS = 10;
const MAX_PATH = 4096;
/** Below etcd's limit of 1.5 MiB, with room for the metadata. */
const MAX_BYTES = 1_000_000;

/** A node's report on a policy; undefined if there is nothing to report. */
export function partOf(
  policy: KivePolicy,
  matched: Iterable<MatchedTrap>,
  lastAlertMs: number | undefined,
  callbackProblems: readonly CallbackProblem[] = [],
): PolicyPart | undefined {
  const containers = new Set<string>();
  const problems: NonNullable<PolicyPart['problems']>[number][] = [];
  let host = false;
  let watchedFiles = 0;
  let problemCount = 0;
  for (const { trap, container, state } of matched) {
    if (container.id === hostId) host = true;
    else containers.add(container.id);
    if (state.kind === 'watched') {
      watchedFiles++;
      if (state.partly === undefined) continue;
    }
    problemCount++;
    if (problems.length === MAX_PROBLEMS) continue;
    problems.push({
      trap: trap.index,
      path: trap.path.slice(0, MAX_PATH),
      container: placeText(container),
      message: visibleText(state.kind === 'watched' ? (state.partly ?? '') : state.why).slice(0, MAX_MESSAGE),
    });
  }
  if (containers.size === 0 && !host && lastAlertMs === undefined && callbackProblems.length === 0)
    return undefined;
  const { namespace = '', name = '', uid = '', generation } = policy.metadata;
  return {
    namespace,
    name,
    uid,
    ...(generation !== undefined && { observedGeneration: generation }),
    matchedContainers: containers.size,
    ...(host && { host }),
    watchedFiles,
    problemCount,
    ...(problems.length > 0 && { problems }),
    ...(callbackProblems.length > 0 && { callbackProblems: callbackProblems.slice(0, MAX_PROBLEMS) }),
    ...(lastAlertMs !== undefined && { lastAlertTime: apiTime(lastAlertMs) }),
  };
}

/** A KiveNodeStatus besides its metadata. */
export type NodeStatusBody = Omit<KiveNodeStatus, 'apiVersion' | 'kind' | 'metadata'>;

/**
 * The node's report on all policies. If it is too large, texts of problems are omitted first, then whole
 * policies; both are counted.
 */
export function nodeStatusOf(parts: readonly PolicyPart[], maxBytes = MAX_BYTES): NodeStatusBody {
  const sum = (read: (part: PolicyPart) => number): number =>
    parts.reduce((total, part) => total + read(part), 0);
  const policies = parts.slice(0, MAX_PARTS);
  let bytes = bytesOf(policies);
  let omittedProblems = 0;
  for (let at = policies.length - 1; bytes > maxBytes && at >= 0; at--) {
    const part = policies[at]!;
    const { problems = [], callbackProblems = [], ...rest } = part;
    policies[at] = rest;
    omittedProblems += problems.length + callbackProblems.length;
    bytes -= bytesOf(part) - bytesOf(rest);
  }
  while (bytes > maxBytes) bytes -= bytesOf(policies.pop());
  return {
    policyCount: parts.length,
    matchedContainers: sum((part) => part.matchedContainers),
    watchedFiles: sum((part) => part.watchedFiles),
    problemCount: sum((part) => part.problemCount),
    omittedProblems,
    omittedPolicies: parts.length - policies.length,
    policies,
  };
}

function bytesOf(value: unknown): number {
  return Buffer.byteLength(JSON.stringify(value));
}
