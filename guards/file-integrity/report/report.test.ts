import assert from 'node:assert/strict';
import { test } from 'node:test';
import { gunzipSync } from 'node:zlib';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { setOf } from '../model/attributes.ts';
import { Comparison } from '../compare/compare.ts';
import { entryOf } from '../database/baseline.fixture.ts';
import type { Entry, ScanProblem } from '../model/entry.ts';
import { collectReport } from './collect.ts';
import { e2fsOfLetters } from '../model/e2fs-attributes.ts';
import { jsonReport } from './json.ts';
import { fitLog, logLimitBytes } from './log-limit.ts';
import { plainReport } from './plain.ts';
import { printable } from './printable.ts';
import { compareInTree, exitBits } from './report.ts';
import { defaultReportOptions, type Report, type ReportOptions, type RunFacts } from '../model/report.ts';

const facts: RunFacts = {
  action: 'check',
  program: 'Rampart 0.1.0',
  startedMs: 1_700_000_000_000,
  endedMs: 1_700_000_065_900,
};
const attributes = setOf('ftype', 'p', 's', 'l', 'sha256', 'e2fsattrs', 'acl', 'xattrs');

function entry(path: string, parts: Partial<Entry> = {}): Entry {
  const given = Buffer.from(path).toString('latin1');
  return entryOf({ attributes, permissions: 0o644, sha256: Buffer.alloc(32, 1), ...parts, path: given });
}

async function report(
  old: readonly Entry[],
  now: readonly (Entry | ScanProblem)[],
  options: Partial<ReportOptions> = {},
  limitCharacters?: number,
): Promise<Report> {
  const comparison = new Comparison({ old: [old], now: [now], oldAttributes: attributes });
  return collectReport({
    differences: comparison,
    totals: comparison.totals,
    options: { ...defaultReportOptions, ...options },
    ...(limitCharacters !== undefined && { limitCharacters }),
  });
}

function text(found: Report, options: Partial<ReportOptions> = {}, about: RunFacts = facts): string {
  return [...plainReport(found, { ...defaultReportOptions, ...options }, about)].join('');
}

test('a check without findings says so, or nothing if quiet', async () => {
  const found = await report([entry('/a')], [entry('/a')]);
  assert.equal(
    text(found),
    'Start timestamp: 2023-11-14 22:13:20 +0000 (Rampart 0.1.0)\n' +
      'AIDE found NO differences between database and filesystem. Looks okay!!\n\n' +
      'Number of entries:\t1\n\n' +
      'End timestamp: 2023-11-14 22:14:25 +0000 (run time: 1m 5s)\n',
  );
  assert.equal(text(found, { quiet: true }), '');
  assert.equal(jsonReport(found, { ...defaultReportOptions, quiet: true }, facts), '');
  assert.equal(
    text(found, { level: 'minimal' }),
    'AIDE found NO differences between database and filesystem. Looks okay!!\n',
  );
  assert.match(
    text(found, {}, { ...facts, action: 'init', written: '/db' }),
    /initialized database\.\nNew AIDE database written to \/db\n/,
  );
});

test('unreadable files are reported separately, also without other findings', async () => {
  const problem = { path: '/a\x1b', code: 'EIO', message: 'input/output error' };
  const found = await report([entry('/a\x1b'), entry('/b')], [problem, entry('/b')]);
  assert.deepEqual(found.counts, { total: 1, added: 0, removed: 0, changed: 0, problems: 1 });
  assert.match(
    text(found, { quiet: true }),
    /could not be read:\t1[^]*\n\/a\\033: input\/output error \(EIO\)\n/,
  );
  const parsed = JSON.parse(jsonReport(found, defaultReportOptions, facts)) as Record<string, unknown>;
  assert.deepEqual(parsed['unread'], { '/a\x1b': 'input/output error (EIO)' });
});

test('details stand side by side and lose nothing', async () => {
  const target = 'x'.repeat(64) + 'é';
  const bytes = Buffer.from(target).toString('latin1');
  const old = entry('/a', { type: 'l', linkTarget: bytes });
  const found = await report([old], [{ ...old, linkTarget: 'short' }]);
  assert.match(text(found), /\nLink: \/a\n Lname     : x{32} \| short\n {13}x{32} \| \n {13}é {32}\| \n/);
});

