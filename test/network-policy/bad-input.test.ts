// Rules that the API accepts but that cannot be expressed, or that the kernel rejects: such a rule allows
// nothing, all others hold, and an event and the status name the field and why. On both backends.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test, type TestContext } from 'node:test';

import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { NftablesBatch } from '../../guards/network-policy/dataplane/nftables/nftables-batch.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import type { Dataplane } from '../../guards/network-policy/dataplane/dataplane.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { examine } from '../../guards/network-policy/status/section.ts';
import { networkPolicies } from '../../guards/network-policy/api.ts';
import { pods } from '../../lib/kube/object/object.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { PolicyNode } from './policy-node.fixture.ts';
import { connects } from './probe.fixture.ts';

/** The error in the first rule of a policy, and the expected report. */
const wrong: Readonly<Record<string, readonly [rule: object, field: string, why: RegExp]>> = {
  'name-of-no-pod': [{ ports: [{ port: 'nothing' }] }, 'ports[0].port', /port named "nothing" \(TCP\)/],
  'name-of-another-protocol': [
    { ports: [{ port: 'serve-80', protocol: 'UDP' }] },
    'ports[0].port',
    /port named "serve-80" \(UDP\)/,
  ],
};

const backends: readonly (readonly [string, string | undefined, () => Dataplane])[] = [
  ['nftables', namespaceObstacle(), openNftablesDataplane],
  ['iptables', iptablesObstacle('nft'), () => openIptablesDataplane({ variant: 'nft' })],
];

const isolates = (pod: string) => ({ podSelector: { matchLabels: { pod } } });

/** Who reaches whom at which port, over each family. */
async function reached(node: PolicyNode, ...names: readonly string[]): Promise<string[]> {
  const [from, found] = [node.network.host('z/a'), [] as string[]];
  for (const name of names) {
    for (const [family, port] of [
      [4, 80],
      [4, 81],
      [6, 80],
      [6, 81],
    ] as const) {
      const outcome = await connects(from, node.network.host(name).addresses[family], port);
      if (outcome === 'answered') found.push(`${name} ${port} IPv${family}`);
    }
  }
  return found;
}

async function notes(node: PolicyNode, policy: string, wanted = 'NotExpressed'): Promise<string> {
  const events = (await node.eventsOf('x')).filter(({ reason, regarding }) => {
    return reason === wanted && regarding?.name === policy;
  });
  return events.map(({ note }) => note ?? '').join('\n');
}

/** Makes the kernel's sets hold a few members only: of the others it says that the set is full. */
const holdFew: Readonly<Record<string, (t: TestContext, directory: string) => void>> = {
  // All that is made as a set or map asks for that size; there is room for each pair of the two addresses of nine pods.
  nftables: (t) => {
    const { message } = NftablesBatch.prototype;
    t.mock.method(
      NftablesBatch.prototype,
      'message',
      function (this: NftablesBatch, ...[kind, write]: Parameters<typeof message>) {
        const isSet = kind === 'newSet';
        message.call(this, kind, () => {
          write?.();
          // NFTA_SET_DESC, NFTA_SET_DESC_SIZE
          if (isSet) this.nest(9, () => this.number(1, 36));
        });
      },
    );
  },
  iptables: (t, directory) => {
    const bin = join(directory, 'bin');
    mkdirSync(bin);
    const path = process.env['PATH'] ?? '';
    const ipset = execFileSync('sh', ['-c', 'command -v ipset'], { encoding: 'utf8' }).trim();
    writeFileSync(join(bin, 'ipset'), `#!/bin/sh\nsed 's/ maxelem [0-9]*/ maxelem 6/' | ${ipset} "$@"\n`);
    chmodSync(join(bin, 'ipset'), 0o755);
    process.env['PATH'] = `${bin}:${path}`;
    t.after(() => (process.env['PATH'] = path));
  },
};
/** ENFILE, and what ipset says. */
const fullWords: Readonly<Record<string, RegExp>> = { nftables: /ENFILE|file table/i, iptables: /full/ };

