import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { KeptNamespace } from './namespace.ts';

suite('a network namespace that is kept', { skip: namespaceObstacle() ?? false }, () => {
  const links = (): string => execFileSync('ip', ['-brief', 'link'], { encoding: 'utf8' });

  test('processes are started in it, and the thread stays where it is', () => {
    const before = links();
    using made = KeptNamespace.create();
    assert.equal(links(), before);
    assert.match(
      made.run(() => links()),
      /^lo .*\n$/,
    );
    made.run(() => execFileSync('ip', ['link', 'add', 'kept0', 'type', 'bridge']));
    assert.match(
      made.run(() => links()),
      /^kept0 /m,
    );
    assert.equal(links(), before);
    assert.throws(() =>
      made.run(() => {
        throw new Error('in there');
      }),
    );
    assert.equal(links(), before);
  });

  test('that of the thread needs no way there', () => {
    using made = KeptNamespace.create();
    made.run(() => {
      using here = new KeptNamespace();
      assert.match(
        here.run(() => links()),
        /^lo .*\n$/,
      );
    });
  });
});
