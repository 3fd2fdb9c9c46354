/** The schema of PolicyServer, as in Kubewarden's release. */
import { conditionList } from '../../lib/kube/crd/condition-list.ts';
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
} from '../../lib/kube/crd/schema.ts';

const port = (description: string) =>
  optional(integer(description, { format: 'int32', minimum: 1, maximum: 65_535 }));

const quantities = (description: string) => optional(mapOf(intOrString(), { description }));

export const policyServerSpec = object(
  {
    image: string('The image of the server.'),
    replicas: integer('The number of its pods.', { format: 'int32', minimum: 0 }),
    minAvailable: optional(
      intOrString('minAvailable of its PodDisruptionBudget; cannot be combined with maxUnavailable.'),
    ),
    maxUnavailable: optional(
      intOrString('maxUnavailable of its PodDisruptionBudget; cannot be combined with minAvailable.'),
    ),
    annotations: optional(mapOf(string(), { description: 'Annotations of its pods.' })),
    labels: optional(
      mapOf(string(), {
        description: 'Labels of its Deployment and pods; those that the operator sets take precedence.',
      }),
    ),
    env: optional(list(anyObject(), { description: 'Environment of its container, as in a pod.' })),
    serviceAccountName: optional(string('The service account of its pods.')),
    imagePullSecret: optional(string('The Secret with the credentials for registries of modules.')),
    insecureSources: optional(
      list(string(), {
        description: 'Registries that are queried without TLS, or whose certificate is not verified.',
      }),
    ),
    sourceAuthorities: optional(
      mapOf(list(string()), { description: 'Certificate authorities by registry, in PEM.' }),
    ),
    verificationConfig: optional(
      string('The ConfigMap with the signatures that modules must have, in its key verification-config.'),
    ),
    sigstoreTrustConfig: optional(
      string(
        'The ConfigMap with the Sigstore trust root for keyless signatures, in its key sigstore-trust-config.',
      ),
    ),
    securityContexts: optional(
      object('Security contexts of its pods.', {
        container: optional(anyObject({ description: 'As in a container.' })),
        pod: optional(anyObject({ description: 'As in a pod.' })),
      }),
    ),
    affinity: optional(anyObject({ description: 'As in a pod.' })),
    limits: quantities('Resource limits of its container.'),
    requests: quantities('Resource requests of its container.'),
    tolerations: optional(list(anyValue(), { description: 'As in a pod.' })),
    priorityClassName: optional(string('As in a pod.')),
    namespacedPoliciesCapabilities: optional(
      list(string({ minLength: 1 }), {
        description:
          "Host calls that namespaced policies may use: 'oci/v1/verify', 'net/*', '*'. All by default.",
      }),
    ),
    webhookPort: port('The port on which its pods listen for webhooks; 8443 by default.'),
    readinessProbePort: port('The port of the readiness probe of its pods; 8081 by default.'),
    metricsPort: port(
      'The port of its Service for metrics; 8080 by default. Pods listen on 8080, or on the next port that is free.',
    ),
  },
  {
    rules: [
      rule(
        '(has(self.webhookPort) ? self.webhookPort : 8443) != (has(self.readinessProbePort) ? self.readinessProbePort : 8081)',
        'readinessProbePort must differ from webhookPort',
        { fieldPath: '.readinessProbePort' },
      ),
      rule(
        '!(has(self.minAvailable) && has(self.maxUnavailable))',
        'minAvailable and maxUnavailable cannot be both set',
      ),
    ],
  },
);

export const policyServerStatus = object({ conditions: optional(conditionList()) });
