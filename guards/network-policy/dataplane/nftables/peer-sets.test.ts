import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { blocks, changeBetween, type GivenPolicy, nodeRules } from '../rules.fixture.ts';
import { openNftablesDataplane } from './dataplane.ts';
import { peerMatches, peerSets } from './peer-sets.ts';
import { ruleText } from './rule-text.ts';

const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };

/** Policies that have the same peers. */
function policies(peers: ReturnType<typeof blocks>, ...names: readonly string[]): GivenPolicy[] {
  return names.flatMap((name) =>
    (['ingress', 'egress'] as const).map((direction) => ({
      ...{ policy: `x/${name}`, direction, selects: ['x/a'] },
      allows: [{ peers, ports: 'any' as const }],
    })),
  );
}

const shared = (): string => 'shared';

test('rules with the same peers share their sets; blocks are rules', () => {
  const peers = blocks('10.1.0.20', '10.1.0.30', '10.2.0.0-10.2.255.255', 'fd00:1::20');
  const rules = nodeRules([pod], policies(peers, 'b', 'a', 'c'), shared);
  const sets = [...rules.peers].flatMap(([key, each]) => peerSets(key, each));
  assert.deepEqual(
    sets.map(({ elements }) => [...elements.keys()]),
    [['10.1.0.20', '10.1.0.30'], ['fd00:1::20']],
  );
  const [[key, each] = ['[' as const, peers]] = rules.peers;
  const matches = peerMatches(key, each, { family: 4, side: 'saddr' });
  assert.equal(ruleText({ statements: matches }), `ip saddr @${sets[0]?.name} ip saddr 10.2.0.0/16`);
});

suite('sets of peers', { skip: namespaceObstacle() ?? false }, () => {
  test('a new peer is one element for all policies, and remains when one of them is removed', async () => {
    using namespace = new NetworkNamespace();
    using dataplane = namespace.run(() => openNftablesDataplane());
    const before = nodeRules([pod], policies(blocks('10.1.0.20'), 'a', 'b', 'c'), shared);
    await dataplane.sync(before);
    const peers = blocks('10.1.0.20', '10.1.0.22');
    const more = nodeRules([pod], policies(peers, 'a', 'b', 'c'), shared);
    const change = changeBetween(before, more);
    assert.deepEqual([change.policies.size, change.peers.size], [0, 1]);
    assert.deepEqual(await dataplane.apply(more, change), { commands: 1 });
    assert.deepEqual(await dataplane.verify(), []);
    const fewer = nodeRules([pod], policies(peers, 'b', 'c'), shared);
    const { replacedBecause } = await dataplane.apply(fewer, changeBetween(more, fewer));
    assert.equal(replacedBecause, undefined);
    assert.deepEqual(await dataplane.verify(), []);
    using next = namespace.run(() => openNftablesDataplane());
    assert.deepEqual(await next.sync(fewer), { commands: 0 });
  });

  test('that the kernel does not take are left out of all rules that share them; the others hold', async () => {
    using namespace = new NetworkNamespace();
    using dataplane = namespace.run(() => openNftablesDataplane());
    // Ranges that overlap, and too many for a rule each: the engine makes none like that.
    const overlapping = blocks(
      ...Array.from({ length: 9 }, (_, at) => `10.9.${at}.0-10.9.${at}.200`),
      '10.9.8.100-10.9.9.9',
    );
    const rules = nodeRules(
      [pod],
      [...policies(overlapping, 'a', 'b'), ...policies(blocks('10.1.0.20'), 'c')],
    );
    const { refused = [] } = await dataplane.sync(rules);
    assert.deepEqual(refused.map(({ policy, field }) => `${policy} ${field}`).sort(), [
      'x/a spec.egress[0]',
      'x/a spec.ingress[0]',
      'x/b spec.egress[0]',
      'x/b spec.ingress[0]',
    ]);
    assert.match(refused[0]?.message ?? '', /allows nothing: .*\((?:EEXIST|ENOTEMPTY)\)$/);
    assert.deepEqual(await dataplane.verify(), []);
    assert.match(namespace.nft('list ruleset'), /set peers-\w+-pods-4 \{/);
    const more = nodeRules([pod], policies(overlapping, 'a'));
    assert.equal((await dataplane.apply(more, changeBetween(rules, more))).refused?.length, 2);
  });
});
