/**
 * The webhook that calls a policy: one webhook configuration for each policy, named by the policy's ID. Pure.
 */
import { managedLabels } from '../../../guard/managed-by.ts';
import { clusterKind, type KubeObject } from '../../../lib/kube/object/object.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { maxMatchConditions } from '../engine/cel/match-conditions.ts';
import type { NamedExpression } from '../engine/cel/settings.ts';
import type { Policy } from '../policies/policy.ts';
import { namespaceNameLabel, sparingCondition } from '../policies/spared.ts';
import { serverLabel } from '../server-label.ts';
import type { Wanted } from './server-objects.ts';

const group = 'admissionregistration.k8s.io';
export const validatingType = clusterKind(
  group,
  'validatingwebhookconfigurations',
  'ValidatingWebhookConfiguration',
);
export const mutatingType = clusterKind(
  group,
  'mutatingwebhookconfigurations',
  'MutatingWebhookConfiguration',
);

export interface WebhookParts {
  readonly object: AnyKubewardenPolicy;
  readonly policy: Policy;
  /** Service of the policy server. */
  readonly service: object;
  /** PEM: the authorities that may have signed its certificate. */
  readonly authorities: string;
  /** The namespace of the server itself: no policy of the cluster applies there unless it says so, so that it can always be repaired. */
  readonly systemNamespace: string;
}

export function webhookOf({ object, policy, service, authorities, systemNamespace }: WebhookParts): Wanted {
  const type = policy.isMutating ? mutatingType : validatingType;
  const { spec } = object as { readonly spec: Record<string, unknown> };
  const { id, origin } = policy;
  const matchConditions = matchConditionsOf(policy);
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
    ...(matchConditions.length > 0 && { matchConditions }),
    // Not called again for an object that another webhook has changed since.
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
        ...managedLabels,
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

/** The policy's match conditions, and one more that keeps policies with wildcards from matching what the cluster needs. */
function matchConditionsOf(policy: Policy): readonly NamedExpression[] {
  const { matchConditions } = policy;
  const sparing = sparingCondition(policy);
  if (sparing === undefined) return matchConditions;
  if (matchConditions.length < maxMatchConditions) return [...matchConditions, sparing];
  return matchConditions.map(({ name, expression }, index) =>
    index === 0 ? { name, expression: `(${sparing.expression}) && (${expression})` } : { name, expression },
  );
}

interface Selector {
  readonly matchLabels?: Readonly<Record<string, string>>;
  readonly matchExpressions?: readonly object[];
}

function namespaceSelectorOf(
  { origin, isMutating, isForSystem }: Policy,
  own: Selector | undefined,
  systemNamespace: string,
): Selector {
  if (origin.namespace !== undefined) return { matchLabels: { [namespaceNameLabel]: origin.namespace } };
  // A webhook that may change pods in kube-system controls the cluster: the operator may not write such a webhook (deployment.ts), and the
  // status of the policy says so.
  const values = [...(isForSystem ? [] : [systemNamespace]), ...(isMutating ? ['kube-system'] : [])];
  if (values.length === 0) return own ?? {};
  return {
    ...(own?.matchLabels && { matchLabels: own.matchLabels }),
    matchExpressions: [
      ...(own?.matchExpressions ?? []),
      { key: namespaceNameLabel, operator: 'NotIn', values },
    ],
  };
}
