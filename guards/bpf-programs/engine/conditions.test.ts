import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { NodeObject, ParentObject } from '../api.ts';
import type { Failure } from '../kernel/desired.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { labels } from './names.ts';
import { conditionOf, nodeCondition } from './node-condition.ts';
import type { NodeView } from './node-view.ts';
import { parentCondition } from './parent-condition.ts';
import { parentOf } from './parent.ts';
import { wantedOf } from './wanted.ts';

const node: NodeView = {
  name: 'n1',
  primaryInterface: () => undefined,
  networks: () => [],
  interfacesIn: () => [],
  select: () => [],
};
const program = {
  metadata: { name: 'p', uid: 'uid-p', generation: 1 },
  spec: {
    ...{ nodeselector: {}, bytecode: { image: { url: 'registry.example/x' } }, bpffunctionname: 'fn' },
    ...{ interfaceselector: { interfaces: ['eth0'] }, priority: 5, proceedon: ['pass'] },
  },
} as unknown as ParentObject;

suite('conditions', () => {
  const [one] = wantedOf(parentOf(parentKind('XdpProgram'), program), node);
  assert.ok(one);
  const failed = (reason: Failure['reason']) =>
    conditionOf(one, {
      outcome: { state: 'failed', reason, message: 'Why.', mayPass: reason === 'target' },
      digest: 'sha256:1',
    });

  test('an outcome of the kernel is a condition, with its words and the digest', () => {
    assert.deepEqual(
      conditionOf(one, { outcome: { state: 'loaded', programId: 7, notes: ['slow'] }, digest: 'sha256:1' }),
      { type: 'Loaded', reason: 'bpfmanLoaded', message: 'fn of sha256:1 runs as program 7; slow' },
    );
    const reasons = [
      'attach',
      'bytecode',
      'load',
      'map-owner-not-found',
      'map-owner-not-loaded',
      'target',
    ] as const;
    assert.deepEqual(
      reasons.map((reason) => failed(reason).type),
      [
        'NotLoaded',
        'BytecodeSelectorError',
        'NotLoaded',
        'MapOwnerNotFound',
        'MapOwnerNotLoaded',
        'NotLoaded',
      ],
    );
    assert.equal(failed('load').message, 'fn of sha256:1: Why.');
    assert.equal(failed('target').message, 'fn of sha256:1: Why.\nRetrying.');
  });

  test('reports that the old version still runs and why the new one does not; it is never Loaded', () => {
    const failure: Failure = { state: 'failed', reason: 'load', message: 'Why.', mayPass: false };
    const kept = { state: 'kept', programId: 7, digest: 'sha256:1', notes: ['slow'], failure } as const;
    const runs = 'The last version that ran, sha256:1, keeps running as program 7; slow.';
    assert.deepEqual(conditionOf(one, { outcome: kept, digest: 'sha256:2' }), {
      type: 'NotLoaded',
      reason: 'bpfmanNotLoaded',
      message: `fn of sha256:2: Why.\n${runs}`,
    });
    const condition = nodeCondition('BytecodeSelectorError', 'No file.');
    assert.deepEqual(conditionOf(one, { condition, kept }), {
      ...condition,
      message: `No file.\n${runs}`,
    });
  });

  const object = (hostname: string, type: string, generation = 1, message = 'm'): NodeObject =>
    ({
      metadata: {
        name: `x-${hostname}`,
        labels: { [labels.hostname]: hostname },
        finalizers: ['bpfman.io.xdpprogramcontroller/finalizer'],
      },
      spec: {},
      status: {
        conditions: [{ type, status: 'True', reason: type, message, observedGeneration: generation }],
      },
    }) as unknown as NodeObject;
  const rows: readonly [string, readonly NodeObject[], string, RegExp][] = [
    ['no node has answered', [], 'NotYetLoaded', /No agent with this guard has reported from n1, n2 yet/],
    ['one node has not', [object('n1', 'Loaded')], 'NotYetLoaded', /reported from n2 yet/],
    [
      'both run it',
      [object('n1', 'Loaded'), object('n2', 'Loaded')],
      'ReconcileSuccess',
      /^2 programs run on n1, n2\.$/,
    ],
    [
      'one is not selected',
      [object('n1', 'Loaded'), object('n2', 'NotSelected')],
      'ReconcileSuccess',
      /^1 program runs on n1\.$/,
    ],
    [
      'none is selected',
      [object('n1', 'NotSelected'), object('n2', 'NotSelected')],
      'NotYetLoaded',
      /selects no node/,
    ],
    [
      'one has no containers',
      [object('n1', 'Loaded'), object('n2', 'NoContainersOnNode')],
      'ReconcileSuccess',
      /No container is selected on n2\.$/,
    ],
    [
      'none has containers',
      [object('n1', 'NoContainersOnNode'), object('n2', 'NoContainersOnNode')],
      'NotYetLoaded',
      /^Nothing to attach to: m$/,
    ],
    [
      'one is of an older generation',
      [object('n1', 'Loaded', 0), object('n2', 'Loaded')],
      'NotYetLoaded',
      /has not seen the latest change/,
    ],
    ...['NotLoaded', 'NotUnLoaded', 'MapOwnerNotFound', 'MapOwnerNotLoaded', 'BytecodeSelectorError'].map(
      (type): [string, readonly NodeObject[], string, RegExp] => [
        `one is ${type}`,
        [object('n1', 'Loaded'), object('n2', type)],
        'ReconcileError',
        new RegExp(`^n2: x-n2: ${type}: m$`),
      ],
    ),
    [
      'no packet reaches one',
      [
        object(
          'n1',
          'Loaded',
          1,
          'f runs as program 7; no packet reaches it on eth0: TcProgram/a ends; other',
        ),
        object('n2', 'Loaded'),
      ],
      'ReconcileSuccess',
      /^2 programs run on n1, n2\. No packet reaches it on eth0: TcProgram\/a ends \(n1\)\.$/,
    ],
    [
      'a failure comes before a node that has not answered',
      [object('n1', 'NotLoaded')],
      'ReconcileError',
      /NotLoaded/,
    ],
  ];
  for (const [what, objects, type, message] of rows) {
    test(`${what}: ${type}`, () => {
      const found = parentCondition(
        { kind: parentKind('XdpProgram'), deleting: false, generation: 1 },
        objects,
        ['n1', 'n2'],
      );
      assert.equal(found.type, type);
      assert.match(found.message, message);
      assert.equal(found.reason, type === 'NotYetLoaded' ? 'ProgramsNotYetLoaded' : type);
    });
  }
});
