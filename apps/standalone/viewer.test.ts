import assert from 'node:assert/strict';
import { test } from 'node:test';

import { viewerRules } from '../../guard/viewer-rights.ts';
import { rightsOf } from '../agent/deploy.fixture.ts';
import { guards } from '../guards.ts';

test('the viewer of standalone may do what the roles rampart-viewer of deploy/ allow', () => {
  const rights = viewerRules(guards).flatMap(({ apiGroups, resources, verbs, resourceNames, namespace }) => {
    assert.equal(resourceNames, undefined);
    const where = namespace === undefined ? '' : ` in ${namespace}`;
    return apiGroups.flatMap((group) =>
      resources.flatMap((resource) => verbs.map((verb) => `${verb} ${resource}.${group}${where}`)),
    );
  });
  assert.deepEqual([...new Set(rights)].toSorted(), [...rightsOf('rampart-viewer')].toSorted());
});
