/** PolicyServer, as Kubewarden has it released. */
import { conditionList } from '../../shared/kube/crd/condition-list.ts';
import {
  anyObject,
  anyValue,
  integer,
  intOrString,
  list,
  mapOf,
  object,
  optional,
  rule,
  string,
} from '../../shared/kube/crd/schema.ts';

const quantities = (description: string) => optional(mapOf(intOrString(), { description }));

export const policyServerSpec = object(
  {
    image: string({ description: 'The image of the server.' }),
    replicas: integer({ description: 'How many pods serve.', format: 'int32', minimum: 0 }),
    minAvailable: optional(
      intOrString({ description: 'Of its PodDisruptionBudget; not with maxUnavailable.' }),
    ),
    maxUnavailable: optional(
      intOrString({ description: 'Of its PodDisruptionBudget; not with minAvailable.' }),
    ),
    annotations: optional(mapOf(string(), { description: 'For its pods.' })),
    env: optional(list(anyObject(), { description: 'Environment of its container, as in a pod.' })),
    serviceAccountName: optional(string({ description: 'What its pods run as.' })),
    imagePullSecret: optional(string({ description: 'The Secret for registries that modules come from.' })),
    insecureSources: optional(
      list(string(), {
        description: 'Registries that are asked without TLS, or whose certificate is not checked.',
      }),
    ),
    sourceAuthorities: optional(
      mapOf(list(string()), { description: 'By registry: certificate authorities in PEM.' }),
    ),
    verificationConfig: optional(
      string({
        description: 'The ConfigMap whose key verification-config says which signatures modules need.',
      }),
    ),
    sigstoreTrustConfig: optional(
      string({
        description:
          'The ConfigMap whose key sigstore-trust-config has the Sigstore trust root for signatures without keys.',
      }),
    ),
    securityContexts: optional(
      object(
        {
          container: optional(anyObject({ description: 'As in a container.' })),
          pod: optional(anyObject({ description: 'As in a pod.' })),
        },
        { description: 'Security contexts of its pods.' },
      ),
    ),
    affinity: optional(anyObject({ description: 'As in a pod.' })),
    limits: quantities('Resources that its container takes at most.'),
    requests: quantities('Resources that its container asks for.'),
    tolerations: optional(list(anyValue(), { description: 'As in a pod.' })),
    priorityClassName: optional(string({ description: 'As in a pod.' })),
    namespacedPoliciesCapabilities: optional(
      list(string({ minLength: 1 }), {
        description:
          "Host calls that namespaced policies may use: 'oci/v1/verify', 'net/*', '*'. All by default.",
      }),
    ),
  },
  {
    rules: [
      rule(
        '!(has(self.minAvailable) && has(self.maxUnavailable))',
        'minAvailable and maxUnavailable cannot be both set',
      ),
    ],
  },
);

export const policyServerStatus = object({ conditions: optional(conditionList()) });
