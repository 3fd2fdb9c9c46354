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

  test('a table is followed through changes of ours and of other tables, until another program changes it', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    using changes = namespace.run(() => new NftablesChanges('mine'));
    assert.equal(changes.isFollowed(), false, 'before it was compared');
    changes.own(() => nft.run('add table inet mine'));
    changes.follow();
    assert.equal(changes.isFollowed(), true);
    changes.own(() => nft.run('add chain inet mine one\nadd set inet mine some { type ipv4_addr; }'));
    namespace.nft('add table inet theirs');
    changes.own(() => nft.run('add element inet mine some { 192.0.2.1 }'));
    assert.equal(changes.isFollowed(), true);
    namespace.nft('add rule inet mine one accept');
    assert.equal(changes.isFollowed(), false);
    assert.equal(changes.take(), true);
    assert.equal(changes.isFollowed(), false, 'until it is compared again');
    changes.follow();
    assert.equal(changes.isFollowed(), true);
  });

  test('a table is not followed any more once reports of changes are lost', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    using changes = namespace.run(() => new NftablesChanges('mine'));
    changes.own(() => nft.run('add table inet mine'));
    changes.follow();
    const rules = Array.from(
      { length: 20_000 },
      (_, at) => `add rule inet theirs one ip saddr 10.0.0.${at % 256} accept`,
    );
    namespace.nft(['add table inet theirs', 'add chain inet theirs one', ...rules].join('\n'));
    namespace.nft('add chain inet mine two');
    // What does not fit is lost, also where it is a change of this table.
    changes.own(() => undefined);
    assert.equal(changes.isFollowed(), false);
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
