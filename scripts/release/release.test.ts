import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import manifest from '../../package.json' with { type: 'json' };
import { dated, objections } from './release.ts';

const changelog =
  '# Changelog\n\n## [Unreleased] (0.2.0)\n\n### Added\n\n- x\n\n## [0.1.0] - 2026-11-28\n\n- y\n';
const ready = {
  version: '0.2.0',
  changelog: dated(changelog, '0.2.0', '2027-01-02'),
  changes: '',
  tagProblem: undefined,
  ownersFiles: { 'SECURITY.md': 'write to `security@example.com`', '.github/CODEOWNERS': '* @example/team' },
};

suite('a release', () => {
  test('is possible from a clean checkout with a signed tag and a dated changelog', () => {
    assert.match(
      ready.changelog,
      /^## \[0\.2\.0\] - 2027-01-02\n\n### Added\n\n- x\n\n## \[0\.1\.0\] - 2026-11-28$/m,
    );
    assert.deepEqual(objections(ready), []);
  });

  test('is refused with each reason', () => {
    const [heading, changes, tag, ...more] = objections({
      ...{ version: '0.2.0', changelog, changes: ' M bin/rampart', tagProblem: 'there is no such tag' },
      ownersFiles: {},
    });
    assert.match(heading ?? '', /^CHANGELOG\.md does not begin with "## \[0\.2\.0\] - DATE"; run: /);
    assert.equal(changes, 'uncommitted changes:\n M bin/rampart');
    assert.equal(tag, 'this commit has no signed tag v0.2.0: there is no such tag');
    assert.deepEqual(more, []);
    assert.equal(objections({ ...ready, version: '0.1.0' }).length, 1);
    assert.throws(() => dated('# Changelog\n', '0.1.0', '2027-01-02'), /no heading/);
  });

  test('is refused until the owner has filled in who gets reports and who reviews', () => {
    const ownersFiles = { 'SECURITY.md': 'write to `REPORT-ADDRESS`', '.github/CODEOWNERS': '* REVIEWERS' };
    assert.deepEqual(objections({ ...ready, ownersFiles }), [
      'SECURITY.md still has REPORT-ADDRESS; replace it by a name or an address of yours',
      '.github/CODEOWNERS still has REVIEWERS; replace it by a name or an address of yours',
    ]);
  });

  test('the version is one of Semantic Versioning', () => {
    assert.match(manifest.version, /^\d+\.\d+\.\d+(?:-[0-9A-Za-z.-]+)?$/);
  });
});
