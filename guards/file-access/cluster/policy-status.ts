/** The status of a policy: the operator combines what each agent reports on its node. */
import {
  type Condition,
  findCondition,
  removeCondition,
  setCondition,
} from '../../../lib/kube/object/conditions.ts';
import type { KivePolicy } from '../api.ts';
import { compilePolicy } from '../policy/matching.ts';
import { type PolicyNodeStatus, type PolicyStatus, statusOf } from '../policy-status-schema.ts';
import { describeProblem } from '../policy/validation.ts';
import { counted } from '../../../lib/output/words.ts';

/** Problems that the condition names; the others are counted. */
const SHOWN_PROBLEMS = 3;

/** The latest of them: in UTC and whole seconds, so that the later one is the greater text. */
export function lastAlertTimeOf(
  known: string | undefined,
  nodes: readonly PolicyNodeStatus[],
): string | undefined {
  return [known, ...nodes.map((node) => node.lastAlertTime)]
    .filter((time) => time !== undefined)
    .sort()
    .at(-1);
}

/** The status of a policy as the operator writes it; the same object where nothing differs. */
export function clusterStatus(policy: KivePolicy, hasNode: (name: string) => boolean): PolicyStatus {
  const before = statusOf(policy);
  const all = before.nodes ?? [];
  const nodes = all.filter(({ name }) => hasNode(name));
  const sum = (read: (node: PolicyNodeStatus) => number): number =>
    nodes.reduce((total, node) => total + read(node), 0);
  const matchedContainers = sum((node) => node.matchedContainers);
  const watchedFiles = sum((node) => node.watchedFiles);
  // It stays when its node goes.
  const lastAlertTime = lastAlertTimeOf(before.lastAlertTime, nodes);
  const ready = setCondition(before.conditions, {
    type: 'Ready',
    observedGeneration: policy.metadata.generation,
    ...readiness(policy, nodes, { matchedContainers, watchedFiles }),
  });
  const conditions = withDelivering(ready, policy, nodes);
  const same =
    conditions === before.conditions &&
    nodes.length === all.length &&
    matchedContainers === before.matchedContainers &&
    watchedFiles === before.watchedFiles &&
    lastAlertTime === before.lastAlertTime;
  if (same) return before;
  return {
    conditions,
    matchedContainers,
    watchedFiles,
    nodes,
    ...(lastAlertTime !== undefined && { lastAlertTime }),
  };
}

/**
 * The condition Delivering: of policies whose callbacks take no alerts, and of those where it was so before. Ready stays
 * what it is, as the files are watched.
 */
function withDelivering(
  conditions: readonly Condition[],
  { metadata, spec }: KivePolicy,
  nodes: readonly PolicyNodeStatus[],
): readonly Condition[] {
  const all = nodes.flatMap(({ name, callbackProblems = [] }) =>
    callbackProblems.map(({ callback, message }) => `alerts for ${callback} on ${name}: ${message}`),
  );
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
  nodes: readonly PolicyNodeStatus[],
  { matchedContainers, watchedFiles }: { matchedContainers: number; watchedFiles: number },
): Pick<Condition, 'status' | 'reason' | 'message'> {
  const { traps, problems } = compilePolicy(policy);
  if (problems.length > 0) {
    const working =
      traps.length > 0 ? ` The other ${traps.length} ${traps.length === 1 ? 'works' : 'work'}.` : '';
    return {
      status: 'False',
      reason: 'TrapsRefused',
      message: `${problems.map(describeProblem).join(' ')}${working}`,
    };
  }
  if (matchedContainers === 0) {
    return { status: 'False', reason: 'NoMatch', message: 'No running container matches.' };
  }
  const watched = `${counted(watchedFiles, 'file')} in ${counted(matchedContainers, 'container')} ${are(watchedFiles)} watched`;
  const missing = nodes.reduce((total, node) => total + node.problemCount, 0);
  if (missing === 0) return { status: 'True', reason: 'Watching', message: `${watched}.` };
  const shown = nodes
    .flatMap((node) => node.problems ?? [])
    .slice(0, SHOWN_PROBLEMS)
    .map(({ path, container, message }) => `${path} in ${container}: ${message}`);
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
