import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { Nftables } from './nftables.ts';
import { NftablesChanges } from './nftables-changes.ts';

suite('changes of an nftables table', { skip: namespaceObstacle() ?? false }, () => {
  test('those of others are noticed, those of ours and of other tables are not', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    using changes = namespace.run(() => new NftablesChanges('mine'));
    changes.own(() =>
      nft.run('add table inet mine\nadd chain inet mine one\nadd set inet mine some { type ipv4_addr; }'),
    );
    assert.equal(changes.take(), false);
    namespace.nft('add table inet mine-not\nadd chain inet mine-not one');
    assert.equal(changes.take(), false);
    for (const command of [
      'add rule inet mine one accept',
      'add element inet mine some { 192.0.2.1 }',
      'flush chain inet mine one',
      'delete table inet mine',
    ]) {
      namespace.nft(command);
      assert.equal(changes.take(), true, command);
      assert.equal(changes.take(), false, command);
    }
  });

  test('a foreign change between two of ours is noticed, one in another namespace is not', () => {
    using namespace = new NetworkNamespace();
    using elsewhere = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    using changes = namespace.run(() => new NftablesChanges('mine'));
    changes.own(() => nft.run('add table inet mine'));
    changes.own(() => {
      namespace.nft('add chain inet mine theirs');
      nft.run('add chain inet mine ours');
    });
    assert.equal(changes.take(), true);
    elsewhere.nft('add table inet mine');
    assert.equal(changes.take(), false);
  });

  test('a large change of another table is not taken for one of ours', () => {
    using namespace = new NetworkNamespace();
    using changes = namespace.run(() => new NftablesChanges('mine'));
    const addresses = Array.from({ length: 10_000 }, (_, at) => `10.1.${at >> 8}.${at & 255}`);
    namespace.nft(`add table inet theirs
      add set inet theirs some { type ipv4_addr; }
      add element inet theirs some { ${addresses.join(', ')} }`);
    assert.equal(changes.take(), false);
    namespace.nft('add table inet mine');
    assert.equal(changes.take(), true);
  });

  test('a large change of ours is not taken for a foreign one', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    using changes = namespace.run(() => new NftablesChanges('mine'));
    const rules = Array.from(
      { length: 5000 },
      (_, at) => `add rule inet mine one ip saddr 10.0.0.${at % 256} accept`,
    );
    changes.own(() => nft.run(['add table inet mine', 'add chain inet mine one', ...rules].join('\n')));
    assert.equal(changes.take(), false);
    namespace.nft('delete table inet mine');
    assert.equal(changes.take(), true);
  });
});
