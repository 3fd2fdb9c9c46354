import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { wholeTable } from '../node/nftables/whole-table.fixture.ts';
import type { TableObject } from '../node/nftables/objects.ts';
import { PolicyEngine } from '../engine/engine.ts';
import { type ClusterObjects, explain } from './explanation.ts';
import { compareWithKernel } from './kernel-check.ts';

const pod = (name: string, ip: string, nodeName: string) => ({
  metadata: { namespace: 'shop', name, labels: { app: name } },
  spec: { nodeName },
  status: { podIP: ip },
});
const cluster: ClusterObjects = {
  namespaces: [{ metadata: { name: 'shop' } }],
  pods: [pod('web', '10.0.0.1', 'one'), pod('db', '10.0.0.2', 'one'), pod('far', '10.0.9.1', 'two')],
  policies: [
    {
      metadata: { namespace: 'shop', name: 'db' },
      spec: {
        podSelector: { matchExpressions: [{ key: 'app', operator: 'In', values: ['db', 'far'] }] },
        ingress: [{ from: [{ podSelector: { matchLabels: { app: 'web' } } }], ports: [{ port: 80 }] }],
      },
    },
  ],
};

function kernelOf(node: string): Map<string, TableObject> {
  const engine = new PolicyEngine(node);
  for (const one of cluster.pods) engine.upsertPod(one);
  for (const one of cluster.policies) engine.upsertPolicy(one);
  const { rules } = engine;
  return new Map(wholeTable(rules));
}

const ask = (to: string, port: number) => explain(cluster, { from: 'shop/web', to, protocol: 'TCP', port });

suite('the rules of this kernel', () => {
  test('say the same, by the chains of the pod and its policy', () => {
    const { result, ingress } = compareWithKernel(ask('shop/db', 80), kernelOf('one'));
    assert.deepEqual([result, ingress.verdict], ['agrees', 'allowed']);
    assert.match(ingress.chains.join(' '), /^forward-in in pod-in-\w+ policy-in-\w+$/);
    assert.equal(compareWithKernel(ask('shop/db', 81), kernelOf('one')).ingress.verdict, 'refused');
  });

  test('say otherwise: somebody has emptied the chain of the pod', () => {
    const kernel = kernelOf('one');
    for (const object of kernel.values()) {
      if (object.kind === 'chain' && object.comment === 'shop/db' && object.name.startsWith('pod-'))
        kernel.set(`chain ${object.name}`, { ...object, rules: [] });
    }
    const { result, ingress } = compareWithKernel(ask('shop/db', 81), kernel);
    assert.deepEqual([result, ingress.agrees], ['differs', false]);
    assert.match(ingress.words, /^The kernel allows ingress of shop\/db; the policies say otherwise/);
  });

  test('of a pod of another node say nothing, and name that node', () => {
    const { result, egress, ingress } = compareWithKernel(ask('shop/far', 81), kernelOf('one'));
    assert.deepEqual([result, egress.agrees, ingress.verdict], ['agrees', true, 'elsewhere']);
    assert.match(ingress.words, /Ask on node two\.$/);
    assert.equal(compareWithKernel(ask('shop/far', 81), kernelOf('three')).result, 'unknown');
  });

  test('none at all allow what is allowed, and cannot tell where something is to be refused', () => {
    const { result, ingress } = compareWithKernel(ask('shop/db', 81), undefined);
    assert.deepEqual([result, ingress.verdict], ['agrees', 'elsewhere']);
    assert.equal(compareWithKernel(ask('shop/db', 80), undefined).result, 'agrees');
  });
});
