import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { ChangeAuthor } from './finding.ts';
import { bothHands, isDiverter, isPackageManager } from './hand.ts';

const dpkg: ChangeAuthor = {
  ...{ binary: '/usr/bin/dpkg', arguments: '-i a.deb', cwd: '/', uid: 0, gid: 0, pid: 7, ppid: 1 },
  ...{ parentBinary: '/usr/bin/apt-get', relation: 'host' },
};

test('dpkg is the one of the node, by root', () => {
  const cases: [string, Partial<ChangeAuthor>, boolean][] = [
    ['itself', {}, true],
    ['while it is updated', { binary: '/usr/bin/dpkg (deleted)' }, true],
    ['in a unit', { unit: 'system.slice/apt-daily-upgrade.service' }, true],
    ['a copy', { binary: '/tmp/dpkg' }, false],
    ['its maintainer script', { binary: '/usr/bin/dash', parentBinary: '/usr/bin/dpkg' }, false],
    ['of a user', { uid: 1000 }, false],
    ['in a container', { relation: 'container', container: { id: 'c', name: 'c' } }, false],
    ['in a container that nobody knows', { relation: 'unknown' }, false],
    ['in another mount namespace', { mounts: 'own' }, false],
  ];
  for (const [what, part, expected] of cases) {
    assert.equal(isPackageManager({ ...dpkg, ...part }), expected, what);
    const { binary = '/usr/bin/dpkg-divert', ...place } = part;
    assert.equal(isDiverter({ ...dpkg, binary, ...place }), expected && part.binary === undefined, what);
  }
});

test('one other hand is enough', () => {
  assert.equal(bothHands('packages', 'packages'), 'packages');
  assert.equal(bothHands(undefined, 'packages'), 'packages');
  assert.equal(bothHands('packages', undefined), 'packages');
  for (const one of ['packages', 'unseen', undefined] as const) {
    assert.equal(bothHands(one, 'others'), 'others');
    assert.equal(bothHands('others', one), 'others');
    assert.equal(bothHands(one, 'unseen'), 'unseen');
  }
});
