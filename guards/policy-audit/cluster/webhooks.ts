/**
 * The webhook that calls a policy: one webhook configuration for each policy, named by the policy's ID. Pure.
 */
import type { KubeObject, ResourceType } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import type { Policy } from '../policies/policy.ts';
import { serverLabel, type Wanted } from './server-objects.ts';

const group = 'admissionregistration.k8s.io';
export const validatingType: ResourceType = {
  group,
  version: 'v1',
  plural: 'validatingwebhookconfigurations',
  kind: 'ValidatingWebhookConfiguration',
  namespaced: false,
};
export const mutatingType: ResourceType = {
  group,
  version: 'v1',
  plural: 'mutatingwebhookconfigurations',
  kind: 'MutatingWebhookConfiguration',
  namespaced: false,
};

const namespaceName = 'kubernetes.io/metadata.name';

export interface WebhookParts {
  readonly object: AnyKubewardenPolicy;
  readonly policy: Policy;
  /** Of the policy server. */
  readonly service: object;
  /** PEM: the authorities that may have signed its certificate. */
  readonly authorities: string;
  /** The namespace of the server itself: no policy of the cluster applies there, so that it can always be repaired. */
  readonly systemNamespace: string;
}

export function webhookOf({ object, policy, service, authorities, systemNamespace }: WebhookParts): Wanted {
  const type = policy.isMutating ? mutatingType : validatingType;
  const { spec } = object as { readonly spec: Record<string, unknown> };
  const { id, origin } = policy;
  const webhook = {
    name: `${id}.kubewarden.admission`,
    admissionReviewVersions: ['v1'],
    clientConfig: {
      service: { ...service, path: `/validate/${id}` },
      caBundle: Buffer.from(authorities).toString('base64'),
    },
    rules: spec['rules'],
    failurePolicy: spec['failurePolicy'],
    matchPolicy: spec['matchPolicy'],
    sideEffects: spec['sideEffects'] ?? 'None',
    timeoutSeconds: spec['timeoutSeconds'],
    namespaceSelector: namespaceSelectorOf(
      policy,
      spec['namespaceSelector'] as Selector | undefined,
      systemNamespace,
    ),
    objectSelector: spec['objectSelector'] ?? {},
    ...(policy.matchConditions.length > 0 && { matchConditions: policy.matchConditions }),
    // Called again for an object that another webhook has changed since.
    ...(policy.isMutating && { reinvocationPolicy: 'Never' }),
  };
  const configuration: KubeObject = {
    apiVersion: `${group}/v1`,
    kind: type.kind,
    metadata: {
      name: id,
      labels: {
        kubewarden: 'true',
        'app.kubernetes.io/part-of': 'kubewarden',
        'app.kubernetes.io/managed-by': 'rampart',
        [serverLabel]: policy.policyServer,
      },
      annotations: {
        kubewardenPolicyName: origin.name,
        ...(origin.namespace !== undefined && { kubewardenPolicyNamespace: origin.namespace }),
      },
    },
    ...{ webhooks: [webhook] },
  };
  return { type, object: configuration };
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly object[];
}

function namespaceSelectorOf(
  { origin }: Policy,
  own: Selector | undefined,
  systemNamespace: string,
): Selector {
  if (origin.namespace !== undefined) return { matchLabels: { [namespaceName]: origin.namespace } };
  return {
    ...(own?.matchLabels && { matchLabels: own.matchLabels }),
    matchExpressions: [
      ...(own?.matchExpressions ?? []),
      { key: namespaceName, operator: 'NotIn', values: [systemNamespace] },
    ],
  };
}