suite('policies that cannot be expressed', { timeout: 300_000 }, () => {
  for (const [backend, obstacle, open] of sampled(backends, 1)) {
    test(
      `by ${backend}: allows nothing, is reported, and does not affect other rules`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ open });
        // All errors of x/a; beside it one valid rule, and another policy.
        const below = { ...isolates('a'), ingress: [{ ports: [{ port: 81, endPort: 80 }] }] };
        // The API itself refuses this now.
        await assert.rejects(
          node.apply('x/below', below),
          /spec\.ingress\[0\]\.ports\[0\]\.endPort: Invalid/,
        );
        for (const [name, [rule]] of Object.entries(wrong)) {
          await node.apply(`x/${name}`, { ...isolates('a'), ingress: [rule] });
        }
        await node.apply('x/beside', {
          ...isolates('b'),
          ingress: [wrong['name-of-another-protocol']![0], { ports: [{ port: 81 }] }],
        });
        // The API only warns about this.
        await node.apply('x/masked', {
          ...isolates('c'),
          ingress: [{ from: [{ ipBlock: { cidr: '10.1.0.99/8' } }], ports: [{ port: 80 }] }],
        });
        await node.start();
        const allowed = ['x/b 81 IPv4', 'x/b 81 IPv6', 'x/c 80 IPv4'];
        assert.deepEqual(await reached(node, 'x/a', 'x/b', 'x/c'), allowed);
        const reading = await until('the event of the block', () => notes(node, 'masked', 'ReadDifferently'));
        assert.match(
          reading,
          /^spec\.ingress\[0\]\.from\[0\]\.ipBlock\.cidr: "10\.1\.0\.99\/8" .* read as 10\.0\.0\.0\/8\.$/,
        );
        const [policies, known] = [await node.client.list(networkPolicies), await node.client.list(pods)];
        const status = examine(policies.items, known.items, Date.now());
        const masked = status.find(({ name }) => name === 'masked');
        assert.deepEqual([masked?.notExpressed, masked?.warnings], [[], [reading]]);
        for (const [name, [, field, why]] of Object.entries(wrong)) {
          const note = await until(`the event of ${name}`, () => notes(node, name));
          assert.match(note, why);
          assert.ok(note.startsWith(`spec.ingress[0].${field}: `), note);
          const [problem, ...more] = status.find((one) => one.name === name)?.notExpressed ?? [];
          assert.deepEqual([problem?.field, more], [`spec.ingress[0].${field}`, []]);
          assert.match(problem?.message ?? '', why);
        }
      },
    );
  }

  for (const [backend, obstacle, open] of sampled(backends, 1)) {
    deepTest(
      `by ${backend}: a rule with more than a set can hold`,
      { skip: obstacle ?? false },
      async (t) => {
        await using node = await PolicyNode.create({ open });
        holdFew[backend]?.(t, node.directory);
        const blocks = Array.from({ length: 60 }, (_, at) => ({
          ipBlock: { cidr: `10.${2 * at + 1}.0.0/24` },
        }));
        await node.apply('x/large', {
          ...isolates('a'),
          ingress: [{ from: blocks, ports: [{ port: 80 }] }, { ports: [{ port: 81 }] }],
        });
        await node.apply('x/other', { ...isolates('b'), ingress: [{ from: blocks.slice(0, 3) }] });
        await node.start();
        const answers = ['x/a 81 IPv4', 'x/a 81 IPv6', 'x/b 80 IPv4', 'x/b 81 IPv4'];
        assert.deepEqual(await reached(node, 'x/a', 'x/b'), answers);
        const note = await until('the event', () => notes(node, 'large'));
        assert.match(note, /^spec\.ingress\[0\]: the kernel rejects this rule, so it allows nothing: /);
        assert.match(note, fullWords[backend]!);
        // And as more comes to it.
        await node.apply('x/more', { ...isolates('b'), ingress: [{ from: blocks.slice(0, 50) }] });
        await until('the next event', () => notes(node, 'more'));
        assert.deepEqual(await reached(node, 'x/a', 'x/b'), answers);
        await node.apply('x/large', {
          ...isolates('a'),
          ingress: [{ from: blocks.slice(0, 5), ports: [{ port: 80 }] }],
        });
        await until('the smaller one', async () => (await reached(node, 'x/a')).join() === 'x/a 80 IPv4');
      },
    );
  }
});
