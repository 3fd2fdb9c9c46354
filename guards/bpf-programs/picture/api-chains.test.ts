import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { type NodeObject, parentKinds, type ParentObject } from '../api.ts';
import { kindAnnotation, labels } from '../engine/names.ts';
import type { ProgramView } from '../status/section.ts';
import { apiChains } from './api-chains.ts';

function program(name: string, priority: number, objects: readonly NodeObject[]): ProgramView {
  const kind = parentKinds.find((one) => one.kind === 'XdpProgram');
  assert.ok(kind);
  const spec = { priority, proceedon: ['pass'] } as unknown as ParentObject['spec'];
  return { kind, parent: { metadata: { name }, spec }, objects };
}

function object(node: string, type = 'Loaded'): NodeObject {
  const condition = { type, status: 'True', reason: type, message: `${type} <img src=x>` };
  return {
    metadata: {
      labels: { [labels.hostname]: node },
      annotations: { [kindAnnotation('XdpProgram', 'interface')]: 'eth0' },
    },
    status: { conditions: [{ ...condition, lastTransitionTime: new Date(0).toISOString() }] },
  } as NodeObject;
}

suite('chains, as objects tell of them', () => {
  test('in the order of their priorities; nodes with the same one are one', () => {
    const { items } = apiChains([
      program(
        'late',
        60,
        ['n1', 'n2'].map((node) => object(node)),
      ),
      program(
        'early',
        50,
        ['n1', 'n2'].map((node) => object(node)),
      ),
    ]);
    assert.deepEqual(
      items.map(({ at, tone, proceedOn, nextOnNode }) => [at, tone, proceedOn, nextOnNode]),
      [
        [['eth0 · xdp · on n1, n2', '50 XdpProgram/early'], 'ok', 'pass', ['bpf', 'chain', 'eth0']],
        [['eth0 · xdp · on n1, n2', '60 XdpProgram/late'], 'ok', 'pass', ['bpf', 'chain', 'eth0']],
      ],
    );
  });

  test('one that does not run is marked, and drawn before those in which all do', () => {
    const { items, notes } = apiChains([
      program(
        'count',
        50,
        Array.from({ length: 20 }, (_, at) => object(`n${at}`)),
      ),
      program('broken', 60, [object('n19', 'BytecodeSelectorError')]),
    ]);
    assert.deepEqual(
      items.map(({ at, tone }) => [at.join(' '), tone]),
      [
        ['eth0 · xdp · on n19 50 XdpProgram/count', 'ok'],
        ['eth0 · xdp · on n19 60 XdpProgram/broken', 'bad'],
        ['eth0 · xdp · on 19 nodes 50 XdpProgram/count', 'ok'],
      ],
    );
    assert.match(items[1]?.text ?? '', /It does not run: BytecodeSelectorError <img src=x>\./);
    assert.deepEqual(notes, []);
  });
});
