/** The policies of a PolicyServer: whether each can run, and the status of those that are waiting for the server. Pure. */
import type { ResourceType } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { problemText } from '../engine/cel/settings.ts';
import { policyFaults } from '../policies/faults.ts';
import type { Policy } from '../policies/policy.ts';
import { type Status, waiting } from '../policies/policy-status.ts';
import { policyId, readKubewardenPolicy } from '../policies/read-policy.ts';

export interface Scheduled {
  readonly id: string;
  readonly type: ResourceType;
  readonly object: AnyKubewardenPolicy;
  /** Undefined if the policy cannot be parsed. */
  readonly policy: Policy | undefined;
  /** Why the current version cannot run; '' if it can. */
  readonly problem: string;
  /** Whether the policy was tried, so that it is known if it can run. */
  readonly isTried: boolean;
}

/** @param refusal - Result of the policy's trial: why it cannot run, or '' if it can; undefined if it was not tried. */
export function scheduled(
  type: ResourceType,
  object: AnyKubewardenPolicy,
  refusal: string | undefined,
): Scheduled {
  const typed = { ...object, kind: type.kind, apiVersion: `${type.group}/${type.version}` };
  const id = policyId(typed);
  const faults = policyFaults(typed).map(problemText).join('; ');
  const problem = faults === '' ? (refusal ?? '') : faults;
  const more = { problem, isTried: problem !== '' || refusal !== undefined };
  try {
    return { id, type, object: typed, policy: readKubewardenPolicy(typed), ...more };
  } catch {
    return { id, type, object: typed, policy: undefined, ...more };
  }
}

export function canRun({ policy, problem, isTried }: Scheduled): boolean {
  return policy !== undefined && problem === '' && isTried;
}

export function pending(object: AnyKubewardenPolicy): Status {
  return waiting(object, 'pending', 'PolicyServerRollingOut', 'its PolicyServer is rolling out');
}
