import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { EventRecord } from '../../shared/kube/event-object.ts';
import { policyCache } from './caches.ts';
import { compilePolicy } from './matching.ts';
import { NodeEvents } from './node-events.ts';
import { nginxPod, policyOf, trapOn } from './policy.fixture.ts';

function start(...names: readonly string[]): { readonly events: NodeEvents; readonly told: EventRecord[] } {
  const policies = policyCache();
  for (const name of names) {
    const policy = policyOf(name, trapOn('/secret.txt'));
    policies.put({ ...policy, metadata: { ...policy.metadata, resourceVersion: '1' } }, { force: true });
  }
  const told: EventRecord[] = [];
  const recorder = { record: (record: EventRecord) => void told.push(record) };
  return { events: new NodeEvents({ recorder, nodeName: 'n1', policies }), told };
}

test('a file is told on its policy, and where it is', () => {
  const { events, told } = start('p');
  const [trap] = compilePolicy(policyOf('p', trapOn('/secret.txt'))).traps;
  const [other] = compilePolicy(policyOf('gone', trapOn('/secret.txt'))).traps;
  assert.ok(trap && other);
  const container = { id: 'containerd://1', name: 'nginx', pod: nginxPod };
  events.file('FileMissing', trap, container);
  events.file('Watching', other, container);
  assert.equal(told.length, 1, 'nothing about a policy that is gone');
  assert.equal(told[0]?.regarding.name, 'p');
  assert.equal(told[0]?.type, 'Warning');
  assert.match(told[0]?.note ?? '', /^\/secret\.txt in default\/nginx-pod\/nginx on n1 is gone/);
});

test('a loss is told once on each policy, and on not too many', () => {
  const names = Array.from({ length: 30 }, (_, number) => `p${number}`);
  const { events, told } = start(...names);
  events.lost(
    7,
    [...names, ...names].map((name) => `kivebpf-system/${name}`),
  );
  assert.equal(told.length, 20);
  assert.equal(new Set(told.map(({ regarding }) => regarding.name)).size, 20);
  assert.match(told[0]?.note ?? '', /^7 accesses to watched files were lost on n1/);
});
