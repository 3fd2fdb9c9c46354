import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { readFinding } from '../../../guard/stream/read-finding.ts';
import { clockTime } from '../../../lib/output/printable.ts';
import type { ChangeAuthor, Finding, FindingChange } from '../model/finding.ts';
import { findingLines, parseFinding } from './finding-line-kind.ts';
import { integrityLine } from '../node/finding-line.ts';

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

const where = { fileIntegrity: 'guard/workers', nodeName: 'n1', nowMs: seenMs + 1000 };

/** As the agent writes it. */
function lineOf(more: Partial<Finding> = {}, state: FindingChange['state'] = 'found'): string {
  return integrityLine({ state, path: '', finding: { ...finding, ...more } }, where);
}

function shown(line: string, nowMs = seenMs): string {
  const read = readFinding(line);
  const view = read && findingLines.view(read);
  assert.ok(view);
  return view.pretty({ colour: false, nowMs });
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

  test('explained by an update of a package, which is one line for all its files', () => {
    const line = lineOf({ explained: 'tool 1 -> 2' });
    assert.match(shown(line), / {2}\(size, sha512\) {2}tool 1 -> 2 {2}guard\/workers$/);
    const foldOf = (text: string) => {
      const read = readFinding(text);
      return read && findingLines.view(read)?.fold;
    };
    const fold = foldOf(line);
    assert.equal(fold?.rest(11).trim(), 'and 11 more files: tool 1 -> 2');
    assert.equal(foldOf(lineOf({ explained: 'tool 1 -> 2', path: '/other' }))?.key, fold?.key);
    assert.notEqual(foldOf(lineOf({ explained: 'tool 1 -> 3' }))?.key, fold?.key);
    const accepted = foldOf(lineOf({ explained: 'tool 1 -> 2' }, 'accepted'));
    assert.equal(accepted?.rest(1).trim(), 'and 1 more file: accepted, tool 1 -> 2');
    assert.equal(foldOf(lineOf()), undefined);
  });

  test('with who changed its content, and who touched it later', () => {
    const chmod = { ...author, binary: '/usr/bin/chmod', arguments: '644', pid: 99 };
    const last = { seenMs: seenMs + 3000, seenBy: 'event', author: chmod } as const;
    const touched = lineOf({ last });
    assert.match(
      shown(touched),
      / {2}\/usr\/bin\/vi \/etc\/passwd \(pid 41, uid 0\) in shop\/web\/main, touched later by \/usr\/bin\/chmod 644 \(pid 99, uid 0\) in shop\/web\/main {2}/,
    );
    const read = JSON.parse(touched) as { time: string; seenMs: number };
    assert.deepEqual([Date.parse(read.time), read.seenMs], [seenMs + 3000, seenMs]);
    // By the same process: said once.
    assert.doesNotMatch(shown(lineOf({ last: { ...last, author } })), /touched/);
  });

  test('without a finding; restored; accepted; from another day', () => {
    const { author: _nobody, ...alone } = finding;
    const removed: Finding = { ...alone, change: 'removed', attributes: [], seenBy: 'scan' };
    const line = integrityLine({ state: 'found', path: '', finding: removed }, where);
    assert.match(shown(line), /^\S+ {3}removed {7}n1:\/etc\/passwd +found by a scan {2}guard\/workers$/);
    assert.match(shown(lineOf({}, 'gone')), /^\S+ {3}restored {6}n1:/);
    assert.match(shown(lineOf({}, 'accepted')), /^\S+ {3}accepted {6}n1:/);
    assert.match(shown(lineOf(), seenMs + 2 * 86_400_000), /^2026-11-2\d \S+ {3}changed/);
  });

  test('nothing of it reaches the terminal raw, and what is escaped stays so', () => {
    const evil = '\u001b[2Jx\ny';
    const changed: Finding = {
      ...finding,
      path: `/a\\012b${evil}`,
      attributes: [evil],
      author: { ...author, binary: evil, arguments: evil, pod: { namespace: evil, name: evil } },
    };
    const line = integrityLine(
      { state: 'found', path: '', finding: changed },
      { ...where, fileIntegrity: evil, nodeName: evil },
    );
    // oxlint-disable-next-line no-control-regex -- control characters are what must not be there
    assert.doesNotMatch(shown(line), /[\u0000-\u001f]/);
    assert.match(shown(line), /:\/a\\012b\\x1b/);
  });

  test('a line without the keys of a finding is not a finding', () => {
    for (const key of ['fileIntegrity', 'path', 'change', 'attributes', 'seenMs']) {
      const line = lineOf().replace(`"${key}":`, '"other":');
      assert.ok(readFinding(line));
      assert.equal(parseFinding(line), undefined, key);
    }
  });
});

test('its head: what became of the file, how much it matters, when', () => {
  const head = (state: FindingChange['state'], more: Partial<Finding> = {}) =>
    readFinding(lineOf(more, state))?.head;
  const found = new Date(seenMs).toISOString();
  const later = new Date(seenMs + 1000).toISOString();
  for (const [state, change, verdict, severity, time] of [
    ['found', 'changed', 'changed', 'high', found],
    ['found', 'removed', 'removed', 'high', found],
    ['found', 'added', 'added', 'medium', found],
    ['gone', 'changed', 'restored', 'info', later],
    ['accepted', 'removed', 'accepted', 'info', later],
  ] as const) {
    const of = head(state, { change });
    assert.deepEqual([of?.verdict, of?.severity, of?.time], [verdict, severity, time]);
  }
  assert.deepEqual(head('found'), {
    ...{ guard: 'file-integrity', kind: 'IntegrityFinding', severity: 'high', verdict: 'changed' },
    time: found,
    node: { name: 'n1' },
    object: { kind: 'Node', namespace: '', name: 'n1' },
    policy: { kind: 'FileIntegrity', namespace: 'guard', name: 'workers' },
    message:
      '/etc/passwd has changed (size, sha512) on node n1, by /usr/bin/vi /etc/passwd (pid 41, uid 0) in shop/web/main.',
  });
  const read = readFinding(lineOf());
  assert.deepEqual(read && findingLines.view(read)?.by, { namespace: 'shop', name: 'web' });
});
