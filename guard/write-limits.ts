/**
 * Limits of the agent's and the operator's writes beyond RBAC: each may write only its own objects, and no content that would extend the
 * rights of whoever has its token. deploy/ ships the limits as ValidatingAdmissionPolicies.
 */
import { agentLeaseLabel, agentNodeAnnotation, kernelLeaseLabel } from './agent-lease-names.ts';

/**
 * @example
 * const ownState: WriteLimit = {
 *   group: 'doors.example.com',
 *   resources: ['doorstates', 'doorstates/status'],
 *   allows: (it) => `${nameOf(it)} == ${node}`,
 *   what: 'those of the node in its token',
 * };
 */
export interface WriteLimit {
  readonly group: string;
  /** Subresources are listed separately: `bpfprograms/status`. */
  readonly resources: readonly string[];
  /** CEL: whether an object may be written. Evaluated for the new and the old object. */
  readonly allows?: (object: string) => string;
  /** CEL about `object`, the object after the write; `oldObject` is null if it is created. */
  readonly written?: string;
  /** The permitted objects, named in the message of a refusal: `those of the node in its token`. */
  readonly what: string;
}

/** Limits of guards, and of their shared parts. A write passes if one limit of its resource allows it. */
export interface WriteLimits {
  readonly agent?: readonly WriteLimit[];
  readonly operator?: readonly WriteLimit[];
}

/** CEL: the agent's node, from its token (Kubernetes 1.30 and later); '' if the token is not bound to a pod. */
export const node = 'variables.node';
export const nodeClaim = 'authentication.kubernetes.io/node-name';
/** CEL: the value of a label or annotation of an object; '' if it does not have it. */
export const labelOf = (object: string, key: string): string =>
  `${object}.metadata.?labels[?'${key}'].orValue('')`;
export const annotationOf = (object: string, key: string): string =>
  `${object}.metadata.?annotations[?'${key}'].orValue('')`;
export const nameOf = (object: string): string => `${object}.metadata.name`;

/** CEL: whether a label's value stands for the agent's node. For a name too long for a label, only the beginning is compared. */
export const isLabelOfNode = (value: string): string =>
  `(${value} == ${node} || size(${node}) > 63 && ${value}.startsWith(${node}.substring(0, 20)))`;

/** CEL: the spec is unchanged, so only metadata may change: finalizers and annotations. */
export const sameSpec =
  'has(object.spec) == has(oldObject.spec) && (!has(object.spec) || object.spec == oldObject.spec)';
export const onlyMetadata = (group: string, resources: readonly string[]): WriteLimit => ({
  group,
  resources,
  written: sameSpec,
  what: 'metadata: spec stays as users have written it',
});

const leases = { group: 'coordination.k8s.io', resources: ['leases'] } as const;
const holder = "object.spec.?holderIdentity.orValue('')";

export const sharedLimits: WriteLimits = {
  agent: [
    {
      ...leases,
      // For a long node name, the Lease's name ends in a digest.
      allows: (it) =>
        `(${nameOf(it)} == 'rampart-agent-' + ${node} || size(${node}) > 200 && ${nameOf(it)}.startsWith('rampart-agent-'))`,
      written: `${annotationOf('object', agentNodeAnnotation)} == ${node} && ${labelOf('object', agentLeaseLabel)} != ''`,
      what: 'that of the node in its token',
    },
    {
      ...leases,
      // The name is a boot ID; only the node itself knows its own.
      allows: (it) =>
        `${nameOf(it)}.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && ${labelOf(it, kernelLeaseLabel)} == ${nameOf(it)}`,
      written:
        `${holder} == '' || ${holder}.startsWith(${node} + '_') || ` +
        `request.operation == 'UPDATE' && ${holder} == oldObject.spec.?holderIdentity.orValue('')`,
      what: 'that of a kernel, for itself',
    },
  ],
};
