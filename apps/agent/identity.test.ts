import assert from 'node:assert/strict';
import { readFileSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { lastingIdentity } from '../../guard/identity.ts';

suite('the name of an agent', () => {
  test('stays over restarts, and is another one in another directory', () => {
    using directory = new TemporaryDirectory();
    using other = new TemporaryDirectory();
    const first = lastingIdentity(directory.path, 'n1');
    assert.match(first, /^n1_[0-9a-f-]{36}$/);
    assert.equal(lastingIdentity(directory.path, 'n1'), first);
    assert.notEqual(lastingIdentity(other.path, 'n1'), first);
  });

  test('a damaged file is replaced', () => {
    using directory = new TemporaryDirectory();
    for (const damaged of ['', 'half-a-', '\0'.repeat(36)]) {
      writeFileSync(directory.at('identity'), damaged);
      const fresh = lastingIdentity(directory.path, 'n1');
      assert.match(fresh, /^n1_[0-9a-f-]{36}$/);
      assert.equal(`n1_${readFileSync(directory.at('identity'), 'utf8').trim()}`, fresh);
    }
  });

  test('without a directory there is a name, too', () => {
    assert.match(lastingIdentity('/no/such', 'n1'), /^n1_[0-9a-f-]{36}$/);
  });
});
