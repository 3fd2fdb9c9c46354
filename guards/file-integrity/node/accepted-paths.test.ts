import assert from 'node:assert/strict';
import { test } from 'node:test';
import { pathsThatFit } from './accepted-entries.ts';

test('a path as shown matches itself; other texts are globs', () => {
  const paths = ['/hostroot/a/[id].js', '/hostroot/a/[x', '/hostroot/a/b', '/hostroot/a/new\nline'];
  const fitting = (glob: string): string[] => pathsThatFit(glob, paths, '/hostroot');
  assert.deepEqual(fitting('/a/[id].js'), ['/hostroot/a/[id].js']);
  assert.deepEqual(fitting('/a/[x'), ['/hostroot/a/[x']);
  assert.deepEqual(fitting('/a/new\\012line'), ['/hostroot/a/new\nline']);
  assert.deepEqual(fitting('/a/?'), ['/hostroot/a/b']);
  assert.equal(fitting('').length, 4);
});
