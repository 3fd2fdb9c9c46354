import assert from 'node:assert/strict';
import { test } from 'node:test';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { ChangeAuthor, FindingChange } from '../model/finding.ts';
import { CountedPaths } from '../model/counted-paths.ts';
import { CurrentFindings } from './findings.ts';
import { hostPath } from './held-finding.ts';
import type { Report, ReportedChange } from '../model/report.ts';

const author: ChangeAuthor = {
  ...{ binary: '/usr/bin/sed', arguments: '-i x', cwd: '/', uid: 0, gid: 0, pid: 7, ppid: 1 },
  ...{ parentBinary: '/bin/sh', relation: 'host' },
};

function changed(path: string, value = 'x'): ReportedChange {
  const details = [{ name: 'sha256', old: ['a'], now: [value] }];
  return { kind: 'changed', path: `/hostroot${path}`, type: 'f', summary: 'f   H', details };
}

function added(path: string): ReportedChange {
  return { kind: 'added', path: `/hostroot${path}`, type: 'f', summary: 'f++++', details: [] };
}

function reportOf(
  changes: readonly ReportedChange[],
  more: Partial<Report['counts']> = {},
  unread: string[] = [],
): Report {
  const counts = { total: 100, added: 0, removed: 0, changed: 0, problems: unread.length, ...more };
  for (const { kind } of changes) counts[kind]++;
  const problems = unread.map((path) => ({
    path: `/hostroot${path}`,
    code: 'EIO',
    message: 'input/output error',
  }));
  return { counts, changes, redefined: [], problems, omitted: 0 };
}

class Bench {
  readonly reported: string[] = [];
  readonly findings: CurrentFindings;

  constructor(limit?: number) {
    const onChange = (changes: readonly FindingChange[]): void => {
      for (const { state, finding } of changes) this.reported.push(`${state} ${finding.path}`);
    };
    this.findings = new CurrentFindings({
      prefix: '/hostroot',
      onChange,
      ...(limit !== undefined && { limit }),
    });
  }

  scan(...changes: readonly ReportedChange[]): void {
    this.findings.beginScan();
    this.findings.endScan(reportOf(changes), 1000);
  }

  take(): string[] {
    return this.reported.splice(0).sort();
  }
}

test('a scan replaces all findings; the same one is not reported again', () => {
  const bench = new Bench();
  assert.equal(bench.findings.isKnown, false);
  bench.scan(changed('/a'), added('/b'));
  assert.ok(bench.findings.isKnown);
  assert.deepEqual(bench.take(), ['found /a', 'found /b']);
  bench.scan(changed('/a'), added('/b'));
  assert.deepEqual(bench.take(), []);
  bench.scan(changed('/a', 'y'), added('/c'));
  assert.deepEqual(bench.take(), ['found /a', 'found /c', 'gone /b']);
  const { counts } = bench.findings;
  assert.deepEqual(counts, { total: 100, added: 1, removed: 0, changed: 1, problems: 0 });
  assert.deepEqual(bench.findings.get('/hostroot/a'), {
    ...{ path: '/a', change: 'changed', attributes: ['sha256'], seenMs: 1000, seenBy: 'scan' },
  });
});

test('an event updates its path; a later scan that sees the same keeps who it was', () => {
  const bench = new Bench();
  bench.scan();
  bench.findings.update([{ path: '/hostroot/a', change: changed('/a'), author }], 2000);
  assert.deepEqual(bench.take(), ['found /a']);
  bench.scan(changed('/a'));
  assert.deepEqual(bench.take(), []);
  const finding = bench.findings.get('/hostroot/a');
  assert.deepEqual([finding?.author, finding?.seenBy, finding?.seenMs], [author, 'event', 2000]);
  bench.findings.update([{ path: '/hostroot/a', change: undefined }], 3000);
  assert.deepEqual(bench.take(), ['gone /a']);
  bench.findings.update([{ path: '/hostroot/a', change: undefined }], 3000);
  assert.deepEqual(bench.take(), []);
});

