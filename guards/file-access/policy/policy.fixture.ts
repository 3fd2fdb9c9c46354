/** Policies, pods and containers for tests: one example of each, and any there can be. */

import { accessWords } from '../../../lib/sensor/access.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { KiveMatch, KivePolicy, KiveTrap } from '../api.ts';
import type { NodeContainer } from '../kive-data.ts';
import type { PodView } from './matching.ts';

/** The one of the design document of Kive, word for word, as users of Kive have written it. */
export const samplePolicy = `
apiVersion: kivebpf.san7o.github.io/v1
kind: KivePolicy
metadata:
  labels:
    app.kubernetes.io/name: kivebpf
  name: kive-sample-policy
  namespace: kivebpf-system
spec:
  alertVersion: v1
  traps:
    - path: /secret.txt
      create: true
      mode: 444
      callback: "http://my-callback.com/alerts"
      matchAny:
      - pod: nginx-pod
        namespace: default
        ip: 192.168.0.3
        containerName: ".*"
        matchLabels:
          security-level: high
      metadata:
          severity: critical
`;

/** In a namespace whose policies match pods of all. */
export function policyOf(name: string, ...traps: readonly KiveTrap[]): KivePolicy {
  return {
    apiVersion: 'kivebpf.san7o.github.io/v1',
    kind: 'KivePolicy',
    metadata: { name, namespace: 'kivebpf-system' },
    spec: { traps },
  };
}

/** The same policy in another namespace. */
export function movedTo(namespace: string, policy: KivePolicy): KivePolicy {
  return { ...policy, metadata: { ...policy.metadata, namespace } };
}

export function trapOn(path: string, ...matchAny: readonly KiveMatch[]): KiveTrap {
  return { path, matchAny: matchAny.length === 0 ? [{ containerName: '.*' }] : matchAny };
}

export const nginxPod: PodView = {
  metadata: {
    name: 'nginx-pod',
    namespace: 'default',
    uid: 'b4a1',
    labels: { 'security-level': 'high', app: 'web' },
  },
  spec: { nodeName: 'kive-worker' },
  status: {
    phase: 'Running',
    podIP: '192.168.0.3',
    podIPs: [{ ip: '192.168.0.3' }, { ip: 'fd00:0:0::3' }],
  },
};

// Few values, so that they meet.
const names = fc.constantFrom('web', 'web-1', 'api', 'db');
const addresses = fc.constantFrom('10.0.0.1', '10.0.0.2', 'fd00::1', 'FD00:0::1', '::ffff:10.0.0.1');
const labels = fc.dictionary(fc.constantFrom('app', 'tier'), fc.constantFrom('web', ''), { maxKeys: 2 });

export const anyPod: fc.Arbitrary<PodView> = fc.record({
  metadata: fc.record({ name: names, namespace: names, labels, uid: fc.constantFrom('1', '2') }),
  status: fc.record({
    phase: fc.constantFrom('Running', 'Running', 'Pending', 'Failed', 'Succeeded'),
    podIP: addresses,
    podIPs: fc.array(fc.record({ ip: addresses }), { maxLength: 2 }),
  }),
});

export const anyMatch: fc.Arbitrary<KiveMatch> = fc
  .record(
    {
      pod: names,
      namespace: names,
      ip: addresses,
      containerName: fc.constantFrom('', '.*', '^web$', 'web', 'glob:web*', 'regex:.*1'),
      matchLabels: labels,
    },
    { requiredKeys: [] },
  )
  .filter(
    ({ pod, namespace, ip, containerName, matchLabels }) =>
      Boolean(pod ?? namespace ?? ip) || Boolean(containerName) || Object.keys(matchLabels ?? {}).length > 0,
  );

export const anyTrap: fc.Arbitrary<KiveTrap> = fc.record(
  {
    path: fc.constantFrom('/secret.txt', '/etc/shadow'),
    callback: fc.constantFrom('', 'http://sink/', 'https://sink/', 'https://sink/'),
    callbackSecret: fc.constantFrom('hook', 'other'),
    operations: fc.subarray([...accessWords], { minLength: 1 }),
    metadata: fc.dictionary(fc.constantFrom('severity'), fc.constantFrom('low', 'high')),
    matchAny: fc.array(anyMatch, { minLength: 1, maxLength: 3 }),
  },
  { requiredKeys: ['path', 'matchAny'] },
);

/** Policies with different names. */
export const anyPolicies: fc.Arbitrary<KivePolicy[]> = fc
  .array(fc.array(anyTrap, { maxLength: 4 }), { maxLength: 4 })
  .map((all) => all.map((traps, index) => policyOf(`policy-${index}`, ...traps)));

/** Containers with different ids. */
export const anyContainers: fc.Arbitrary<NodeContainer[]> = fc
  .array(fc.record({ name: names, pod: anyPod }), { maxLength: 6 })
  .map((all) => all.map((container, index) => ({ ...container, id: `containerd://${index}` })));
