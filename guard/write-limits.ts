/**
 * Limits of the agent's and the operator's writes beyond RBAC: only objects of their own, and no content that
 * would extend the rights of whoever has their token. deploy/ ships the limits as
 * ValidatingAdmissionPolicies.
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
  /** With their subresources: `bpfprograms/status`. */
  readonly resources: readonly string[];
  /** CEL: whether an object may be written. Evaluated for the new and the old object. */
  readonly allows?: (object: string) => string;
  /** CEL about `object`, as it will be; `oldObject` is null if it is created. */
  readonly written?: string;
  /** The permitted objects, for the message of a refusal: `those of the node in its token`. */
  readonly what: string;
}

/** Limits of guards, and of their shared parts. A write passes if one limit of its resource allows it. */
export interface WriteLimits {
  readonly agent?: readonly WriteLimit[];
  readonly operator?: readonly WriteLimit[];
}

/** CEL: the node of the agent, from its token (Kubernetes 1.30 and later); '' for a token that is bound to no pod. */
export const node = 'variables.node';
export const nodeClaim = 'authentication.kubernetes.io/node-name';
/** CEL: the label or annotation of an object; '' without it. */
export const labelOf = (object: string, key: string): string =>
  `${object}.metadata.?labels[?'${key}'].orValue('')`;
export const annotationOf = (object: string, key: string): string =>
  `${object}.metadata.?annotations[?'${key}'].orValue('')`;
export const nameOf = (object: string): string => `${object}.metadata.name`;

/** CEL: whether a label value is that of the node. A longer name than a label holds counts by its beginning. */
export const isLabelOfNode = (value: string): string =>
  `(${value} == ${node} || size(${node}) > 63 && ${value}.startsWith(${node}.substring(0, 20)))`;

/** Only metadata may change: finalizers and annotations. */
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
      // The name of a long one is a digest.
      allows: (it) =>
        `(${nameOf(it)} == 'rampart-agent-' + ${node} || size(${node}) > 200 && ${nameOf(it)}.startsWith('rampart-agent-'))`,
      written: `${annotationOf('object', agentNodeAnnotation)} == ${node} && ${labelOf('object', agentLeaseLabel)} != ''`,
      what: 'that of the node in its token',
    },
    {
      ...leases,
      // A boot ID; which one is that of the node, only the node knows.
      allows: (it) =>
        `${nameOf(it)}.matches('^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$') && ${labelOf(it, kernelLeaseLabel)} == ${nameOf(it)}`,
      written:
        `${holder} == '' || ${holder}.startsWith(${node} + '_') || ` +
        `request.operation == 'UPDATE' && ${holder} == oldObject.spec.?holderIdentity.orValue('')`,
      what: 'that of a kernel, for itself',
    },
  ],
};