test('the scan has seen it first, and then it is known who', () => {
  const bench = new Bench();
  bench.scan(changed('/a'));
  bench.take();
  bench.findings.update([{ path: '/hostroot/a', change: changed('/a') }], 2000);
  assert.deepEqual(bench.take(), []);
  bench.findings.update([{ path: '/hostroot/a', change: changed('/a'), author }], 2000);
  assert.deepEqual(bench.take(), ['found /a']);
  assert.equal(bench.findings.get('/hostroot/a')?.author, author);
});

test('an event during a scan is later than the scan', () => {
  const bench = new Bench();
  bench.scan(changed('/gone'), changed('/stays'));
  bench.take();
  bench.findings.beginScan();
  bench.findings.update(
    [
      { path: '/hostroot/gone', change: undefined },
      { path: '/hostroot/new', change: added('/new'), author },
    ],
    2000,
  );
  bench.findings.endScan(reportOf([changed('/gone'), changed('/stays')]), 3000);
  assert.deepEqual(bench.take(), ['found /new', 'gone /gone']);
  assert.deepEqual([...bench.findings.paths()].sort(), ['/hostroot/new', '/hostroot/stays']);
  // The next scan began after it.
  bench.scan(changed('/gone'), changed('/stays'));
  assert.deepEqual(bench.take(), ['found /gone', 'gone /new']);
});

test('a scan that was given up says nothing', () => {
  const bench = new Bench();
  bench.scan(changed('/a'));
  bench.findings.beginScan();
  bench.findings.abortScan();
  assert.deepEqual([...bench.findings.paths()], ['/hostroot/a']);
});

test('the finding of an unreadable file stays', () => {
  const bench = new Bench();
  bench.scan(changed('/d/a'), changed('/e'));
  bench.take();
  bench.findings.beginScan();
  bench.findings.endScan(reportOf([], {}, ['/d']), 3000);
  assert.deepEqual(bench.take(), ['gone /e']);
  assert.deepEqual(bench.findings.counts, { total: 100, added: 0, removed: 0, changed: 1, problems: 1 });
  const files = [{ path: '/d', reason: 'EIO: input/output error' }];
  assert.deepEqual(bench.findings.unread(5), { count: 1, files });
  assert.deepEqual(bench.findings.unread(0), { count: 1, files: [] });
  bench.scan(changed('/d/a'));
  assert.equal(bench.findings.unread(5), undefined);
  // For a baseline, only the count is known.
  bench.findings.reset(5, 2);
  assert.deepEqual(bench.findings.unread(5), { count: 2, files: [] });
});

test('findings end when they are accepted, or when there is a new baseline', () => {
  const bench = new Bench();
  bench.scan(changed('/a'), changed('/b'), changed('/c'));
  bench.take();
  bench.findings.accept(['/hostroot/a', '/hostroot/none']);
  assert.deepEqual(bench.take(), ['accepted /a']);
  bench.findings.reset(5);
  assert.deepEqual(bench.take(), ['accepted /b', 'accepted /c']);
  assert.deepEqual(bench.findings.counts, { total: 5, added: 0, removed: 0, changed: 0, problems: 0 });
});

test('the total counts what is there now, as AIDE does: also what events have added, and what was accepted', () => {
  const bench = new Bench();
  bench.scan(added('/a'));
  assert.equal(bench.findings.counts.total, 100);
  bench.findings.update([{ path: '/hostroot/b', change: added('/b'), author }], 2000);
  assert.equal(bench.findings.report().counts.total, 101);
  bench.findings.accept(['/hostroot/b']);
  assert.equal(bench.findings.counts.total, 101);
  bench.findings.update([{ path: '/hostroot/a', change: undefined, author }], 3000);
  assert.equal(bench.findings.counts.total, 100);
});

test('bounded: those that were seen first are counted only, and the report says how many', () => {
  const bench = new Bench(3);
  bench.findings.beginScan();
  bench.findings.endScan(
    reportOf([added('/1'), added('/2'), added('/3'), added('/4')], { changed: 5 }),
    1000,
  );
  assert.deepEqual(bench.findings.counts, { total: 100, added: 4, removed: 0, changed: 5, problems: 0 });
  bench.findings.update([{ path: '/hostroot/5', change: changed('/5'), author }], 2000);
  const { findings, omitted } = bench.findings.latest(2);
  assert.deepEqual(
    findings.map(({ path }) => path),
    ['/5', '/4'],
  );
  assert.equal(omitted, 8);
  const report = bench.findings.report();
  assert.equal(report.omitted, 7);
  assert.deepEqual(
    report.changes.map(({ path }) => path),
    ['/hostroot/3', '/hostroot/4', '/hostroot/5'],
  );
});

