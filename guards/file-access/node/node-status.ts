/** What an agent says of a policy on its node, in the policy's status. */
import { apiTime } from '../../../lib/kube/object/api-time.ts';
import type { KivePolicy } from '../api.ts';
import type { CallbackProblem, PolicyNodeStatus } from '../policy-status-schema.ts';
import type { MatchedTrap } from './looked.ts';

const MAX_PROBLEMS = 10;
const MAX_MESSAGE = 300;

/** What a node says of a policy; undefined when there is nothing to say. */
export function nodeStatus(
  nodeName: string,
  policy: KivePolicy,
  matched: Iterable<MatchedTrap>,
  lastAlertMs: number | undefined,
  callbackProblems: readonly CallbackProblem[] = [],
): PolicyNodeStatus | undefined {
  const containers = new Set<string>();
  const problems: NonNullable<PolicyNodeStatus['problems']>[number][] = [];
  let watchedFiles = 0;
  let problemCount = 0;
  for (const { trap, container, state } of matched) {
    containers.add(container.id);
    if (state.kind === 'watched') {
      watchedFiles++;
      continue;
    }
    problemCount++;
    if (problems.length === MAX_PROBLEMS) continue;
    const { namespace = '', name = '' } = container.pod.metadata;
    problems.push({
      trap: trap.index,
      path: trap.path,
      container: `${namespace}/${name}/${container.name}`,
      message: state.why.slice(0, MAX_MESSAGE),
    });
  }
  if (containers.size === 0 && lastAlertMs === undefined && callbackProblems.length === 0) return undefined;
  const { generation } = policy.metadata;
  return {
    name: nodeName,
    ...(generation !== undefined && { observedGeneration: generation }),
    matchedContainers: containers.size,
    watchedFiles,
    problemCount,
    ...(problems.length > 0 && { problems }),
    ...(callbackProblems.length > 0 && { callbackProblems: callbackProblems.slice(0, MAX_PROBLEMS) }),
    ...(lastAlertMs !== undefined && { lastAlertTime: apiTime(lastAlertMs) }),
  };
}
