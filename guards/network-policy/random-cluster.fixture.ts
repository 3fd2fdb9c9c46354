/**
 * Small clusters at random, in which labels, addresses and ports are so few that policies, good and bad, matter.
 */
import * as fc from '../../lib/testing/fast-check.fixture.ts';

import { monitorAnnotation } from './engine/monitor.ts';
import type {
  BlockObject,
  NamespaceObject,
  PeerObject,
  PodObject,
  PolicyObject,
  PortObject,
} from './engine/objects.ts';

export const nodes = ['one', 'two'] as const;
/** Addresses of pods, then free ones. */
export const addresses = {
  4: ['10.0.0.1', '10.0.0.2', '10.0.0.3', '10.0.0.5', '10.0.1.9', '192.0.2.1'],
  6: ['fd00::1', 'fd00::2', 'fd00::3', 'fd00::5', '2001:db8::1', 'fd01::1'],
} as const;
const ofPods = 4;
const namespaceNames = ['a', 'ab', 'b'];
const values = ['x', 'y'];

export type Change =
  | { readonly kind: 'pod'; readonly key: string; readonly object: PodObject | undefined }
  | { readonly kind: 'policy'; readonly key: string; readonly object: PolicyObject | undefined }
  | { readonly kind: 'namespace'; readonly key: string; readonly object: NamespaceObject | undefined };

const name = fc.constantFrom('p', 'q', 'bc', 'c');
const labels = fc.dictionary(fc.constantFrom('app', 'tier'), fc.constantFrom(...values), { maxKeys: 2 });
const namespaceName = fc.constantFrom(...namespaceNames);
const time = fc.constantFrom('2026-01-01T00:00:00Z', '2026-01-01T00:00:01Z', '2026-01-02T00:00:00Z');

const expression = fc.oneof(
  fc.record({
    key: fc.constantFrom('app', 'tier'),
    operator: fc.constantFrom('In', 'NotIn'),
    values: fc.subarray(values, { minLength: 1 }),
  }),
  fc.record({ key: fc.constantFrom('app', 'tier'), operator: fc.constantFrom('Exists', 'DoesNotExist') }),
);

const selector = fc.oneof(
  { weight: 2, arbitrary: fc.constant({}) },
  { weight: 4, arbitrary: fc.record({ matchLabels: labels }) },
  { weight: 3, arbitrary: fc.record({ matchExpressions: fc.array(expression, { maxLength: 2 }) }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { matchExpressions: [{ key: 'app', operator: 'Near', values: ['x'] }] },
      { matchExpressions: [{ key: 'app', operator: 'In', values: [] }] },
      { matchExpressions: [{ key: 'app', operator: 'Exists', values: ['x'] }] },
      { matchLabels: { app: 'not a value' } },
    ),
  },
);

const block: fc.Arbitrary<BlockObject> = fc.oneof(
  {
    weight: 3,
    arbitrary: fc.record({
      cidr: fc.constantFrom('10.0.0.0/29', '0.0.0.0/0', '10.0.0.2/31', '10.0.0.3/32'),
      except: fc.subarray(['10.0.0.2/31', '10.0.0.1/32', '10.0.0.5/32'], { maxLength: 2 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      cidr: fc.constantFrom('fd00::/64', '::/0', 'fd00:0:0:0::2/127'),
      except: fc.subarray(['fd00::2/127', 'fd00::1/128', 'fd00::4/126'], { maxLength: 2 }),
    }),
  },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { cidr: '10.0.0.1/24' },
      { cidr: '10.0.0/24' },
      { cidr: '::ffff:10.0.0.0/120' },
      { cidr: '10.0.0.0/24', except: ['fd00::/64'] },
      { cidr: '10.0.0.0/24', except: ['10.0.0.0/24'] },
      { cidr: '10.0.0.0/24', except: ['10.0.0.1/33'] },
    ),
  },
);

