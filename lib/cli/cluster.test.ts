import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { TemporaryDirectory } from '../testing/temporary-directory.fixture.ts';
import { clusterAccess } from './cluster.ts';

const kubeconfig = `
current-context: one
contexts:
  - { name: one, context: { cluster: first, namespace: shop } }
  - { name: two, context: { cluster: second } }
clusters:
  - { name: first, cluster: { server: 'https://first.example' } }
  - { name: second, cluster: { server: 'https://second.example' } }
`;

test('a cluster is named by a kubeconfig, a context of it, or a directory of standalone', () => {
  using directory = new TemporaryDirectory();
  const file = directory.at('kubeconfig');
  writeFileSync(file, kubeconfig);
  const hostOf = (choice: Parameters<typeof clusterAccess>[0]): string => clusterAccess(choice).server.host;
  assert.equal(hostOf({ kubeconfig: file }), 'first.example');
  assert.equal(clusterAccess({ kubeconfig: file }).namespace, 'shop');
  assert.equal(hostOf({ kubeconfig: file, context: 'two' }), 'second.example');
  assert.equal(hostOf({ data: directory.path, context: 'two' }), 'second.example');
  for (const [choice, message] of [
    [{ kubeconfig: file, context: 'three' }, /has no context "three"\. It has: one, two/],
    [{ kubeconfig: file, data: directory.path }, /--kubeconfig and --data together/],
    [{ kubeconfig: file, context: '' }, /--context is empty/],
    [{ data: '' }, /--data is empty/],
  ] as const)
    assert.throws(() => clusterAccess(choice), { code: 'RAMPART_INPUT', message });
});
