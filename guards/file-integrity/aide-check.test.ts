/** Cases that need a check by the real AIDE: logs that grow and are rotated. */
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { parseAideReport } from './aide-provider/aide-output.ts';
import { type CompareOptions, Comparison } from './compare/compare.ts';
import { readAideDatabase } from './database/aide-database.ts';
import { temporaryDirectory } from './database/baseline.fixture.ts';
import { sortEntries } from './database/sort-entries.ts';
import { withoutAide } from './aide.fixture.ts';
import { collect, runAide } from './real-aide.fixture.ts';

const digestStart: CompareOptions['digestStart'] = ({ path }, sizeBytes) => {
  const start = fs.readFileSync(Buffer.from(path, 'latin1')).subarray(0, sizeBytes);
  return Promise.resolve({ sha256: createHash('sha256').update(start).digest(), sha512: Buffer.alloc(0) });
};

const rules = (root: string): string => {
  const full = 'ftype+p+u+g+n+i+s+b+m+c+sha256';
  return [
    `${root}/[^/]*/log$ f ${full}+growing+ANF+I`,
    `${root}/[^/]*/log\\\\.1$ f ${full}+I`,
    `${root}/[^/]*/log\\\\.2$ f ${full}+ARF`,
    `${root}/[^/]*$ d ftype+p+u+g`,
    `${root} ${full}`,
  ].join('\n');
};

test('logs that grow and are rotated: as the real AIDE checks them', { skip: withoutAide }, async () => {
  using directory = temporaryDirectory();
  const { path } = directory;
  const root = join(path, 'root');
  fs.mkdirSync(root);
  const at = (...names: string[]): string => join(root, ...names);
  const rotate = (log: string): void => {
    fs.rmSync(at(log, 'log.2'), { force: true });
    fs.renameSync(at(log, 'log.1'), at(log, 'log.2'));
    fs.renameSync(at(log, 'log'), at(log, 'log.1'));
    fs.writeFileSync(at(log, 'log'), 'a new one\n');
  };
  const cases: Readonly<Record<string, (log: string) => void>> = {
    'as it was': () => undefined,
    grown: (log) => fs.appendFileSync(at(log, 'log'), 'more\n'),
    shrunk: (log) => fs.truncateSync(at(log, 'log'), 2),
    'grown and changed': (log) => fs.writeFileSync(at(log, 'log'), 'another beginning, and longer\n'),
    'grown from nothing': (log) => fs.appendFileSync(at(log, 'empty'), 'more\n'),
    rotated: rotate,
    'grown and rotated': (log) => {
      fs.appendFileSync(at(log, 'log'), 'more\n');
      rotate(log);
    },
    'changed and rotated': (log) => {
      fs.writeFileSync(at(log, 'log'), 'another beginning, and longer\n');
      rotate(log);
    },
    'old one changed': (log) => fs.appendFileSync(at(log, 'log.1'), 'x'),
    'all gone': (log) => ['log', 'log.1', 'log.2'].forEach((name) => fs.rmSync(at(log, name))),
  };
  for (const name of Object.keys(cases)) {
    const log = name.replaceAll(' ', '-');
    fs.mkdirSync(at(log));
    fs.writeFileSync(at(log, 'log'), 'the first lines\n');
    fs.writeFileSync(at(log, 'empty'), '');
    for (const old of ['log.1', 'log.2']) fs.writeFileSync(at(log, old), `${old} of ${name}\n`);
  }
  runAide(path, '--init', rules(root));
  fs.renameSync(join(path, 'out'), join(path, 'in'));
  for (const [name, change] of Object.entries(cases)) change(name.replaceAll(' ', '-'));

  const checked = runAide(path, '--check', `report_format=json\nreport_url=stdout\n${rules(root)}`);
  const theirs = parseAideReport(checked.stdout).changes.map(({ kind, path: name }) => `${kind} ${name}`);
  runAide(path, '--init', rules(root));
  const comparison = new Comparison({
    old: sortEntries(readAideDatabase(join(path, 'in'))),
    now: sortEntries(readAideDatabase(join(path, 'out'))),
    oldAttributes: -1,
    digestStart,
  });
  const ours = (await collect(comparison)).map(({ kind, path: name }) => `${kind} ${name}`);
  assert.deepEqual(ours.toSorted(), theirs.toSorted());
  const reported = (log: string): string[] =>
    ours
      .filter((line) => line.includes(`/${log}/`))
      .map((line) => line.replace(at(log), ''))
      .toSorted();
  for (const quiet of ['as-it-was', 'grown', 'rotated', 'grown-and-rotated'])
    assert.deepEqual(reported(quiet), [], quiet);
  assert.deepEqual(reported('shrunk'), ['changed /log']);
  assert.deepEqual(reported('grown-and-changed'), ['changed /log']);
  assert.ok(reported('changed-and-rotated').length > 0);
  assert.deepEqual(reported('all-gone'), ['removed /log', 'removed /log.1']);
});