test('paths are printable paths on the host', () => {
  assert.equal(hostPath('/hostroot/etc/a', '/hostroot'), '/etc/a');
  assert.equal(hostPath('/hostroot', '/hostroot'), '/');
  assert.equal(hostPath('/hostroots', '/hostroot'), '/hostroots');
  assert.equal(hostPath('/hostroot/a\nb\xff', '/hostroot'), '/a\\012b\\377');
  assert.equal(hostPath('/etc', ''), '/etc');
});

test('whatever comes, lines and counts agree with what is held', () => {
  const path = fc.constantFrom('/a', '/b', '/c', '/d');
  const change = fc.record({ path, value: fc.constantFrom('x', 'y') });
  const event = fc.record({ path, value: fc.option(fc.constantFrom('x', 'y')) });
  const step = fc.oneof(
    fc.record({
      kind: fc.constant('scan' as const),
      changes: fc.uniqueArray(change, { selector: (one) => one.path }),
    }),
    fc.record({ kind: fc.constant('begin' as const) }),
    fc.record({ kind: fc.constant('event' as const), event }),
    fc.record({ kind: fc.constant('accept' as const), path }),
  );
  fc.assert(
    fc.property(fc.array(step, { maxLength: 30 }), (steps) => {
      const bench = new Bench();
      const open = new Set<string>();
      for (const one of steps) {
        switch (one.kind) {
          case 'begin':
            bench.findings.beginScan();
            break;
          case 'scan':
            bench.findings.endScan(reportOf(one.changes.map((each) => changed(each.path, each.value))), 1);
            break;
          case 'event':
            bench.findings.update(
              [
                {
                  path: `/hostroot${one.event.path}`,
                  change: one.event.value === null ? undefined : changed(one.event.path, one.event.value),
                },
              ],
              2,
            );
            break;
          case 'accept':
            bench.findings.accept([`/hostroot${one.path}`]);
        }
        for (const line of bench.reported.splice(0)) {
          const [state = '', where = ''] = line.split(' ');
          if (state === 'found') open.add(where);
          else assert.ok(open.delete(where), `${line}: it was not told before`);
        }
        assert.deepEqual(
          [...bench.findings.paths()].sort(),
          [...open].map((each) => `/hostroot${each}`).sort(),
        );
        assert.equal(bench.findings.counts.changed, open.size);
      }
    }),
    { numRuns: 2000 },
  );
});

test('beyond the limit, counts are those of what differs, whatever comes', () => {
  const path = fc.constantFrom('/a', '/b', '/c', '/d', '/e', '/f');
  const kind = fc.constantFrom('added', 'changed');
  const event = fc.record({ path, kind: fc.option(kind), value: fc.constantFrom('x', 'y') });
  const step = fc.oneof(
    { weight: 4, arbitrary: event },
    { weight: 1, arbitrary: fc.constantFrom('begin' as const, 'end' as const) },
  );
  const changeOf = (one: { path: string; kind: string; value: string }): ReportedChange =>
    one.kind === 'added' ? added(one.path) : changed(one.path, one.value);
  fc.assert(
    fc.property(fc.array(step, { maxLength: 40 }), fc.integer({ min: 0, max: 3 }), (steps, named) => {
      const bench = new Bench(2);
      bench.scan();
      /** The present differences, and those that the running scan has seen: at its beginning. */
      const differs = new Map<string, ReportedChange>();
      let seen: ReportedChange[] | undefined;
      for (const one of steps) {
        if (one === 'begin') {
          seen = [...differs.values()];
          bench.findings.beginScan();
        } else if (one === 'end') {
          if (seen === undefined) continue;
          const counted = new CountedPaths();
          for (const change of seen.slice(named)) counted.set(change.path, change.kind);
          const { counts } = reportOf(seen);
          bench.findings.endScan({ ...reportOf(seen.slice(0, named)), counts }, 1, counted);
          seen = undefined;
        } else {
          const change = one.kind === null ? undefined : changeOf({ ...one, kind: one.kind });
          if (change === undefined) differs.delete(one.path);
          else differs.set(one.path, change);
          bench.findings.update([{ path: `/hostroot${one.path}`, change }], 2);
        }
        const { added: more, changed: others } = bench.findings.counts;
        const expected = [...differs.values()];
        assert.equal(more, expected.filter((each) => each.kind === 'added').length);
        assert.equal(others, expected.filter((each) => each.kind === 'changed').length);
      }
    }),
    { numRuns: 1000 },
  );
});

