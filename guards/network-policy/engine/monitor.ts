/**
 * Monitor mode: packets that policies do not allow pass, and are reported as packets that would be refused. A
 * direction of a pod is monitored if all policies that isolate the pod in it are in monitor mode: as soon as one
 * of them is not, packets are refused.
 */
import type { MetadataObject } from './objects.ts';
import type { PolicyKey, PolicyWarning } from './rules.ts';

/** On a NetworkPolicy, or on a Namespace for all its policies; the name that is proposed for kube-router (cloudnativelabs/kube-router#2141). */
export const monitorAnnotation = 'kube-router.io/network-policy.monitor';

export const policyModes = ['enforce', 'monitor'] as const;
export type PolicyMode = (typeof policyModes)[number];

const plainValues: readonly string[] = ['true', 'false', ''];
/** Longer values are truncated in messages. */
const SHOWN = 40;

export function monitorModeOf({ annotations }: MetadataObject): PolicyMode {
  return annotations?.[monitorAnnotation] === 'true' ? 'monitor' : 'enforce';
}

/** Why the annotation of an object is ignored: a sentence; undefined if it applies, or turns monitor mode off. */
export function misreadMonitor({ annotations }: MetadataObject): string | undefined {
  const value = annotations?.[monitorAnnotation] ?? '';
  if (plainValues.includes(value)) return undefined;
  return `${JSON.stringify(value.slice(0, SHOWN))} does not count: only "true" is monitor mode.`;
}

/** The message of {@link misreadMonitor} about a Namespace, for one of its policies. */
export function namespaceWarning(policy: PolicyKey, message: string): PolicyWarning {
  return { policy, field: `metadata.annotations of Namespace ${policy.split('/')[0]}`, message };
}
