import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { addKubeRouterRules, kubeRouterSets } from '../other-rules/kube-router.fixture.ts';
import { iptablesObstacle, variants } from '../dataplane/iptables/obstacle.fixture.ts';
import { Nftables } from '../dataplane/nftables/nftables.ts';
import { refuseFlows } from '../node/established/cut-table.ts';
import { openNftablesDataplane } from '../dataplane/nftables/dataplane.ts';
import { SourceTable } from '../node/sources/source-table.ts';
import { TakenAddresses } from '../node/sources/taken-addresses.ts';
import { everyone, nodeRules } from '../dataplane/rules.fixture.ts';
import { asNobody, publicPath } from '../../../lib/testing/public-checkout.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';

const rampart = join(import.meta.dirname, '../../../bin/rampart');

/** All that is there of rules and sets, without times and counts. */
function rulesIn(namespace: NetworkNamespace): string {
  const programs = ['iptables', 'ip6tables'].flatMap((name) =>
    variants.map((variant) => `${name}-${variant}-save`),
  );
  const found = [['nft', '-s', 'list', 'ruleset'], ['ipset', 'save'], ...programs.map((one) => [one])].map(
    ([program = '', ...args]) =>
      namespace.run(() =>
        execFileSync(program, args, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] }),
      ),
  );
  return found
    .join('')
    .replaceAll(/^#.*\n/gm, '')
    .replaceAll(/ \[\d+:\d+\]$/gm, '');
}

