import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { PolicyEngine } from '../engine/engine.ts';
import type { NodeRules } from '../engine/rules.ts';
import { podChain } from '../dataplane/iptables/names.ts';
import type { KernelRuleset } from '../dataplane/kernel-packet.ts';
import { wholeTable } from '../dataplane/nftables/whole-table.fixture.ts';
import { allIptables, iptablesRuleset, nftablesRuleset, rulesets } from '../dataplane/rulesets.fixture.ts';
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

function rulesOf(node: string, policies = cluster.policies): NodeRules {
  const engine = new PolicyEngine(node);
  for (const one of cluster.pods) engine.upsertPod(one);
  for (const one of policies) engine.upsertPolicy(one);
  return engine.rules;
}

const ask = (to: string, port: number) => explain(cluster, { from: 'shop/web', to, protocol: 'TCP', port });

const chains: Readonly<Record<string, RegExp>> = {
  nftables: /^forward-in in class-in-\w+ policy-in-\w+$/,
  iptables: /^FORWARD KUBE-ROUTER-FORWARD KUBE-POD-FW-\w+ KUBE-NWPLCY-COMMON KUBE-NWPLCY-\w+$/,
};
/** As if another program had emptied the chain of the pod. */
const emptied: Readonly<Record<string, (rules: NodeRules) => KernelRuleset>> = {
  nftables: (rules) => {
    const table = new Map(wholeTable(rules));
    for (const object of table.values()) {
      if (object.kind === 'chain' && object.name.startsWith('class-in-'))
        table.set(`chain ${object.name}`, { ...object, rules: [] });
    }
    return nftablesRuleset(table);
  },
  iptables: (rules) => {
    const { families, sets } = allIptables(rules);
    const four = families[4].chains;
    const without = new Map([...four, [podChain('shop/db'), []] as const]);
    return iptablesRuleset({ families: { ...families, 4: { ...families[4], chains: without } }, sets });
  },
};

suite('the rules of this kernel', () => {
  for (const [backend, rulesetOf] of Object.entries(rulesets)) {
    const kernelOf = (node: string): KernelRuleset[] => [rulesetOf(rulesOf(node))];

    test(`${backend}: say the same, by the chains of the pod and its policy`, () => {
      const { result, ingress } = compareWithKernel(ask('shop/db', 80), kernelOf('one'));
      assert.deepEqual([result, ingress.verdict], ['agrees', 'allowed']);
      assert.match(ingress.chains.join(' '), chains[backend]!);
      assert.equal(compareWithKernel(ask('shop/db', 81), kernelOf('one')).ingress.verdict, 'refused');
    });

    test(`${backend}: disagree if the chain of the pod was emptied`, () => {
      const kernel = emptied[backend]!(rulesOf('one'));
      // With nftables, nothing is accepted then.
      const [port, does] = backend === 'nftables' ? [80, 'refuses'] : [81, 'allows'];
      const { result, ingress } = compareWithKernel(ask('shop/db', port), [kernel]);
      assert.deepEqual([result, ingress.agrees], ['differs', false]);
      assert.match(ingress.words, new RegExp(`^The kernel ${does} ingress of shop/db; the policies differ`));
    });

    test(`${backend}: say of what monitor mode lets pass that it is reported`, () => {
      const annotations = { 'kube-router.io/network-policy.monitor': 'true' };
      const policies = cluster.policies.map((one) => ({
        ...one,
        metadata: { ...one.metadata, annotations },
      }));
      const question = { from: 'shop/web', to: 'shop/db', protocol: 'TCP', port: 81 };
      const explanation = explain({ ...cluster, policies }, question);
      const kernel = [rulesetOf(rulesOf('one', policies))];
      const { result, ingress } = compareWithKernel(explanation, kernel);
      assert.deepEqual([result, ingress.verdict], ['agrees', 'would-refuse']);
      assert.match(ingress.words, /^The kernel allows and reports ingress of shop\/db, in agreement/);
      // A kernel that has not reported yet, and one without rules.
      assert.equal(compareWithKernel(explanation, kernelOf('one')).result, 'differs');
      assert.equal(compareWithKernel(ask('shop/db', 81), kernel).result, 'differs');
      assert.equal(compareWithKernel(explanation, []).result, 'unknown');
    });

    test(`${backend}: of a pod of another node say nothing, and name that node`, () => {
      const { result, egress, ingress } = compareWithKernel(ask('shop/far', 81), kernelOf('one'));
      assert.deepEqual([result, egress.agrees, ingress.verdict], ['agrees', true, 'elsewhere']);
      assert.match(ingress.words, /Run the command on node two\.$/);
      assert.equal(compareWithKernel(ask('shop/far', 81), kernelOf('three')).result, 'unknown');
    });
  }

  test('of two backends refuse packets that one of them refuses', () => {
    const rules = rulesOf('one');
    const both = [emptied['nftables']!(rules), rulesets['iptables']!(rules)];
    const { backend, result, ingress } = compareWithKernel(ask('shop/db', 81), both);
    assert.deepEqual(
      [backend, result, ingress.verdict],
      ['nftables and iptables (nft)', 'agrees', 'refused'],
    );
  });

  test('without rules, allowed packets are allowed, and refusals cannot be confirmed', () => {
    const { backend, result, ingress } = compareWithKernel(ask('shop/db', 81), []);
    assert.deepEqual([backend, result, ingress.verdict], [null, 'unknown', 'elsewhere']);
    assert.equal(compareWithKernel(ask('shop/db', 80), []).result, 'agrees');
  });
});
