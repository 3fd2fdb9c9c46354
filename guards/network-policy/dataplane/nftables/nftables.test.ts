import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { Nftables } from './nftables.ts';

suite('nftables', { skip: namespaceObstacle() ?? false }, () => {
  test('commands are one transaction, in the namespace where the context was opened', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    nft.run('add table inet mine\nadd chain inet mine one');
    assert.match(nft.list('list table inet mine'), /chain one/);
    using outside = new Nftables();
    assert.doesNotMatch(outside.list('list tables'), /table inet mine$/m);
  });

  test("a refusal has nft's words and the line, and nothing was changed", () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    assert.throws(
      () => nft.run('add table inet mine\ndelete chain inet mine nobody'),
      (error) =>
        error instanceof RampartError &&
        error.code === errorCodes.SYSTEM &&
        /refused `delete chain inet mine nobody`: .*No such file or directory/.test(error.message),
    );
    assert.throws(() => nft.run('add nonsense'), /nftables refused `add nonsense`: syntax error/);
    assert.equal(nft.list('list tables'), '');
  });

  test('a message is not repeated', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    nft.run('add table inet mine');
    assert.match(nft.list('list tables'), /inet mine/);
    nft.run('delete table inet mine');
    assert.equal(nft.list('list tables'), '');
  });

  test('as JSON, without counts, without elements', () => {
    using namespace = new NetworkNamespace();
    using nft = namespace.run(() => new Nftables());
    nft.run(`add table inet mine
      add counter inet mine seen { packets 3 bytes 40 }
      add set inet mine some { type ipv4_addr; elements = { 192.0.2.1 }; }`);
    const { nftables } = JSON.parse(nft.list('list counters table inet mine', { json: true })) as {
      readonly nftables: readonly { readonly counter?: { readonly packets: number } }[];
    };
    assert.deepEqual(
      nftables.flatMap(({ counter }) => (counter === undefined ? [] : [counter.packets])),
      [3],
    );
    assert.match(nft.list('list table inet mine'), /packets 3 bytes 40[^]*192\.0\.2\.1/);
    assert.doesNotMatch(nft.list('list table inet mine', { stateless: true }), /packets/);
  });

  test('a context that was disposed refuses', () => {
    const nft = new Nftables();
    nft[Symbol.dispose]();
    nft[Symbol.dispose]();
    assert.throws(() => nft.run('list tables'), { code: errorCodes.DISPOSED });
  });
});
