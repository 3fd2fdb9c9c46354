import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { JsonObject } from '../../json/json.ts';
import { created, updated } from './builtin.fixture.ts';

const service = (spec: string): string =>
  `{ apiVersion: v1, kind: Service, metadata: { name: web, namespace: shop }, spec: ${spec} }`;
const specOf = (object: JsonObject): JsonObject => object['spec'] as JsonObject;

suite('Service', () => {
  test('defaults, and an address that is the same each time', () => {
    const { object, causes } = created(service('{ selector: { app: web }, ports: [{ port: 80 }] }'));
    assert.deepEqual(causes, []);
    const { clusterIP, clusterIPs, ...rest } = specOf(object) as { clusterIP: string; clusterIPs: unknown };
    assert.match(clusterIP, /^10\.(?:9[6-9]|10\d|11[01])\.\d+\.\d+$/);
    assert.deepEqual(clusterIPs, [clusterIP]);
    assert.deepEqual(rest, {
      internalTrafficPolicy: 'Cluster',
      ipFamilies: ['IPv4'],
      ipFamilyPolicy: 'SingleStack',
      ports: [{ port: 80, protocol: 'TCP', targetPort: 80 }],
      selector: { app: 'web' },
      sessionAffinity: 'None',
      type: 'ClusterIP',
    });
    assert.deepEqual(object['status'], { loadBalancer: {} });
    const again = created(service('{ ports: [{ port: 81 }] }'));
    assert.equal(specOf(again.object)['clusterIP'], clusterIP);
  });

  test('without an address, with an outer one, and by another name', () => {
    const headless = created(service('{ clusterIP: None, selector: { a: b } }'));
    assert.deepEqual(headless.causes, []);
    assert.deepEqual(specOf(headless.object)['clusterIPs'], ['None']);
    const balancer = created(service('{ type: LoadBalancer, ports: [{ port: 80, targetPort: http }] }'));
    assert.deepEqual(balancer.causes, []);
    assert.equal(specOf(balancer.object)['externalTrafficPolicy'], 'Cluster');
    assert.equal(specOf(balancer.object)['allocateLoadBalancerNodePorts'], true);
    const named = created(service('{ type: ExternalName, externalName: example.com. }'));
    assert.deepEqual(named.causes, []);
    assert.equal('clusterIP' in specOf(named.object), false);
  });

  const broken: readonly (readonly [string, readonly string[]])[] = [
    ['{}', ['spec.ports: Required value']],
    [
      '{ ports: [{ port: 0 }] }',
      [
        'spec.ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive',
        'spec.ports[0].targetPort: Invalid value: 0: must be between 1 and 65535, inclusive',
      ],
    ],
    ['{ ports: [{ port: 1 }, { name: b, port: 2 }] }', ['spec.ports[0].name: Required value']],
    [
      '{ ports: [{ name: a, port: 1 }, { name: b, port: 1 }] }',
      ['spec.ports[1]: Duplicate value: {"port":1,"protocol":"TCP"}'],
    ],
    [
      '{ type: Internal, ports: [{ port: 1 }] }',
      [
        'spec.type: Unsupported value: "Internal": supported values: "ClusterIP", "ExternalName", "LoadBalancer", "NodePort"',
      ],
    ],
    [
      '{ clusterIP: ten, ports: [{ port: 1 }] }',
      [
        'spec.clusterIPs[0]: Invalid value: "ten": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)',
      ],
    ],
    [
      '{ type: NodePort, ports: [{ port: 1, nodePort: 80 }] }',
      [
        'spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid ports is 30000-32767',
      ],
    ],
    [
      '{ ports: [{ port: 1, targetPort: a_b }] }',
      [
        'spec.ports[0].targetPort: Invalid value: "a_b": must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)',
      ],
    ],
    ['{ type: ExternalName }', ['spec.externalName: Required value']],
  ];
  for (const [spec, causes] of broken) {
    test(`${spec} is refused`, () => assert.deepEqual(created(service(spec)).causes, causes));
  }

  test('its address stays, also when a client leaves it out', () => {
    const first = created(service('{ ports: [{ port: 80 }] }'));
    const less = updated(first, (object) => {
      delete specOf(object)['clusterIP'];
      delete specOf(object)['clusterIPs'];
    });
    assert.deepEqual(less.causes, []);
    assert.deepEqual(less.object, first.object);
    const other = updated(first, (object) =>
      Object.assign(specOf(object), { clusterIP: '10.96.0.9', clusterIPs: ['10.96.0.9'] }),
    );
    assert.deepEqual(other.causes, [
      'spec.clusterIPs[0]: Invalid value: ["10.96.0.9"]: may not change once set',
    ]);
    const named = updated(first, (object) =>
      Object.assign(specOf(object), { type: 'ExternalName', externalName: 'a.b' }),
    );
    assert.deepEqual(named.causes, []);
    assert.equal('clusterIP' in specOf(named.object), false);
  });
});

