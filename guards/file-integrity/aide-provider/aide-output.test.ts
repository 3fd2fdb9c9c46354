import assert from 'node:assert/strict';
import { test } from 'node:test';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { aideOutcome, parseAideReport } from './aide-output.ts';

test('bits are changes, all else that is not 0 is an error with its reason', () => {
  assert.deepEqual(aideOutcome(0), { kind: 'same' });
  for (let code = 1; code < 8; code++) {
    const added = code % 2 === 1;
    const removed = [2, 3, 6, 7].includes(code);
    assert.deepEqual(aideOutcome(code), { kind: 'differences', added, removed, changed: code >= 4 });
  }
  const reasons = new Set<string>();
  for (let code = 14; code <= 25; code++) {
    const outcome = aideOutcome(code);
    assert.ok(outcome.kind === 'error');
    assert.equal(outcome.code, code);
    reasons.add(outcome.why);
  }
  assert.equal(reasons.size, 12);
  for (const code of [8, 13, 26, 127, 255, -1])
    assert.match(JSON.stringify(aideOutcome(code)), /"error".*unknown/);
  assert.match(JSON.stringify(aideOutcome(null, 'SIGKILL')), /"error".*SIGKILL.*memory/);
  assert.equal(aideOutcome(null).kind, 'error');
});

const real = `{
  "different_attributes": { "/t/p": "+e2fsattrs" },
  "start_time": "2026-11-21 16:06:33 +0000",
  "aide_version": "0.18.3",
  "outline": "AIDE found differences between the two databases!!",
  "number_of_entries": { "total": 15, "added": 1, "removed": 1, "changed": 2 },
  "added": { "/t/a\\u0001\\u0027\\u0127\\n\\\\u0027": "f+++++++++++++++++" },
  "removed": { "/t/l0": "l-----------------" },
  "changed": { "/t/d": "d =....a...n .. . ", "/t/\xffbad": "f =....a....... . " },
  "details": {
    "/t/d": {
      "link_count": { "old": 4, "new": 5 },
      "acl": { "old": ["A: user::rw-", "A: group::r--"], "new": "x" },
      "uid": {

      }
    }
  },
  "end_time": "2026-11-21 16:06:33 +0000",
  "run_time_seconds": 0
}
`;

test('reads a report of 0.18 with names that are not text', () => {
  const report = parseAideReport(Buffer.from(real, 'latin1'));
  assert.deepEqual(report.counts, { total: 15, added: 1, removed: 1, changed: 2, problems: 0 });
  assert.deepEqual(report.redefined, [{ path: '/t/p', difference: '+e2fsattrs' }]);
  assert.deepEqual(
    report.changes.map(({ kind, path, type }) => [kind, path, type]),
    [
      ['added', '/t/a\x01\x1b\x7f\n\\u0027', 'f'],
      ['changed', '/t/d', 'd'],
      ['removed', '/t/l0', 'l'],
      ['changed', '/t/\xffbad', 'f'],
    ],
  );
  assert.deepEqual(report.changes[1]?.details, [
    { name: 'link_count', old: ['4'], now: ['5'] },
    { name: 'acl', old: ['A: user::rw-', 'A: group::r--'], now: ['x'] },
    { name: 'uid', old: [], now: [] },
  ]);
});

test('control characters are what each version means by them', () => {
  const added = (text: string, version?: string): string | undefined =>
    parseAideReport(Buffer.from(text, 'latin1'), version).changes.find(({ kind }) => kind === 'added')?.path;
  const of = (name: string, reported = '"aide_version": "0.19.1",'): string =>
    `{ ${reported} "outline": "x", "added": { "/t/${name}": "f++++++++++++++++++" } }`;
  // 0.19 as JSON, 0.18 in decimal.
  assert.equal(added(of('a\\u0012\\u001b\\u007f\\n')), '/t/a\x12\x1b\x7f\n');
  assert.equal(added(of('a\\u0012\\u0027\\u0127', '"aide_version": "0.18.3",')), '/t/a\x0c\x1b\x7f');
  // A truncated report may lack the version, which its caller knows.
  assert.equal(added(of('a\\u0012', ''), '0.19.1'), '/t/a\x12');
  assert.equal(added(of('a\\u0012', ''), '0.18.3'), '/t/a\x0c');
});

test('names with what JSON escapes stay apart, whatever was read before', () => {
  const named = (...names: readonly string[]) => {
    const changed = Object.fromEntries(names.map((name) => [name, 'f =....a....... . ']));
    const details = Object.fromEntries(names.map((name) => [name, { perm: { old: name, new: '' } }]));
    return Buffer.from(JSON.stringify({ outline: 'x', aide_version: '0.19.1', changed, details }), 'latin1');
  };
  for (const [before, name] of [
    ['/t/\\', '/t/\n'],
    ['/t/a\\', '/t/a"'],
    ['/t/b\\', '/t/b\\'],
    ['/t/c\\n', '/t/c\nx'],
  ] as const) {
    for (const names of [
      ['/t', before],
      ['/t', name],
      ['/t', before, name],
    ]) {
      const { changes } = parseAideReport(named(...names));
      assert.deepEqual(changes.map(({ path }) => path).toSorted(), [...new Set(names)].toSorted());
      assert.deepEqual(
        changes.map(({ details }) => details[0]?.old),
        changes.map(({ path }) => [path]),
      );
    }
  }
});

test('missing parts of a report are empty, and its counts are kept', () => {
  const parse = (value: unknown) => parseAideReport(Buffer.from(JSON.stringify(value)));
  const same = parse({ outline: 'AIDE found NO differences', number_of_entries: { total: 9 } });
  assert.deepEqual(same.counts, { total: 9, added: 0, removed: 0, changed: 0, problems: 0 });
  const short = parse({ outline: 'x', number_of_entries: { total: 9, added: 5, removed: 'x', changed: -1 } });
  assert.deepEqual(
    [short.counts.added, short.counts.removed, short.counts.changed, short.omitted],
    [5, 0, 0, 5],
  );
  const lists = parse({ outline: 'x', added: ['/a'], changed: ['/c'], details: { '/c': null } });
  assert.deepEqual(lists.counts, { total: 0, added: 1, removed: 0, changed: 1, problems: 0 });
  const entries = parse({
    outline: 'x',
    entries: {
      '/a': 'added',
      '/b': 'f-----------------',
      '/c': 'f >....mc..H.. . ',
      '/d': 'd+++++++++++++++++',
      '/e': 'removed',
    },
  });
  assert.deepEqual(
    entries.changes.map(({ kind }) => kind),
    ['added', 'removed', 'changed', 'added', 'removed'],
  );
});

test('output that is not a report is an error', () => {
  const isDecode = (error: unknown): boolean =>
    error instanceof RampartError && error.code === errorCodes.DECODE;
  const whole = Buffer.from(real.trim(), 'latin1');
  for (let length = 0; length < whole.length; length += 7) {
    assert.throws(() => parseAideReport(whole.subarray(0, length)), isDecode);
  }
  for (const other of ['[]', '{}', 'null', 'Start timestamp: x', '{"outline":1}']) {
    assert.throws(() => parseAideReport(Buffer.from(other)), isDecode);
  }
  fc.assert(
    fc.property(fc.json(), (json) => {
      try {
        parseAideReport(Buffer.from(json));
      } catch (error) {
        assert.ok(isDecode(error), String(error));
      }
    }),
  );
});
