/** The behaviour of strategic merge patches, as a table: see strategic-merge-patch.test.ts. */
import type { JsonObject } from '../../json/json.ts';

/** Object, patch and result, for pods. */
export interface Case {
  readonly name: string;
  readonly object: JsonObject;
  readonly patch: JsonObject;
  readonly result: JsonObject;
}

/** The part `spec` of pods: object, patch, result. */
const ofPods: readonly (readonly [string, JsonObject, JsonObject, JsonObject])[] = [
  [
    'containers are merged by name, their env by name, ports by containerPort, mounts by mountPath',
    {
      containers: [
        {
          name: 'web',
          image: 'web:1',
          env: [
            { name: 'A', value: '1' },
            { name: 'B', value: '2' },
          ],
          ports: [{ containerPort: 80, protocol: 'TCP' }],
          volumeMounts: [{ mountPath: '/a', name: 'a' }],
        },
      ],
    },
    {
      containers: [
        {
          name: 'web',
          image: 'web:2',
          env: [{ name: 'B', value: '3' }],
          ports: [{ containerPort: 80, name: 'http' }, { containerPort: 81 }],
          volumeMounts: [{ mountPath: '/a', readOnly: true }],
        },
      ],
    },
    {
      containers: [
        {
          name: 'web',
          image: 'web:2',
          env: [
            { name: 'A', value: '1' },
            { name: 'B', value: '3' },
          ],
          ports: [{ containerPort: 80, protocol: 'TCP', name: 'http' }, { containerPort: 81 }],
          volumeMounts: [{ mountPath: '/a', name: 'a', readOnly: true }],
        },
      ],
    },
  ],
  [
    'tolerations and args are replaced',
    { tolerations: [{ key: 'a' }, { key: 'b' }], containers: [{ name: 'c', args: ['1', '2'] }] },
    { tolerations: [{ key: 'c', value: null }], containers: [{ name: 'c', args: ['3'] }] },
    { tolerations: [{ key: 'c' }], containers: [{ name: 'c', args: ['3'] }] },
  ],
  [
    'an item is deleted by its key',
    { containers: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
    { containers: [{ $patch: 'delete', name: 'b' }] },
    { containers: [{ name: 'a' }, { name: 'c' }] },
  ],
  [
    'deleting what is not there changes nothing',
    { containers: [{ name: 'a' }] },
    { containers: [{ $patch: 'delete', name: 'x' }], affinity: { $patch: 'delete' } },
    { containers: [{ name: 'a' }] },
  ],
  [
    'a merged list is replaced on demand',
    { containers: [{ name: 'a', image: '1' }, { name: 'b' }] },
    { containers: [{ name: 'a' }, { $patch: 'replace' }] },
    { containers: [{ name: 'a' }] },
  ],
  [
    'an object is replaced, emptied or merged on demand',
    { securityContext: { runAsUser: 1, fsGroup: 2 }, nodeSelector: { a: '1' }, affinity: { x: 1 } },
    {
      securityContext: { $patch: 'replace', runAsUser: 3 },
      nodeSelector: { $patch: 'delete' },
      affinity: { $patch: 'merge', y: 2 },
    },
    { securityContext: { runAsUser: 3 }, nodeSelector: {}, affinity: { x: 1, y: 2 } },
  ],
  [
    'null deletes, also where nothing was; nulls of new objects are no data',
    { nodeName: 'n', dnsConfig: { a: 1 } },
    {
      nodeName: null,
      hostname: null,
      dnsConfig: { b: { c: null } },
      volumes: [{ name: 'v', emptyDir: { x: null } }],
    },
    { dnsConfig: { a: 1, b: {} }, volumes: [{ name: 'v', emptyDir: {} }] },
  ],
  [
    '$retainKeys clears the other kinds of a volume',
    { volumes: [{ name: 'v', hostPath: { path: '/a' } }] },
    { volumes: [{ $retainKeys: ['name', 'emptyDir'], name: 'v', emptyDir: {} }] },
    { volumes: [{ name: 'v', emptyDir: {} }] },
  ],
  [
    '$setElementOrder orders what it names; what it does not name stays where it was',
    { containers: [{ name: 'sidecar' }, { name: 'a' }, { name: 'b' }] },
    { '$setElementOrder/containers': [{ name: 'b' }, { name: 'a' }] },
    { containers: [{ name: 'sidecar' }, { name: 'b' }, { name: 'a' }] },
  ],
  [
    '$setElementOrder with a change, an addition and a deletion',
    { containers: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
    {
      '$setElementOrder/containers': [{ name: 'd' }, { name: 'a' }, { name: 'c' }],
      containers: [{ name: 'd' }, { name: 'c', image: 'x' }, { $patch: 'delete', name: 'b' }],
    },
    { containers: [{ name: 'd' }, { name: 'a' }, { name: 'c', image: 'x' }] },
  ],
  [
    'the order of a patch without $setElementOrder',
    { containers: [{ name: 'a' }, { name: 'b' }, { name: 'c' }] },
    {
      containers: [
        { name: 'c', x: 1 },
        { name: 'a', x: 1 },
      ],
    },
    { containers: [{ name: 'b' }, { name: 'c', x: 1 }, { name: 'a', x: 1 }] },
  ],
  [
    'a list in place of a text, a text in place of an object',
    { hostAliases: 'x', securityContext: { a: 1 } },
    { hostAliases: [{ ip: '1.1.1.1' }], securityContext: 'y' },
    { hostAliases: [{ ip: '1.1.1.1' }], securityContext: 'y' },
  ],
  [
    'the first of two items of one name is merged',
    {
      containers: [
        { name: 'a', n: 1 },
        { name: 'a', n: 2 },
      ],
    },
    { containers: [{ name: 'a', x: 1 }] },
    {
      containers: [
        { name: 'a', n: 1, x: 1 },
        { name: 'a', n: 2 },
      ],
    },
  ],
];

export const cases: readonly Case[] = [
  ...ofPods.map(([name, object, patch, result]) => ({
    name,
    object: { spec: object },
    patch: { spec: patch },
    result: { spec: result },
  })),
  {
    name: 'finalizers are a set, owners are merged by uid',
    object: { metadata: { finalizers: ['a', 'b'], ownerReferences: [{ uid: '1', name: 'x' }] } },
    patch: {
      metadata: { finalizers: ['c', 'b'], ownerReferences: [{ uid: '2' }, { uid: '1', controller: true }] },
    },
    result: {
      metadata: {
        finalizers: ['c', 'a', 'b'],
        ownerReferences: [{ uid: '2' }, { uid: '1', name: 'x', controller: true }],
      },
    },
  },
  {
    name: '$deleteFromPrimitiveList takes items from a set',
    object: { metadata: { finalizers: ['a', 'b', 'c'] } },
    patch: {
      metadata: {
        '$deleteFromPrimitiveList/finalizers': ['b', 'x'],
        '$setElementOrder/finalizers': ['c', 'd', 'a'],
        finalizers: ['d'],
      },
    },
    result: { metadata: { finalizers: ['c', 'd', 'a'] } },
  },
  {
    name: '$deleteFromPrimitiveList of a list that is not there',
    object: { metadata: {} },
    patch: { metadata: { '$deleteFromPrimitiveList/finalizers': ['b'] } },
    result: { metadata: {} },
  },
  {
    name: 'conditions are merged by type',
    object: {
      status: {
        conditions: [
          { type: 'Ready', status: 'False' },
          { type: 'X', status: 'True' },
        ],
      },
    },
    patch: { status: { conditions: [{ type: 'Ready', status: 'True' }] } },
    result: {
      status: {
        conditions: [
          { type: 'Ready', status: 'True' },
          { type: 'X', status: 'True' },
        ],
      },
    },
  },
  { name: 'the whole, deleted', object: { a: 1 }, patch: { $patch: 'delete' }, result: {} },
  {
    name: 'the whole, replaced',
    object: { a: 1 },
    patch: { $patch: 'replace', b: { c: null, d: 1 } },
    result: { b: { d: 1 } },
  },
];