test('extended attributes, ACLs and ext attributes are written as AIDE writes them', async () => {
  const old = entry('/a', {
    acl: 'user::rw-\n',
    xattrs: [
      ['user.a', Buffer.from('plain')],
      ['user.b', Buffer.from('a blank')],
      ['user.c', Buffer.from('ended\0')],
    ],
    e2fsAttributes: e2fsOfLetters('ie') ?? 0,
  });
  const now = {
    ...old,
    acl: 'user::r--\n',
    defaultAcl: 'user::rwx\n',
    xattrs: [],
    e2fsAttributes: e2fsOfLetters('eV') ?? 0,
  };
  const reported = text(await report([old], [now], { ignoredE2fs: e2fsOfLetters('V') ?? 0 }), {
    ignoredE2fs: e2fsOfLetters('V') ?? 0,
  });
  assert.match(reported, /ACL {7}: A: user::rw- {21}\| A: user::r--\n {46}\| D: user::rwx\n/);
  assert.match(reported, /XAttrs {4}: num=3 {28}\| num=0\n {13}\[1\] user\.a = plain/);
  assert.match(reported, /\[2\] user\.b <=> YSBibGFuaw==/);
  assert.match(reported, /\[3\] user\.c = ended /);
  assert.match(reported, /E2FSAttrs : ----i---------e-----:- {11}\| --------------e-----:-\n/);
  assert.match(reported, /Ignored e2fs attributes: V\n/);
  // Only what is ignored has changed.
  const one = entry('/a', { e2fsAttributes: 0 });
  const other = { ...one, e2fsAttributes: e2fsOfLetters('V') ?? 0 };
  assert.equal((await report([one], [other], { ignoredE2fs: e2fsOfLetters('V') ?? 0 })).counts.changed, 0);
  assert.equal((await report([one], [other])).counts.changed, 1);
  assert.equal(e2fsOfLetters('0'), 0);
  assert.equal(e2fsOfLetters('?'), undefined);
});

test('names are printable, and those of text are text', () => {
  const shown = (name: string | Buffer): string => printable(Buffer.from(name).toString('latin1'));
  assert.equal(shown('/plain name "\\'), '/plain name "\\');
  assert.equal(shown('/\n\t\x1b[2J\x7f'), '/\\012\\011\\033[2J\\177');
  // A text that only looks like an escape is not one.
  assert.equal(shown('/\\012\\\\999\\01\\x'), '/\\134012\\\\134999\\01\\x');
  assert.equal(shown('/é 日本 🙂'), '/é 日本 🙂');
  assert.equal(shown(Buffer.from('/a\xffb\xc3', 'latin1')), '/a\\377b\\303');
  // C1 controls, text turned around, surrogates, what is longer than it has to be.
  assert.equal(shown('/\u009b\u202e'), '/\\302\\233\\342\\200\\256');
  assert.equal(shown(Buffer.from([0xed, 0xa0, 0x80, 0xc0, 0xaf])), '\\355\\240\\200\\300\\257');
  fc.assert(
    fc.property(fc.uint8Array(), (bytes) => {
      const result = printable(Buffer.from(bytes).toString('latin1'));
      assert.ok(!/[\p{Cc}\p{Cs}]/u.test(result));
    }),
  );
});

test('findings come in the order of AIDE, and too many are counted only', async () => {
  const now = ['/a!', '/a/b', '/a', '/b']
    .map((path) => entry(path))
    .toSorted((a, b) => (a.path < b.path ? -1 : 1));
  const found = await report([], now);
  assert.deepEqual(
    found.changes.map(({ path }) => path),
    ['/a', '/a/b', '/a!', '/b'],
  );
  assert.deepEqual(['/b', '/a!', '/a/b', '/a', '/'].toSorted(compareInTree), [
    '/',
    '/a',
    '/a/b',
    '/a!',
    '/b',
  ]);
  const many = Array.from({ length: 1000 }, (_, i) => entry(`/${String(i).padStart(9, '0')}`));
  const bounded = await report([], many, {}, 7000);
  assert.equal(bounded.counts.added, 1000);
  assert.equal(exitBits(bounded.counts), 1);
  assert.equal(bounded.changes.length, 100);
  assert.equal(bounded.omitted, 900);
  assert.match(
    text(bounded),
    /Added entries:\t\t1000\n[^]*\n900 more findings are counted above but not shown here\./,
  );
  assert.match(jsonReport(bounded, defaultReportOptions, facts), /"omitted": 900/);
});

test('a log is in the ConfigMap plain, packed, or as a reference to its place', () => {
  assert.deepEqual(fitLog('short', '/n'), { data: 'short', compressed: false, tooLarge: false });
  const exact = 'é'.repeat(logLimitBytes / 2);
  assert.equal(fitLog(exact, '/n').compressed, false);
  const long = `${exact}x`;
  const packed = fitLog(long, '/n');
  assert.deepEqual([packed.compressed, packed.tooLarge], [true, false]);
  assert.equal(gunzipSync(Buffer.from(packed.data, 'base64')).toString(), long);
  // As after the update of a node: 10,000 new files with long names.
  const names = Array.from(
    { length: 10_000 },
    (_, i) => `f+++++++++++++++++: /${'long'.repeat(50)}/${i * 7919}\n`,
  ).join('');
  assert.ok(names.length > 2 * logLimitBytes);
  assert.deepEqual([fitLog(names, '/n').compressed, fitLog(names, '/n').tooLarge], [true, false]);
  const reported = fitLog(long, '/var/log/rampart/aide.log', 100);
  assert.deepEqual([reported.compressed, reported.tooLarge], [false, true]);
  assert.match(reported.data, /too large for a ConfigMap.*\/var\/log\/rampart\/aide\.log/);
});
