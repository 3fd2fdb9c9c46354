import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { clockTime } from '../../../lib/output/printable.ts';
import type { ChangeAuthor, Finding, FindingChange } from '../model/finding.ts';
import { findingLines } from './finding-line-kind.ts';
import { findingLine } from '../model/finding-json.ts';

const seenMs = Date.UTC(2026, 10, 21, 10, 0, 0, 123);
const author: ChangeAuthor = {
  ...{ binary: '/usr/bin/vi', arguments: '/etc/passwd', cwd: '/', uid: 0, gid: 0, pid: 41, ppid: 1 },
  ...{ parentBinary: '', relation: 'container', container: { id: 'c', name: 'main' } },
  pod: { namespace: 'shop', name: 'web' },
};
const finding: Finding = {
  ...{
    path: '/etc/passwd',
    change: 'changed',
    attributes: ['size', 'sha512'],
    seenMs,
    seenBy: 'event',
    author,
  },
};

/** As the agent writes it. */
function lineOf(more: Partial<Finding> = {}, state: FindingChange['state'] = 'found'): string {
  return findingLine('guard/workers', 'n1', { state, path: '', finding: { ...finding, ...more } });
}

function shown(line: string, nowMs = seenMs): string {
  const parsed = findingLines.parse(line);
  assert.ok(parsed);
  return parsed.pretty({ colour: false, nowMs });
}

suite('a finding as a line for a person', () => {
  const time = clockTime(seenMs);

  test('with who it was', () => {
    assert.equal(
      shown(lineOf()),
      `${time}   changed       n1:/etc/passwd                            ` +
        '/usr/bin/vi /etc/passwd (pid 41, uid 0) in shop/web/main  (size, sha512)  guard/workers',
    );
  });

  test('without; as it was before; accepted; of another day', () => {
    const { author: _nobody, ...alone } = finding;
    const line = findingLine('guard/workers', 'n1', {
      state: 'found',
      path: '',
      finding: { ...alone, change: 'removed', attributes: [], seenBy: 'scan' },
    });
    assert.match(shown(line), /^\S+ {3}removed {7}n1:\/etc\/passwd +found by a scan {2}guard\/workers$/);
    assert.match(shown(lineOf({}, 'gone')), /^\S+ {3}as before {5}n1:/);
    assert.match(shown(lineOf({}, 'accepted')), /^\S+ {3}accepted {6}n1:/);
    assert.match(shown(lineOf(), seenMs + 2 * 86_400_000), /^2026-11-2\d \S+ {3}changed/);
  });

  test('nothing of it reaches the terminal raw, and what is escaped stays so', () => {
    const evil = '\u001b[2Jx\ny';
    const line = findingLine(evil, evil, {
      state: 'found',
      path: '',
      finding: {
        ...finding,
        path: `/a\\012b${evil}`,
        attributes: [evil],
        author: { ...author, binary: evil, arguments: evil, pod: { namespace: evil, name: evil } },
      },
    });
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(shown(line), /[\u0000-\u001f]/);
    assert.match(shown(line), /:\/a\\012b\\x1b/);
  });

  for (const line of [
    '',
    '{"kind":"IntegrityFinding",',
    '{"kind":"IntegrityFinding","fileIntegrity":"a/b"}',
    lineOf().slice(1),
    '{"kind":"Other","fileIntegrity":"a/b","node":"n","path":"/","change":"added","attributes":[],"seenMs":1}',
  ]) {
    test(`no finding: ${line.slice(0, 50)}`, () => assert.equal(findingLines.parse(line), undefined));
  }
});

test('what filters and the order of lines go by', () => {
  const line = lineOf();
  assert.ok(line.startsWith(findingLines.start));
  const { timeNs, policy, pod, path } = findingLines.parse(line) ?? {};
  assert.deepEqual(
    { timeNs, policy, pod, path },
    {
      timeNs: BigInt(seenMs) * 1_000_000n,
      policy: ['guard', 'workers'],
      pod: ['shop', 'web'],
      path: '/etc/passwd',
    },
  );
});
