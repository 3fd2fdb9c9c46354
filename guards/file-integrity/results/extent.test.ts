import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { ChangeAuthor, Finding } from '../model/finding.ts';
import type { ReportedChange } from '../model/report.ts';
import { CurrentFindings } from './findings.ts';
import type { PathUpdate } from './held-finding.ts';

const path = '/hostroot/etc/x';

function processOf(binary: string): ChangeAuthor {
  return {
    ...{ binary, arguments: '', cwd: '/', uid: 0, gid: 0, pid: binary.length, ppid: 1 },
    ...{ parentBinary: '/bin/sh', relation: 'host' },
  };
}
const [evil, vi, chmod] = ['/tmp/evil.sh', '/usr/bin/vi', '/usr/bin/chmod'].map(processOf);

const baseline = { size: '1', modify_time: '1', change_time: '1', sha256: 'a', perm: 'rw', uid: '0' };
type State = Partial<typeof baseline>;

/** A difference from the baseline. */
function changed(state: State): ReportedChange {
  const now = { ...baseline, ...state };
  const details = Object.entries(baseline)
    .map(([name, old]) => ({ name, old: [old], now: [now[name as keyof State]] }))
    .filter(({ old, now: [value] }) => value !== old[0]);
  return { kind: 'changed', path, type: 'f', summary: 'f', details };
}

/** Findings after updates at 1000, 2000, ... ms. */
function after(...updates: readonly (readonly [State, Omit<PathUpdate, 'path' | 'change'>])[]): Finding {
  const findings = new CurrentFindings({ prefix: '/hostroot', onChange: () => undefined });
  for (const [at, [state, by]] of updates.entries())
    findings.update([{ path, change: changed(state), ...by }], 1000 * (at + 1));
  const finding = findings.get(path);
  assert.ok(finding !== undefined);
  return finding;
}

const who = ({ seenMs, author, last }: Finding) => [
  ...[seenMs, author?.binary],
  ...(last === undefined ? [] : [last.seenMs, last.author?.binary]),
];

const written: State = { size: '2', modify_time: '2', change_time: '2', sha256: 'b' };
const touch = { touchedBy: chmod, isTouch: true } as const;
type By = Omit<PathUpdate, 'path' | 'change'>;
const evilWrote: readonly [State, By] = [written, { author: evil as ChangeAuthor }];
const touched: By = { ...touch, touchedBy: chmod as ChangeAuthor };

suite('who changed the content stays, whoever touches the file later', () => {
  for (const [what, state] of [
    ['the same mode again', { change_time: '3' }],
    ['another mode', { change_time: '3', perm: 'rwx' }],
    ['another owner', { change_time: '3', uid: '1' }],
    ['times, as by touch(1)', { change_time: '3', modify_time: '3' }],
  ] as const) {
    test(what, () => {
      const finding = after(evilWrote, [{ ...written, ...state }, touched]);
      assert.deepEqual(who(finding), [1000, '/tmp/evil.sh', 2000, '/usr/bin/chmod']);
    });
  }

  test('touched again and again: the last that touched it', () => {
    const again = (at: string): readonly [State, By] => [{ ...written, change_time: at }, touched];
    assert.deepEqual(who(after(evilWrote, again('3'), again('4'))), [
      ...[1000, '/tmp/evil.sh'],
      ...[3000, '/usr/bin/chmod'],
    ]);
  });

  test('touched by an unseen author', () => {
    const finding = after(evilWrote, [{ ...written, change_time: '3' }, {}]);
    assert.deepEqual(who(finding), [1000, '/tmp/evil.sh', 2000, undefined]);
  });

  test('found touched by a scan', () => {
    const findings = new CurrentFindings({ prefix: '/hostroot', onChange: () => undefined });
    findings.update([{ path, change: changed(written), author: evil as ChangeAuthor }], 1000);
    findings.beginScan();
    const counts = { total: 1, added: 0, removed: 0, changed: 1, problems: 0 };
    const changes = [changed({ ...written, change_time: '3' })];
    findings.endScan({ counts, changes, redefined: [], problems: [], omitted: 0 }, 2000);
    assert.deepEqual(findings.get(path)?.last, { seenMs: 2000, seenBy: 'scan' });
    assert.deepEqual(who(findings.get(path) as Finding).slice(0, 2), [1000, '/tmp/evil.sh']);
  });

  test('written and touched before the first scan', () => {
    const by = { author: evil as ChangeAuthor, touchedBy: chmod as ChangeAuthor };
    assert.deepEqual(who(after([written, by])), [1000, '/tmp/evil.sh', 1000, '/usr/bin/chmod']);
  });

  test('the one who touched it is not its writer, though the writer is unseen', () => {
    assert.deepEqual(who(after([written, touched])), [1000, undefined, 1000, '/usr/bin/chmod']);
    assert.deepEqual(who(after([written, {}], [{ ...written, change_time: '3' }, touched])), [
      ...[1000, undefined],
      ...[2000, '/usr/bin/chmod'],
    ]);
  });

  test('not where the content changes again', () => {
    const more: State = { ...written, sha256: 'c', change_time: '3' };
    assert.deepEqual(who(after(evilWrote, [more, { author: vi as ChangeAuthor }])), [2000, '/usr/bin/vi']);
  });
});

suite('changes of attributes alone', () => {
  test('it is who changed them last', () => {
    const first: readonly [State, By] = [{ perm: 'rwx', change_time: '2' }, touched];
    assert.deepEqual(who(after(first)), [1000, '/usr/bin/chmod']);
    const second: By = { touchedBy: vi as ChangeAuthor, isTouch: true };
    assert.deepEqual(who(after(first, [{ perm: 'r', change_time: '3' }, second])), [2000, '/usr/bin/vi']);
    assert.deepEqual(who(after(first, [{ perm: 'rwx', change_time: '3' }, second])), [
      ...[1000, '/usr/bin/chmod'],
      ...[2000, '/usr/bin/vi'],
    ]);
  });

  test('and then who changes the content', () => {
    const finding = after(
      [{ perm: 'rwx', change_time: '2' }, touched],
      [{ ...written, perm: 'rwx' }, evilWrote[1]],
    );
    assert.deepEqual(who(finding), [2000, '/tmp/evil.sh']);
  });
});

test('a change after a finding was seen is not what led to it', () => {
  const findings = new CurrentFindings({ prefix: '/hostroot', onChange: () => undefined });
  findings.update([{ path, change: changed(written) }], 1000);
  const update = (changedMs: number, by: By): void =>
    findings.update([{ path, change: changed(written), changedMs, ...by }], 5000);
  update(2000, { author: vi as ChangeAuthor });
  update(900, touched);
  assert.equal(findings.get(path)?.author, undefined);
  update(900, { author: evil as ChangeAuthor });
  assert.equal(findings.get(path)?.author, evil);
});

test('changes after the shown state are not accepted with it', () => {
  const findings = new CurrentFindings({ prefix: '/hostroot', onChange: () => undefined });
  findings.update([{ path, change: changed(written), author: evil as ChangeAuthor }], 1000);
  findings.update([{ path, change: changed({ ...written, perm: 'rwx' }), ...touched }], 3000);
  assert.deepEqual(findings.paths(2000), []);
  assert.deepEqual(findings.paths(3000), [path]);
});