suite('rampart network cleanup', { skip: namespaceObstacle() ?? false }, () => {
  const cleanup = (namespace: NetworkNamespace, ...[program = '', ...args]: readonly string[]) =>
    namespace.run(() => spawnSync(program, [...args, 'network', 'cleanup'], { encoding: 'utf8' }));

  test('leaves the rules of kube-router', { skip: iptablesObstacle() ?? false }, () => {
    using namespace = new NetworkNamespace();
    addKubeRouterRules(namespace, variants, 'both');
    const before = rulesIn(namespace);
    const { status, stdout } = cleanup(namespace, rampart);
    assert.equal(status, 0);
    assert.match(stdout, /^iptables: nothing to remove$/m);
    assert.equal(rulesIn(namespace), before);
  });

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
    const taken = new TakenAddresses();
    taken.change({ gone: [], come: ['10.1.0.10'] });
    using sources = new SourceTable((work) => namespace.run(work), [100], taken);
    sources.program(new Map());
    refuseFlows(nft, [{ from: '10.1.0.9', fromPort: 40_000, to: '10.1.0.10', port: 80 }]);
    const { status, stdout } = cleanup(namespace, rampart);
    assert.equal(status, 0);
    assert.match(
      stdout,
      /^nftables: removed\n  table inet rampart-network-policy\n[^]*^  map pods-in-4 in it$/m,
    );
    assert.match(stdout, /^sources of packets: removed\n  table netdev rampart-network-policy-sources$/m);
    assert.match(stdout, /^connections that were cut: removed\n  table inet rampart-network-policy-cut$/m);
    assert.equal(nft.list('list ruleset'), ofOthers);
    const again = cleanup(namespace, rampart);
    assert.deepEqual(
      [again.status, again.stdout],
      [
        0,
        ['nftables', 'iptables', 'sources of packets', 'connections that were cut']
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

suite('rampart network takeover', { skip: iptablesObstacle() ?? false }, () => {
  const takeover = (namespace: NetworkNamespace, ...args: readonly string[]) =>
    namespace.run(() => spawnSync(rampart, ['network', 'takeover', ...args], { encoding: 'utf8' }));

  test('removes the rules of kube-router, and no others; before that it says which', async () => {
    using namespace = new NetworkNamespace();
    // Its Service proxy, and a chain of another program.
    const others = `*filter\n:KUBE-ROUTER-SERVICES - [0:0]\n:KUBE-FORWARD - [0:0]\n-A INPUT -j KUBE-ROUTER-SERVICES\n-A FORWARD -j KUBE-FORWARD\nCOMMIT\n`;
    for (const variant of variants)
      namespace.run(() =>
        execFileSync(`iptables-${variant}-restore`, ['--noflush', '--wait'], { input: others }),
      );
    namespace.run(() => execFileSync('ipset', ['create', 'kube-router-svip', 'hash:ip']));
    // With these come the built-in chains, which stay.
    const accept = ['INPUT', 'FORWARD', 'OUTPUT'].map((chain) => `-A ${chain} -j ACCEPT\n`).join('');
    for (const program of variants.flatMap((variant) => [`iptables-${variant}`, `ip6tables-${variant}`]))
      namespace.run(() =>
        execFileSync(`${program}-restore`, ['--noflush', '--wait'], { input: `*filter\n${accept}COMMIT\n` }),
      );
    using dataplane = namespace.run(() => openNftablesDataplane());
    const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };
    await dataplane.sync(
      nodeRules([pod], [{ policy: 'x/in', direction: 'ingress', selects: ['x/a'], allows: [] }]),
    );
    const before = rulesIn(namespace);
    addKubeRouterRules(namespace, variants, 'both');
    const both = rulesIn(namespace);
    const dry = takeover(namespace, '--dry-run');
    assert.deepEqual([dry.status, dry.stderr], [0, '']);
    assert.match(dry.stdout, /^kube-router: would remove\n  table ip kube-router-filter-ipv4$/m);
    for (const line of [
      'ip6tables-legacy rule in FORWARD: -m comment',
      'iptables-legacy chain KUBE-NWPLCY-TAIL',
      'ipset inet6:kube-router-local-pods',
      `ipset ${kubeRouterSets('IPv4').blocks}`,
      `ipset inet6:${kubeRouterSets('IPv6').target}`,
    ])
      assert.ok(dry.stdout.includes(`\n  ${line}`), `${line} in ${dry.stdout}`);
    assert.equal(rulesIn(namespace), both);
    const done = takeover(namespace);
    assert.deepEqual([done.status, done.stdout], [0, dry.stdout.replace('would remove', 'removed')]);
    assert.equal(rulesIn(namespace), before);
    assert.equal(takeover(namespace).stdout, 'no rules of kube-router here\n');
  });

  test('by docs/moving.md: of a kube-router and of a k3s that have ended, a pod is reached again', () => {
    const guide = readFileSync(join(import.meta.dirname, '../../../docs/moving.md'), 'utf8');
    const moves = [
      ['From kube-router', '2.11'],
      ['From k3s', '2.6'],
    ] as const;
    for (const [heading, version] of moves) {
      const section = guide.split(/^(?=## )/m).find((one) => one.startsWith(`## ${heading}\n`)) ?? '';
      const blocks = [...section.matchAll(/^ +```sh\n([^]*?)^ +```$/gm)].map(([, block = '']) => block);
      const commands = blocks.filter((block) => /^ *rampart (?:doctor|network takeover)/m.test(block));
      assert.ok(commands.length > 0, heading);
      using namespace = new NetworkNamespace();
      const sh = (script: string) =>
        namespace.run(() =>
          spawnSync('sh', ['-c', script], {
            encoding: 'utf8',
            env: { ...process.env, PATH: `${dirname(rampart)}:${process.env['PATH']}` },
          }),
        );
      const before = rulesIn(namespace);
      addKubeRouterRules(namespace, ['nft'], version === '2.11' ? 'both' : 'iptables', version);
      // The address of its pod is on this node: what comes from there to others of these addresses is what egress policies see.
      const reach = 'busybox ping -q -c 1 -W 1 -I 10.1.0.11 10.1.0.12';
      assert.equal(
        sh('ip link set lo up && ip address add 10.1.0.11/32 dev lo && ip address add 10.1.0.12/32 dev lo')
          .status,
        0,
      );
      const isReached = (): boolean => sh(reach).status === 0;
      assert.equal(
        isReached(),
        version === '2.6',
        'with --netpol-default-deny, pods that it does not know are refused',
      );
      const said = commands.map((block) => {
        const { stdout, stderr } = sh(block);
        assert.equal(stderr, '');
        return stdout;
      });
      assert.match(said.join(''), /^kube-router: removed$/m, heading);
      if (heading === 'From kube-router')
        assert.match(said[0] ?? '', /kube-router has rules in[^]*would remove/);
      assert.equal(isReached(), true);
      // The built-in chains stay, which iptables makes with the first rule.
      const builtIn = /^:(?:INPUT|FORWARD|OUTPUT) ACCEPT$|^\*filter$|^COMMIT$/;
      const rules = (text: string): string[] =>
        text.split('\n').filter((line) => /KUBE-|kube-router/.test(line) && !builtIn.test(line));
      assert.deepEqual(rules(rulesIn(namespace)), rules(before));
      assert.equal(sh('rampart network takeover').stdout, 'no rules of kube-router here\n');
    }
  });
});
