import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as iptables from './iptables/names.ts';
import * as nftables from './nftables/names.ts';

const pod = `shop/${'web-'.repeat(20)}`;
const policies = ['shop/first', 'shop/second'];

suite('the prefix of a logged packet', () => {
  test('names the policies', () => {
    const chain = nftables.classChain('ingress', 'refused', policies);
    assert.equal(nftables.logPrefix('refused', chain, policies), `rampart ${chain} shop/first,shop/second `);
  });

  test('fits the limit of the kernel, and has the whole chain', () => {
    const many = [pod, ...policies];
    const [nft, kube] = [nftables.classChain('egress', 'refused', many), iptables.podChain(pod)];
    for (const [prefix, maxBytes, begin] of [
      [nftables.logPrefix('refused', nft, many), 127, `rampart ${nft} shop/web-`],
      [iptables.logPrefix('refused', kube, 'egress', pod, policies), 63, `rampart ${kube} out shop/web-`],
      [iptables.logPrefix('would-refuse', kube, 'egress', pod), 63, `rampart-monitor ${kube} out shop/web-`],
    ] as const) {
      assert.equal(prefix.length, maxBytes);
      assert.ok(prefix.startsWith(begin) && prefix.endsWith(' '), prefix);
    }
  });
});