test('findings known only by number are counted as in the last scan', () => {
  const counted = new CountedPaths(1);
  for (const path of ['/hostroot/1', '/hostroot/2']) counted.set(path, 'changed');
  const bench = new Bench(1);
  bench.findings.beginScan();
  bench.findings.endScan(reportOf([changed('/0')], { changed: 2 }), 1, counted);
  for (let again = 0; again < 5; again++)
    bench.findings.update([{ path: '/hostroot/2', change: changed('/2', String(again)) }], 2);
  assert.equal(bench.findings.counts.changed, 3);
  bench.scan(changed('/0'));
  assert.equal(bench.findings.counts.changed, 1);
});

test('a finding keeps an author other than the package manager until it ends', () => {
  const { findings } = new Bench();
  const path = '/hostroot/a';
  const hand = (): string | undefined => findings.heldOf(path)?.hand;
  const update = (change: ReportedChange | undefined, by?: 'packages' | 'others'): void =>
    findings.update([{ path, change, hand: by }], 1);
  update(changed('/a', 'x'), 'packages');
  assert.equal(hand(), 'packages');
  update(changed('/a', 'y'), 'packages');
  assert.equal(hand(), 'packages');
  // The same content again.
  update(changed('/a', 'y'), 'others');
  assert.equal(hand(), 'others');
  update(changed('/a', 'z'), 'packages');
  assert.equal(hand(), 'others');
  update(undefined, 'packages');
  update(changed('/a', 'x'), 'packages');
  assert.equal(hand(), 'packages');
  // Its author was not seen.
  findings.beginScan();
  findings.endScan(reportOf([changed('/a', 'y')]), 2);
  assert.equal(hand(), 'unseen');
});

test('an explained finding stays so until another author touches the file, and comes after others', () => {
  const bench = new Bench();
  const { findings } = bench;
  const explained = 'a 1 -> 2';
  const one = (path: string) => ({
    path: `/hostroot${path}`,
    change: changed(path),
    hand: 'packages' as const,
  });
  findings.update([{ ...one('/b'), hand: 'others' as const }], 1);
  findings.update(
    [
      { ...one('/a'), explained },
      { ...one('/c'), explained },
    ],
    2,
  );
  assert.deepEqual(
    findings.latest(2).findings.map(({ path }) => path),
    ['/b', '/c'],
  );
  assert.deepEqual(findings.updates(), [{ update: explained, files: 2, atMs: 2, accepted: false }]);
  bench.take();
  findings.update([{ ...one('/a'), hand: 'others' as const }], 3);
  assert.deepEqual(bench.take(), ['found /a']);
  assert.equal(findings.get('/hostroot/a')?.explained, undefined);
});

test('a waiting change is not part of a scan, and may be accepted without a finding', () => {
  const bench = new Bench();
  const { findings } = bench;
  bench.scan();
  findings.wait('/hostroot/a');
  bench.scan(added('/a'), added('/b'));
  assert.deepEqual(bench.take(), ['found /b']);
  const update = { path: '/hostroot/a', change: added('/a'), explained: 'a 1 installed' };
  findings.acceptUpdates([update, { path: '/hostroot/b', change: added('/b') }], 3);
  assert.deepEqual(bench.take(), ['accepted /a', 'accepted /b']);
  assert.deepEqual(findings.counts, { total: 100, added: 0, removed: 0, changed: 0, problems: 0 });
  findings.wait('/hostroot/c');
  findings.unwait('/hostroot/c');
  bench.scan(added('/c'));
  assert.deepEqual(bench.take(), ['found /c']);
});
