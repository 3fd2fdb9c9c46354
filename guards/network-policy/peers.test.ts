import { suite } from 'node:test';

import {
  type Cases,
  app,
  toA,
  ingress,
  outside,
  pod,
  policy,
  testEach,
  xa,
  xb,
  ya,
  yb,
} from './meaning.fixture.ts';

const cases: Cases = {
  'without a policy everything is allowed': [
    [],
    [
      [true, ya, xa],
      [true, outside, xa],
      [true, xa, outside],
    ],
  ],
  'only the pods that it selects are isolated, in its directions': [
    [policy('x/p', toA)],
    [
      [false, xb, xa],
      [true, xa, xb],
      [true, xa, outside],
      [true, xa, ya],
    ],
  ],
  'without a spec: all pods of the namespace, all ingress refused': [
    [policy('x/p', undefined)],
    [
      [false, ya, xa],
      [false, xa, xb],
      [true, xa, ya],
    ],
  ],
  'an empty podSelector selects all of the namespace': [
    [policy('x/p', { podSelector: {}, policyTypes: ['Ingress'] })],
    [
      [false, ya, xa],
      [false, ya, xb],
      [true, xa, ya],
    ],
  ],
  'policyTypes follow from the rules': [
    [policy('x/p', { ...toA, egress: [{ to: [{ ipBlock: { cidr: '10.0.0.2/32' } }] }] })],
    [
      [false, xb, xa],
      [true, xa, xb],
      [false, xa, ya],
    ],
  ],
  'an empty egress list does not isolate egress': [
    [policy('x/p', { ...toA, egress: [] })],
    [
      [true, xa, ya],
      [false, ya, xa],
    ],
  ],
  'policyTypes decide: rules of another direction are passed over': [
    [policy('x/p', { ...toA, policyTypes: ['Egress'], ingress: [] })],
    [
      [true, ya, xa],
      [false, xa, ya],
    ],
  ],
  'absent and empty from are everyone, absent and empty ports every port': [
    [policy('x/p', { ...toA, ingress: [{ from: [], ports: [] }] })],
    [
      [true, ya, xa],
      [true, outside, xa, 9, 'UDP'],
    ],
  ],
  'policies add up': [
    [
      ...ingress({ from: [{ podSelector: app('b') }] }),
      policy('x/q', { ...toA, ingress: [{ ports: [{ port: 81 }] }] }),
    ],
    [
      [true, xb, xa],
      [true, ya, xa, 81],
      [false, ya, xa],
    ],
  ],
  'podSelector alone is of the namespace of the policy': [
    ingress({ from: [{ podSelector: app('b') }] }),
    [
      [true, xb, xa],
      [false, yb, xa],
    ],
  ],
  'both selectors in one peer: AND': [
    ingress({ from: [{ podSelector: app('b'), namespaceSelector: { matchLabels: { ns: 'y' } } }] }),
    [
      [true, yb, xa],
      [false, ya, xa],
      [false, xb, xa],
    ],
  ],
  'in two peers: OR': [
    ingress({ from: [{ podSelector: app('b') }, { namespaceSelector: { matchLabels: { ns: 'y' } } }] }),
    [
      [true, yb, xa],
      [true, ya, xa],
      [true, xb, xa],
      [false, outside, xa],
    ],
  ],
  'NotIn and DoesNotExist select what has no such label': [
    ingress({
      from: [
        {
          podSelector: {
            matchExpressions: [
              { key: 'app', operator: 'NotIn', values: ['b'] },
              { key: 'tier', operator: 'DoesNotExist' },
            ],
          },
        },
      ],
    }),
    [
      [false, xb, xa],
      [true, '10.0.0.9', xa],
    ],
    [pod('x/c', '10.0.0.9', { labels: {} })],
  ],
  Exists: [
    ingress({
      from: [
        { namespaceSelector: {}, podSelector: { matchExpressions: [{ key: 'tier', operator: 'Exists' }] } },
      ],
    }),
    [
      [false, xb, xa],
      [true, '10.0.0.9', xa],
    ],
    [pod('y/c', '10.0.0.9', { labels: { tier: '' } })],
  ],
  'except is of its own block only': [
    ingress({
      from: [
        { ipBlock: { cidr: '10.0.0.0/24', except: ['10.0.0.2/32', '10.0.0.3/32'] } },
        { ipBlock: { cidr: '10.0.0.3/32' } },
      ],
    }),
    [
      [false, xb, xa],
      [true, ya, xa],
      [true, yb, xa],
    ],
  ],
  'except does not refuse a pod that a selector allows': [
    ingress({
      from: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['10.0.0.2/32'] } }, { podSelector: app('b') }],
    }),
    [
      [true, xb, xa],
      [true, outside, xa],
    ],
  ],
  '0.0.0.0/0 is IPv4 and nothing else': [
    ingress({ from: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }),
    [
      [true, outside, xa],
      [true, '255.255.255.255', xa],
      [false, 'fd00::2', 'fd00::1'],
    ],
  ],
  '::/0 is all of IPv6 and nothing else': [
    ingress({ from: [{ ipBlock: { cidr: '::/0' } }] }),
    [
      [true, 'fd00::2', 'fd00::1'],
      [true, 'fe80::1', 'fd00::1'],
      [true, '::1', 'fd00::1'],
      [false, xb, xa],
    ],
  ],
  'pods of the network of their node are neither targets nor peers': [
    [policy('x/p', { podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] })],
    [
      [true, ya, '10.9.9.9'],
      [false, '10.9.9.9', xa],
    ],
    [pod('x/host', '10.9.9.9', { hostNetwork: true })],
  ],
  'pods that are finished are neither targets nor peers': [
    [policy('x/p', { podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] })],
    [
      [true, ya, '10.0.0.8'],
      [false, '10.0.0.8', xa],
      [false, '10.0.0.9', xa],
    ],
    [pod('x/done', '10.0.0.8', { phase: 'Succeeded' }), pod('x/broken', '10.0.0.9', { phase: 'Failed' })],
  ],
  'pods that terminate still count': [
    [policy('x/p', { podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] })],
    [
      [false, ya, '10.0.0.8'],
      [true, '10.0.0.8', xa],
    ],
    [pod('x/leaving', '10.0.0.8', { deletionTimestamp: '2026-01-01T00:00:00Z' })],
  ],
  "an address that is used again is the newer pod's": [
    ingress({ from: [{ podSelector: app('old') }] }),
    [[false, '10.0.0.8', xa]],
    [
      pod('x/old', '10.0.0.8', { startTime: '2026-01-01T00:00:00Z' }),
      pod('x/new', '10.0.0.8', { startTime: '2026-01-01T00:00:01Z' }),
    ],
  ],
  'podIP and podIPs both count where they differ': [
    ingress({ from: [{ podSelector: app('odd') }] }),
    [
      [true, '10.0.0.8', xa],
      [true, '10.0.0.9', xa],
    ],
    [pod('x/odd', '10.0.0.8 10.0.0.9')],
  ],
  'an address that is written another way is the same': [
    ingress({ from: [{ ipBlock: { cidr: 'fd00:0:0:0::/64' } }, { podSelector: app('odd') }] }),
    [
      [true, 'fd00::2', 'fd00::1'],
      [true, 'fd01::1', 'fd00::1'],
      [true, '10.0.0.9', xa],
    ],
    [pod('x/odd', 'FD01:0::0001 ::ffff:10.0.0.9')],
  ],
  'names that are the same once joined are not the same': [
    [
      policy('a/bc', { podSelector: {}, ingress: [{ ports: [{ port: 1 }] }] }),
      policy('ab/c', { podSelector: {}, ingress: [{ ports: [{ port: 2 }] }] }),
    ],
    [
      [true, ya, '10.0.1.1', 1],
      [false, ya, '10.0.1.1', 2],
      [true, ya, '10.0.1.2', 2],
      [false, ya, '10.0.1.2', 1],
    ],
    [pod('a/bc', '10.0.1.1'), pod('ab/c', '10.0.1.2')],
  ],
};

suite('who is isolated, and from whom', () => testEach(cases));