const policy = (spec: string): string =>
  `{ apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: { name: p }, spec: ${spec} }`;

suite('NetworkPolicy', () => {
  test('the typical one of the documentation', () => {
    const { object, causes, unknown } = created(`
apiVersion: networking.k8s.io/v1
kind: NetworkPolicy
metadata: { name: test-network-policy, namespace: default }
spec:
  podSelector: { matchLabels: { role: db } }
  ingress:
    - from:
        - ipBlock: { cidr: 172.17.0.0/16, except: [172.17.1.0/24] }
        - namespaceSelector: { matchLabels: { project: myproject } }
          podSelector: { matchLabels: { role: frontend } }
      ports:
        - { port: 6379 }
  egress:
    - to: [{ ipBlock: { cidr: 10.0.0.0/24 } }]
      ports: [{ protocol: UDP, port: 32000, endPort: 32768 }]
`);
    assert.deepEqual({ causes, unknown }, { causes: [], unknown: [] });
    const spec = specOf(object) as { policyTypes: unknown; ingress: readonly JsonObject[] };
    assert.deepEqual(spec.policyTypes, ['Ingress', 'Egress']);
    assert.deepEqual(spec.ingress[0]?.['ports'], [{ port: 6379, protocol: 'TCP' }]);
  });

  const types: readonly (readonly [string, readonly string[]])[] = [
    ['{ podSelector: {} }', ['Ingress']],
    ['{}', ['Ingress']],
    ['{ podSelector: {}, egress: [{}] }', ['Ingress', 'Egress']],
    ['{ podSelector: {}, egress: [] }', ['Ingress']],
    ['{ podSelector: {}, policyTypes: [Egress] }', ['Egress']],
  ];
  for (const [spec, wanted] of types) {
    test(`${spec} is about ${wanted.join(' and ')}`, () => {
      const { object, causes } = created(policy(spec));
      assert.deepEqual(causes, []);
      assert.deepEqual(specOf(object)['policyTypes'], wanted);
    });
  }

  const broken: readonly (readonly [string, string])[] = [
    ['{ ingress: [{ from: [{}] }] }', 'spec.ingress[0].from[0]: Required value: must specify a peer'],
    [
      '{ ingress: [{ from: [{ ipBlock: { cidr: 10.0.0.0/8 }, podSelector: {} }] }] }',
      'spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer',
    ],
    [
      '{ egress: [{ to: [{ ipBlock: { cidr: 10.0.0.1 } }] }] }',
      'spec.egress[0].to[0].ipBlock.cidr: Invalid value: "10.0.0.1": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)',
    ],
    [
      '{ egress: [{ to: [{ ipBlock: { cidr: 10.0.0.0/8, except: [11.0.0.0/16] } }] }] }',
      'spec.egress[0].to[0].ipBlock.except[0]: Invalid value: "11.0.0.0/16": must be a strict subset of `cidr`',
    ],
    [
      '{ ingress: [{ ports: [{ port: 90, endPort: 80 }] }] }',
      'spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`',
    ],
    [
      '{ ingress: [{ ports: [{ port: http, endPort: 80 }] }] }',
      'spec.ingress[0].ports[0].endPort: Invalid value: 80: may not be specified when `port` is non-numeric',
    ],
    [
      '{ ingress: [{ ports: [{ protocol: ICMP }] }] }',
      'spec.ingress[0].ports[0].protocol: Unsupported value: "ICMP": supported values: "SCTP", "TCP", "UDP"',
    ],
    [
      '{ podSelector: { matchExpressions: [{ key: a, operator: Is }] } }',
      'spec.podSelector.matchExpressions[0].operator: Invalid value: "Is": not a valid selector operator',
    ],
    [
      '{ policyTypes: [Both] }',
      'spec.policyTypes[0]: Unsupported value: "Both": supported values: "Ingress", "Egress"',
    ],
  ];
  for (const [spec, cause] of broken) {
    test(`${spec} is refused`, () => assert.deepEqual(created(policy(spec)).causes, [cause]));
  }
});

test('EndpointSlice', () => {
  const slice = (rest: string): string =>
    `{ apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, metadata: { name: e }, ${rest} }`;
  const { object, causes } = created(
    slice('addressType: IPv4, endpoints: [{ addresses: [10.0.0.1] }], ports: [{ port: 80 }]'),
  );
  assert.deepEqual(causes, []);
  assert.deepEqual(object['ports'], [{ name: '', port: 80, protocol: 'TCP' }]);
  assert.deepEqual(created(slice('addressType: MAC')).causes, [
    'addressType: Unsupported value: "MAC": supported values: "FQDN", "IPv4", "IPv6"',
  ]);
});
