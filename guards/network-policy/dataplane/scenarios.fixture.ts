/** Policies as users write them, by what they say. */
import type { PeerObject, PolicyObject, PolicySpec, PortObject } from '../engine/objects.ts';

export const a = { matchLabels: { pod: 'a' } };
export const inX = (name: string, spec: PolicySpec): PolicyObject => ({
  metadata: { namespace: 'x', name },
  spec,
});
export const ns = (...values: string[]) => ({ matchExpressions: [{ key: 'ns', operator: 'In', values }] });
export const pod = (...values: string[]) => ({ matchExpressions: [{ key: 'pod', operator: 'In', values }] });
export const [tcp80, udp80] = [
  { port: 80, protocol: 'TCP' },
  { port: 80, protocol: 'UDP' },
];

type Scenarios = Readonly<Record<string, readonly PolicyObject[]>>;

const types = ['Ingress', 'Egress'] as const;
interface AnyRule {
  readonly peers?: readonly PeerObject[];
  readonly ports?: readonly PortObject[];
}

/** The same rules for what comes in, or for what goes out. */
const ofType = (name: string, type: (typeof types)[number], rules: readonly AnyRule[]): PolicyObject =>
  inX(name, {
    podSelector: a,
    policyTypes: [type],
    ...(type === 'Ingress'
      ? { ingress: rules.map(({ peers: from, ports }) => ({ from, ports })) }
      : { egress: rules.map(({ peers: to, ports }) => ({ to, ports })) }),
  });

const peers: Readonly<Record<string, PeerObject>> = {
  'pods of the own namespace': { podSelector: {} },
  'pods of a namespace': { podSelector: {}, namespaceSelector: ns('y') },
  'all pods': { podSelector: {}, namespaceSelector: {} },
  'pods of the own namespace by label': { podSelector: pod('c') },
  'pods of a namespace by label': { podSelector: pod('c'), namespaceSelector: ns('y') },
  'pods by label': { podSelector: pod('c'), namespaceSelector: {} },
  'all namespaces but one': {
    namespaceSelector: {
      matchExpressions: [{ key: 'kubernetes.io/metadata.name', operator: 'NotIn', values: ['y'] }],
    },
  },
  'a block': { ipBlock: { cidr: '10.1.0.0/28' } },
  'a block but for a part': { ipBlock: { cidr: '10.1.0.0/24', except: ['10.1.0.16/28'] } },
  'every address': { ipBlock: { cidr: '0.0.0.0/0' } },
  'no pod': { namespaceSelector: ns('none') },
  'no address': { ipBlock: { cidr: '0.0.0.0/31' } },
};

/** Rules that isolate and allow nothing or next to nothing, besides those that allow everything. */
const closed: Readonly<Record<string, readonly AnyRule[]>> = {
  'no rule': [],
  'no pod': [{ peers: [peers['no pod']!] }],
  'no address': [{ peers: [peers['no address']!] }],
};
const open: Readonly<Record<string, readonly AnyRule[]>> = {
  everyone: [{}],
  'all pods': [{ peers: [peers['all pods']!] }],
  'every address': [{ peers: [peers['every address']!] }],
};

/** Each feature of the API in both directions, as generators of conformance tests (Cyclonus) cross them. */
const crossed: Scenarios = Object.fromEntries(
  types.flatMap((type): [string, readonly PolicyObject[]][] => [
    ...Object.entries(peers).map(([name, peer]): [string, readonly PolicyObject[]] => [
      `${type}: ${name}`,
      [ofType('p', type, [{ peers: [peer] }])],
    ]),
    ...[undefined, 'TCP', 'UDP', 'SCTP'].flatMap((protocol) =>
      [undefined, 81, 'serve-81-tcp'].map((port): [string, readonly PolicyObject[]] => [
        `${type}: protocol ${protocol ?? 'left out'}, port ${port ?? 'left out'}`,
        [ofType('p', type, [{ ports: [{ ...(protocol && { protocol }), ...(port && { port }) }] }])],
      ]),
    ),
    ...Object.entries(closed).flatMap(([name, rules]) =>
      Object.entries(open).map(([other, more]): [string, readonly PolicyObject[]] => [
        `${type}: a policy for ${name} beside one for ${other}`,
        [ofType('p', type, rules), ofType('q', type, more)],
      ]),
    ),
    [
      `${type}: except of one policy takes nothing from another`,
      [
        ofType('p', type, [{ peers: [{ ipBlock: { cidr: '10.1.0.0/24', except: ['10.1.0.11/32'] } }] }]),
        ofType('q', type, [{ peers: [{ ipBlock: { cidr: '10.1.0.11/32' } }] }]),
      ],
    ],
    [
      `${type}: a namespace at a named port`,
      [ofType('p', type, [{ peers: [{ namespaceSelector: ns('y') }], ports: [{ port: 'serve-80-tcp' }] }])],
    ],
  ]),
);

