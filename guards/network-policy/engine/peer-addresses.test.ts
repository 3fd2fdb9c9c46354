import assert from 'node:assert/strict';
import { test } from 'node:test';

import { pod, policy } from '../meaning.fixture.ts';
import { PolicyEngine } from './engine.ts';
import type { PolicyObject } from './objects.ts';
import { PeerAddresses } from './peer-addresses.ts';
import type { Peers } from './rules.ts';

/** Allows pods of its namespace with `app: web`, and a block. */
function allowing(name: string, cidr: string): PolicyObject {
  return policy(`x/${name}`, {
    podSelector: {},
    ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }, { ipBlock: { cidr } }] }],
  });
}

test('a pod that comes changes one list, whatever blocks rules allow besides the same pods', () => {
  const engine = new PolicyEngine('node');
  engine.upsertPod(pod('x/target', '10.0.0.1'));
  for (const at of [1, 2, 3]) engine.upsertPolicy(allowing(`p${at}`, `10.${at}.0.0/16`));
  engine.takeChange();
  // Its address is in one of the blocks.
  engine.upsertPod(pod('x/web', '10.1.0.9', { labels: { app: 'web' } }));
  const { peers, policies } = engine.takeChange();
  assert.deepEqual([...peers.values()], [{ 4: { gone: [], come: ['10.1.0.9'] }, 6: { gone: [], come: [] } }]);
  assert.equal(policies.size, 0);
  const [[key] = []] = peers;
  assert.deepEqual(key !== undefined && engine.rules.peers.get(key), {
    pods: { 4: ['10.1.0.9'], 6: [] },
    blocks: { 4: [], 6: [] },
  });
});

test('a value has the pods of its time, also if they are read after many changes', () => {
  const peers = new PeerAddresses({ blocks: { 4: [], 6: [] } });
  const present = new Set<string>();
  const expected: string[][] = [];
  const values: Peers[] = [];
  for (let at = 0; at < 300; at++) {
    const text = `10.0.0.${(at * 7) % 90}`;
    const selected = !present.has(text);
    if (selected) present.add(text);
    else present.delete(text);
    const addresses = [{ family: 4, value: BigInt((at * 7) % 90), text } as const];
    peers.set({ key: text, namespace: 'x', labels: {}, local: false, addresses, ports: [] }, selected);
    values.push(peers.value());
    expected.push([...present].sort());
  }
  assert.deepEqual(
    values.map(({ pods }) => pods[4]),
    expected,
  );
});
