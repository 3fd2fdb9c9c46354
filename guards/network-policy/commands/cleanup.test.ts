import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { Nftables } from '../node/nftables/nftables.ts';
import { refuseFlows } from '../node/established/cut-table.ts';
import { openNftablesDataplane } from '../node/nftables/dataplane.ts';
import { everyone, nodeRules } from '../node/rules.fixture.ts';
import { asNobody, publicPath } from '../../../lib/testing/public-checkout.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';

const rampart = join(import.meta.dirname, '../../../bin/rampart');

suite('rampart network cleanup', { skip: namespaceObstacle() ?? false }, () => {
  const cleanup = (namespace: NetworkNamespace, ...[program = '', ...args]: readonly string[]) =>
    namespace.run(() => spawnSync(program, [...args, 'network', 'cleanup'], { encoding: 'utf8' }));

  test('takes all of ours away and nothing else, says what, and finds nothing the second time', async () => {
    using namespace = new NetworkNamespace();
    namespace.nft(`
      add table inet rampart-network-policy-not
      add chain inet rampart-network-policy-not forward { type filter hook forward priority filter; policy accept; }
      add rule inet rampart-network-policy-not forward tcp dport 1 accept
    `);
    using nft = namespace.run(() => new Nftables());
    const ofOthers = nft.list('list ruleset');
    using dataplane = namespace.run(() => openNftablesDataplane());
    const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };
    const policy = { policy: 'x/in', direction: 'ingress', selects: ['x/a'], allows: [everyone] } as const;
    await dataplane.sync(nodeRules([pod], [policy]));
    refuseFlows(nft, [{ from: '10.1.0.9', fromPort: 40_000, to: '10.1.0.10', port: 80 }]);
    const { status, stdout } = cleanup(namespace, rampart);
    assert.equal(status, 0);
    assert.match(
      stdout,
      /^nftables: removed\n  table inet rampart-network-policy\n[^]*^  map pods-in-4 in it$/m,
    );
    assert.match(stdout, /^connections that were cut: removed\n  table inet rampart-network-policy-cut$/m);
    assert.equal(nft.list('list ruleset'), ofOthers);
    const again = cleanup(namespace, rampart);
    assert.deepEqual(
      [again.status, again.stdout],
      [
        0,
        ['nftables', 'iptables', 'connections that were cut']
          .map((part) => `${part}: nothing to remove\n`)
          .join(''),
      ],
    );
  });

  test('is for root', () => {
    using namespace = new NetworkNamespace();
    const { status, stderr } = cleanup(namespace, ...asNobody, publicPath(rampart));
    assert.equal(status, 2);
    assert.match(
      stderr,
      /^rampart: cannot clean up this node: only root may change rules in the node's network\. Use sudo$/m,
    );
  });
});