/** As people write them: by the features of the API, each alone and those that meet. */
export const scenarios: Scenarios = {
  ...crossed,
  'all ingress of a namespace is refused': [inX('p', { podSelector: {}, policyTypes: ['Ingress'] })],
  'all egress of a namespace is refused': [inX('p', { podSelector: {}, policyTypes: ['Egress'] })],
  'all of both is refused': [inX('p', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] })],
  'a policy without anything refuses ingress': [{ metadata: { namespace: 'x', name: 'p' } }],
  'all ingress is allowed by an empty rule': [inX('p', { podSelector: {}, ingress: [{}] })],
  'all egress is allowed by an empty rule': [
    inX('p', { podSelector: {}, policyTypes: ['Egress'], egress: [{}] }),
  ],
  'empty lists of peers and ports are everyone': [
    inX('p', {
      podSelector: a,
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: [], ports: [] }],
      egress: [{ to: [], ports: [] }],
    }),
  ],
  'pods of the own namespace by label': [
    inX('p', { podSelector: a, ingress: [{ from: [{ podSelector: pod('b') }] }] }),
  ],
  'all pods of the own namespace': [inX('p', { podSelector: a, ingress: [{ from: [{ podSelector: {} }] }] })],
  'all pods of all namespaces': [
    inX('p', { podSelector: a, ingress: [{ from: [{ namespaceSelector: {} }] }] }),
  ],
  'pods of another namespace by its label': [
    inX('p', { podSelector: a, ingress: [{ from: [{ namespaceSelector: ns('y') }] }] }),
  ],
  'by the label that each namespace has': [
    inX('p', {
      podSelector: a,
      ingress: [{ from: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'z' } } }] }],
    }),
  ],
  'by expressions: NotIn, Exists, DoesNotExist': [
    inX('p', {
      podSelector: { matchExpressions: [{ key: 'pod', operator: 'NotIn', values: ['c'] }] },
      ingress: [
        {
          from: [
            {
              namespaceSelector: {
                matchExpressions: [
                  { key: 'ns', operator: 'NotIn', values: ['z'] },
                  { key: 'gone', operator: 'DoesNotExist' },
                ],
              },
              podSelector: { matchExpressions: [{ key: 'pod', operator: 'Exists' }] },
            },
          ],
        },
      ],
    }),
  ],
  'namespace and pod in one peer: both': [
    inX('p', {
      podSelector: a,
      ingress: [{ from: [{ namespaceSelector: ns('y', 'z'), podSelector: pod('b') }] }],
    }),
  ],
  'namespace and pod in two peers: either': [
    inX('p', {
      podSelector: a,
      ingress: [{ from: [{ namespaceSelector: ns('y') }, { podSelector: pod('b') }] }],
    }),
  ],
  'a port, a protocol': [inX('p', { podSelector: a, ingress: [{ ports: [tcp80] }] })],
  'a port without a protocol is of TCP': [inX('p', { podSelector: a, ingress: [{ ports: [{ port: 81 }] }] })],
  'UDP alone': [inX('p', { podSelector: a, ingress: [{ ports: [udp80] }] })],
  'a protocol without a port': [inX('p', { podSelector: a, ingress: [{ ports: [{ protocol: 'UDP' }] }] })],
  'SCTP alone isolates TCP and UDP': [
    inX('p', { podSelector: a, ingress: [{ ports: [{ protocol: 'SCTP', port: 80 }] }] }),
  ],
  ranges: [
    inX('p', {
      podSelector: a,
      ingress: [
        {
          ports: [
            { port: 60, endPort: 80 },
            { protocol: 'UDP', port: 81, endPort: 81 },
          ],
        },
      ],
    }),
  ],
  'peer and port of one rule meet, those of two do not': [
    inX('p', {
      podSelector: a,
      ingress: [
        { from: [{ namespaceSelector: ns('y') }], ports: [{ port: 80 }] },
        { from: [{ namespaceSelector: ns('z') }], ports: [{ port: 81 }] },
      ],
    }),
  ],
  'named ports, for ingress': [
    inX('p', { podSelector: a, ingress: [{ ports: [{ port: 'serve-81-tcp' }] }] }),
  ],
  'named ports, for egress': [
    inX('p', {
      podSelector: a,
      policyTypes: ['Egress'],
      egress: [{ to: [{ namespaceSelector: ns('y') }], ports: [{ port: 'serve-80-udp', protocol: 'UDP' }] }],
    }),
  ],
  'a name that no pod has allows nothing': [
    inX('p', { podSelector: a, ingress: [{ from: [{ podSelector: {} }], ports: [{ port: 'nothing' }] }] }),
  ],
  'a name of another protocol allows nothing': [
    inX('p', { podSelector: a, ingress: [{ ports: [{ port: 'serve-80-udp' }] }] }),
  ],
  'policies add up': [
    inX('p', { podSelector: a, ingress: [{ from: [{ namespaceSelector: ns('y') }] }] }),
    inX('q', { podSelector: {}, ingress: [{ from: [{ namespaceSelector: ns('z') }], ports: [tcp80] }] }),
    inX('r', { podSelector: {}, policyTypes: ['Ingress'] }),
  ],
  'what one allows anew that another refuses': [
    inX('closed', { podSelector: {}, policyTypes: ['Ingress', 'Egress'] }),
    inX('open', { podSelector: a, policyTypes: ['Ingress', 'Egress'], ingress: [{}], egress: [{}] }),
  ],
  'egress of the one and ingress of the other have to agree': [
    inX('out', {
      podSelector: a,
      policyTypes: ['Egress'],
      egress: [{ to: [{ namespaceSelector: ns('y') }] }],
    }),
    {
      metadata: { namespace: 'y', name: 'in' },
      spec: { podSelector: pod('b'), ingress: [{ from: [{ namespaceSelector: ns('z') }] }] },
    },
  ],
  'egress to a pod and a port': [
    inX('p', {
      podSelector: a,
      policyTypes: ['Egress'],
      egress: [{ to: [{ namespaceSelector: ns('y'), podSelector: pod('a') }], ports: [tcp80, udp80] }],
    }),
  ],
  'types that are derived: egress is isolated where there is a rule for it': [
    inX('p', { podSelector: a, ingress: [{}], egress: [{ to: [{ podSelector: pod('b') }] }] }),
  ],
  'rules of a direction that is not among the types mean nothing': [
    inX('p', {
      podSelector: a,
      policyTypes: ['Ingress'],
      ingress: [{}],
      egress: [{ to: [{ podSelector: pod('b') }] }],
    }),
  ],
  'a block of the outside': [
    inX('p', {
      podSelector: a,
      ingress: [{ from: [{ ipBlock: { cidr: '10.7.0.0/24' } }, { ipBlock: { cidr: 'fd00:7::/64' } }] }],
    }),
  ],
  'a block that is of pods': [
    inX('p', { podSelector: a, ingress: [{ from: [{ ipBlock: { cidr: '10.1.0.12/30' } }] }] }),
  ],
  'except belongs to its own block': [
    inX('p', {
      podSelector: a,
      ingress: [
        {
          from: [
            { ipBlock: { cidr: '10.1.0.0/24', except: ['10.1.0.12/30'] } },
            { ipBlock: { cidr: '10.1.0.14/32' } },
          ],
        },
      ],
    }),
  ],
  'every address of IPv4 says nothing of IPv6': [
    inX('p', { podSelector: a, ingress: [{ from: [{ ipBlock: { cidr: '0.0.0.0/0' } }] }] }),
  ],
  'every address of IPv6 but for one': [
    inX('p', {
      podSelector: a,
      ingress: [{ from: [{ ipBlock: { cidr: '::/0', except: ['fd00:1::14/128'] } }] }],
    }),
  ],
  'egress to every address but for the pods of a block, at a named port': [
    inX('p', {
      podSelector: a,
      policyTypes: ['Egress'],
      egress: [
        {
          to: [{ ipBlock: { cidr: '0.0.0.0/0', except: ['10.1.0.16/28'] } }],
          ports: [{ port: 'serve-80-tcp' }],
        },
      ],
    }),
  ],
  'what cannot be expressed allows nothing, what stands beside it does': [
    inX('p', {
      podSelector: a,
      ingress: [
        { ports: [{ port: 81, endPort: 80 }, { port: 80 }] },
        { from: [{ ipBlock: { cidr: '10.1.0.1/24' } }, { podSelector: pod('b') }], ports: [udp80] },
      ],
    }),
  ],
};