const peer: fc.Arbitrary<PeerObject> = fc.oneof(
  { weight: 4, arbitrary: fc.record({ podSelector: selector }) },
  { weight: 2, arbitrary: fc.record({ namespaceSelector: selector }) },
  { weight: 3, arbitrary: fc.record({ podSelector: selector, namespaceSelector: selector }) },
  { weight: 4, arbitrary: fc.record({ ipBlock: block }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom({}, { ipBlock: { cidr: '0.0.0.0/0' }, podSelector: {} }),
  },
);

const protocol = fc.constantFrom('TCP', 'TCP', 'UDP', 'SCTP');
export const portNumbers = [53, 80, 81] as const;
const port: fc.Arbitrary<PortObject> = fc.oneof(
  { weight: 3, arbitrary: fc.record({ protocol, port: fc.constantFrom(...portNumbers) }) },
  { weight: 4, arbitrary: fc.record({ protocol, port: fc.constantFrom('http', 'dns') }) },
  { weight: 1, arbitrary: fc.record({ port: fc.constantFrom(...portNumbers, 'http') }) },
  { weight: 1, arbitrary: fc.record({ protocol }) },
  { weight: 1, arbitrary: fc.record({ protocol, port: fc.constant(60), endPort: fc.constant(80) }) },
  {
    weight: 1,
    arbitrary: fc.constantFrom(
      { port: 81, endPort: 80 },
      { port: 'http', endPort: 80 },
      { endPort: 80 },
      { port: 0 },
      { port: 65_536 },
      { port: '80' },
      { protocol: 'ICMP' },
    ),
  },
);

/** Absent, empty, or with something in it. */
function list<T>(item: fc.Arbitrary<T>): fc.Arbitrary<readonly T[] | undefined> {
  return fc.oneof(
    { weight: 1, arbitrary: fc.constantFrom(undefined, []) },
    { weight: 3, arbitrary: fc.array(item, { minLength: 1, maxLength: 3 }) },
  );
}

const spec = fc.record({
  podSelector: selector,
  policyTypes: fc.constantFrom(undefined, [], ['Ingress'], ['Egress'], ['Ingress', 'Egress'], ['Other']),
  ingress: list(fc.record({ from: list(peer), ports: list(port) })),
  egress: list(fc.record({ to: list(peer), ports: list(port) })),
});

const annotations = fc.constantFrom(
  undefined,
  undefined,
  ...['true', 'true', 'True'].map((value) => ({ [monitorAnnotation]: value })),
);

const policy = fc.record({
  metadata: fc.record({ name, namespace: namespaceName, annotations }),
  spec: fc.option(spec, { nil: undefined, freq: 12 }),
});

const containerPort = fc.record({
  name: fc.constantFrom('http', 'dns', undefined),
  containerPort: fc.constantFrom(...portNumbers),
  protocol: fc.constantFrom('TCP', 'UDP', 'SCTP', undefined),
});
const container = fc.record({
  restartPolicy: fc.constantFrom('Always', undefined),
  ports: fc.array(containerPort, { maxLength: 3 }),
});

const pod = fc.record({
  metadata: fc.record({
    name,
    namespace: namespaceName,
    labels,
    creationTimestamp: time,
    deletionTimestamp: fc.option(time, { nil: undefined, freq: 5 }),
  }),
  spec: fc.record({
    nodeName: fc.constantFrom(...nodes, undefined),
    hostNetwork: fc.constantFrom(true, ...Array<undefined>(8).fill(undefined)),
    containers: fc.array(container, { maxLength: 2 }),
    initContainers: fc.array(container, { maxLength: 1 }),
  }),
  status: fc.record({
    phase: fc.constantFrom('Running', 'Running', 'Running', 'Pending', 'Succeeded', 'Failed'),
    podIP: fc.constantFrom(...addresses[4].slice(0, ofPods), undefined),
    podIPs: fc.array(
      fc.record({ ip: fc.constantFrom(...addresses[6].slice(0, ofPods), ...addresses[4].slice(0, ofPods)) }),
      { maxLength: 2 },
    ),
    startTime: fc.option(time, { nil: undefined }),
  }),
});

const namespace = fc.record({ metadata: fc.record({ name: namespaceName, labels, annotations }) });

const key = fc.tuple(namespaceName, name).map((parts) => parts.join('/'));
const gone = fc.constant(undefined);
const keyOf = ({ metadata }: PodObject | PolicyObject) => `${metadata.namespace}/${metadata.name}`;

/** The new state of an object, or its deletion. */
export const change: fc.Arbitrary<Change> = fc.oneof(
  { weight: 6, arbitrary: pod.map((object): Change => ({ kind: 'pod', key: keyOf(object), object })) },
  { weight: 6, arbitrary: policy.map((object): Change => ({ kind: 'policy', key: keyOf(object), object })) },
  {
    weight: 3,
    arbitrary: namespace.map((object): Change => ({ kind: 'namespace', key: object.metadata.name, object })),
  },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('pod', 'policy'), key, object: gone }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('namespace'), key: namespaceName, object: gone }) },
);

export interface Cluster {
  readonly pods: readonly PodObject[];
  readonly policies: readonly PolicyObject[];
  readonly namespaces: readonly NamespaceObject[];
}

/** The cluster after these changes. */
export function clusterOf(changes: readonly Change[]): Cluster {
  const last = [...new Map(changes.map((one) => [`${one.kind} ${one.key}`, one])).values()];
  return {
    pods: last.flatMap(({ kind, object }) => (kind === 'pod' ? (object ?? []) : [])),
    policies: last.flatMap(({ kind, object }) => (kind === 'policy' ? (object ?? []) : [])),
    namespaces: last.flatMap(({ kind, object }) => (kind === 'namespace' ? (object ?? []) : [])),
  };
}
