/**
 * The provider `aide` with the real AIDE: the parts specific to it. The common behaviour is in the suite of
 * both providers.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import * as fs from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { gunzipSync } from 'node:zlib';
import { deepTest, sampled } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { aideDialect, withoutAide } from '../aide.fixture.ts';
import { hasFault, pairKey } from '../database/baseline.fixture.ts';
import { readAcceptances } from '../signed-notes/acceptance-log.fixture.ts';
import type { IntegrityJob, ScanProgress } from '../provider/provider.ts';
import { patience, TestHost } from './job.fixture.ts';
import { findAide, matchesCharacters } from './program.ts';
import { AideProvider } from './provider.ts';
import type { Report } from '../model/report.ts';

const skip = withoutAide;
const content = 'ftype+p+u+g+n+s+sha256';
const wholeEtc = `/hostroot/etc ${content}\n`;

function reported({ changes }: Report): string[] {
  return changes.map(({ kind, path }) => `${kind} ${path}`);
}

function smallHost(name?: string): TestHost {
  const host = new TestHost(name);
  for (const file of ['a', 'b', 'c', 'sub/d']) host.write(`etc/${file}`, `${file}\n`);
  host.write('other/x', 'x\n');
  return host;
}

function rows(job: IntegrityJob): string[] {
  const { id } = JSON.parse(
    fs.readFileSync(join(job.directory, 'aide.baseline'), 'utf8').split('\n')[0] ?? '',
  ) as {
    id: string;
  };
  const text = gunzipSync(fs.readFileSync(join(job.directory, `aide.db.${id}.gz`))).toString('latin1');
  return text
    .split('\n')
    .filter((line) => line.startsWith('/'))
    .toSorted();
}

function failsWith(code: string, message: RegExp): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof RampartError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };
}

test('a baseline, a check without and with changes, paths with the prefix of the job', { skip }, async () => {
  for (const name of sampled(['host', 'a.b c+(d)[e]'], 1)) {
    using host = smallHost(name);
    const job = host.job(wholeEtc);
    const provider = new AideProvider();
    assert.equal(await provider.state(job), 'none');
    assert.deepEqual(await provider.init(job, patience()), { entries: 6, unread: 0 });
    assert.equal(await provider.state(job), 'ready');
    assert.equal(await provider.state(host.job(`${wholeEtc}# more\n`)), 'other-configuration');
    const same = await provider.check(job, patience());
    assert.deepEqual(reported(same.report), []);
    assert.equal(same.report.counts.total, 6);

    host.write('etc/a', 'other\n');
    host.write('etc/new\nline', '');
    fs.rmSync(host.at('etc/sub/d'));
    host.write('other/y', '');
    const { report, facts, options } = await provider.check(job, patience());
    assert.deepEqual(reported(report), [
      'changed /hostroot/etc/a',
      'added /hostroot/etc/new\nline',
      'removed /hostroot/etc/sub/d',
    ]);
    assert.deepEqual(
      report.changes[0]?.details.map((detail) => detail.name),
      ['size', 'sha256'],
    );
    assert.match(facts.program, /^AIDE 0\.1[89]/);
    assert.equal(options.level, 'changed_attributes');
    assert.deepEqual(
      fs.readdirSync(job.directory).filter((file) => file.startsWith('aide.run')),
      [],
    );
  }
});

test('accept takes the given paths and nothing else', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  const provider = new AideProvider();
  await provider.init(job, patience());
  const before = rows(job);
  for (const file of ['a', 'b', 'new', "we'ird $(x) \x01\n|é", 'a.more'])
    host.write(`etc/${file}`, 'accept me\n');
  fs.rmSync(host.at('etc/c'));
  fs.rmSync(host.at('etc/sub'), { recursive: true });
  const latin = (text: string): string => Buffer.from(text).toString('latin1');
  const paths = ['/hostroot/etc/a', '/hostroot/etc/c', latin("/hostroot/etc/we'ird $(x) \x01\n|é")];
  const about = { author: 'ann', reason: 'update of a', request: 'r1' };
  assert.deepEqual(await provider.accept(job, paths, about, patience()), { unread: [] });
  const { report } = await provider.check(job, patience());
  assert.deepEqual(reported(report), [
    'changed /hostroot/etc',
    'added /hostroot/etc/a.more',
    'changed /hostroot/etc/b',
    'added /hostroot/etc/new',
    'removed /hostroot/etc/sub',
    'removed /hostroot/etc/sub/d',
  ]);
  // The rows of all other paths are byte by byte what they were.
  const others = before.filter((row) => !/\/etc\/[ac] /.test(row));
  assert.deepEqual(
    rows(job).filter((row) => others.includes(row)),
    others,
  );
  assert.equal(rows(job).length, others.length + 2);
  const { records, faults } = await readAcceptances(job.directory, job.signingKey);
  assert.deepEqual(faults, []);
  assert.deepEqual(
    records.map(({ author, count, request }) => [author, count, request]),
    [['ann', 3, 'r1']],
  );
  // The same request again, because the answer was lost: nothing more is taken.
  host.write('etc/a', 'later\n');
  await provider.accept(job, paths, about, patience());
  assert.ok(reported((await provider.check(job, patience())).report).includes('changed /hostroot/etc/a'));
  // More than one expression can hold.
  for (let at = 0; at < 300; at++) host.write(`etc/many/${'long-'.repeat(12)}${at}`, String(at));
  const all = (await provider.check(job, patience())).report.changes.map(({ path }) => path);
  assert.ok(all.length > 300);
  await provider.accept(job, all, { author: 'ann', reason: 'all' }, patience());
  assert.deepEqual(reported((await provider.check(job, patience())).report), []);
});

test('a baseline that cannot be trusted is an error, whatever is wrong with it', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc, { maxBackups: 1 });
  const provider = new AideProvider();
  await provider.init(job, patience());
  await provider.init(job, patience());
  const files = fs.readdirSync(job.directory);
  const kept = new Map(files.map((file) => [file, fs.readFileSync(join(job.directory, file))]));
  const at = (name: string): string => join(job.directory, name);
  const baseline = kept.get('aide.baseline')?.toString() ?? '';
  const { id } = JSON.parse(baseline.split('\n')[0] ?? '') as { id: string };
  const backup = files.find((file) => file.startsWith('aide.baseline.')) ?? '';
  const database = `aide.db.${id}.gz`;
  const bytes = kept.get(database) ?? Buffer.alloc(0);
  const faults: [string, Parameters<typeof hasFault>, () => void][] = [
    ['no baseline', ['missing', /existed before/], () => fs.rmSync(at('aide.baseline'))],
    ['an empty one', ['truncated', /empty/], () => fs.writeFileSync(at('aide.baseline'), '')],
    ['a cut one', ['truncated', /JSON/], () => fs.writeFileSync(at('aide.baseline'), baseline.slice(0, 90))],
    ['a foreign one', ['foreign', /not a baseline/], () => fs.writeFileSync(at('aide.baseline'), 'hello\n')],
    [
      'without signature',
      ['unsigned', /no signature/],
      () => fs.writeFileSync(at('aide.baseline'), baseline.split('\n')[0] ?? ''),
    ],
    [
      'edited',
      ['wrong signature', /does not match/],
      () => fs.writeFileSync(at('aide.baseline'), baseline.replace('"entries":6', '"entries":7')),
    ],
    [
      'a directory',
      ['foreign', /regular/],
      () => (fs.rmSync(at('aide.baseline')), fs.mkdirSync(at('aide.baseline'))),
    ],
    [
      'the one before',
      ['outdated', /not the latest/],
      () => fs.copyFileSync(at(backup), at('aide.baseline')),
    ],
    ['without its note', ['outdated', /record/], () => fs.rmSync(at('aide.last-baseline'))],
    ['no database', ['missing', /does not exist/], () => fs.rmSync(at(database))],
    ['an empty database', ['truncated', /0 bytes/], () => fs.writeFileSync(at(database), '')],
    ['a cut database', ['truncated', /bytes/], () => fs.truncateSync(at(database), bytes.length - 5)],
    ['a longer database', ['damaged', /signed/], () => fs.appendFileSync(at(database), 'x')],
    [
      'another database',
      ['damaged', /signed/],
      () => fs.writeFileSync(at(database), Buffer.from(bytes).reverse()),
    ],
  ];
  for (const [name, fault, damage] of faults) {
    damage();
    await assert.rejects(provider.check(job, patience()), hasFault(...fault), name);
    await assert.rejects(provider.state(job), hasFault(...fault), name);
    await assert.rejects(
      provider.accept(job, [], { author: 'a', reason: '' }, patience()),
      hasFault(...fault),
      name,
    );
    for (const file of fs.readdirSync(job.directory)) fs.rmSync(at(file), { recursive: true });
    for (const [file, content_] of kept) fs.writeFileSync(at(file), content_);
  }
  assert.deepEqual(reported((await provider.check(job, patience())).report), []);
  const other = { ...job, signingKey: pairKey };
  await assert.rejects(provider.check(other, patience()), hasFault('wrong signature', /expected/));
  // Only to initialize again mends it.
  fs.rmSync(at('aide.baseline'));
  await provider.init(job, patience());
  assert.equal(await provider.state(job), 'ready');
});

test('backups are kept as many as are asked for, and nothing else is left', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  const provider = new AideProvider();
  for (let at = 0; at < 4; at++) await provider.init(job, patience());
  const names = fs.readdirSync(job.directory).map((name) => name.replace(/\d+-[0-9a-f]{12}/, 'ID'));
  assert.deepEqual(names.toSorted(), [
    ...['aide.baseline', 'aide.baseline.ID', 'aide.baseline.ID'],
    ...['aide.db.ID.gz', 'aide.db.ID.gz', 'aide.db.ID.gz', 'aide.last-baseline'],
  ]);
  await provider.init({ ...job, maxBackups: 0 }, patience());
  assert.equal(fs.readdirSync(job.directory).length, 3);
  // A finished request is not executed again.
  const first = await provider.init(job, { ...patience(), request: 'one' });
  const text = fs.readFileSync(join(job.directory, 'aide.baseline'), 'utf8');
  assert.deepEqual(await provider.init(job, { ...patience(), request: 'one' }), first);
  assert.equal(fs.readFileSync(join(job.directory, 'aide.baseline'), 'utf8'), text);
});

test('an unreadable file is reported, not taken for removed', { skip: skip || mustBeRoot() }, async () => {
  using host = smallHost();
  // root without the right to read everything, as in a container without CAP_DAC_OVERRIDE.
  const drop = '-dac_override,-dac_read_search';
  const program = host.script('aide', `exec setpriv --inh-caps=${drop} --bounding-set=${drop} aide "$@"`);
  const job = host.job(wholeEtc);
  await new AideProvider().init(job, patience());
  for (const path of ['etc/sub', 'etc/b']) {
    fs.chmodSync(host.at(path), 0);
    fs.chownSync(host.at(path), 1000, 1000);
  }
  fs.rmSync(host.at('etc/a'));
  const provider = new AideProvider({ program });
  const { report } = await provider.check(job, patience());
  assert.deepEqual(report.problems.map(({ path, code }) => `${code} ${path}`).toSorted(), [
    'EACCES /hostroot/etc/b',
    'EACCES /hostroot/etc/sub',
  ]);
  assert.equal(report.counts.problems, 2);
  assert.deepEqual(reported(report), [
    'removed /hostroot/etc/a',
    'changed /hostroot/etc/b',
    'changed /hostroot/etc/sub',
  ]);
  assert.equal(report.counts.removed, 1);
  const paths = ['/hostroot/etc/a', '/hostroot/etc/b', '/hostroot/etc/sub/d'];
  const accepted = await provider.accept(job, paths, { author: 'a', reason: 'r' }, patience());
  assert.deepEqual(accepted.unread, ['/hostroot/etc/b', '/hostroot/etc/sub/d']);
  assert.equal(rows(job).length, 5);
  assert.deepEqual(await provider.init(job, patience()), { entries: 4, unread: 2 });
});

test(
  'where AIDE warns of more than is read of it, nothing is taken for removed',
  { skip: skip || mustBeRoot() },
  async () => {
    using host = smallHost();
    const job = host.job(wholeEtc);
    await new AideProvider().init(job, patience());
    fs.chmodSync(host.at('etc/sub'), 0);
    fs.chownSync(host.at('etc/sub'), 1000, 1000);
    host.write('etc/b', 'changed\n');
    const drop = '-dac_override,-dac_read_search';
    const aide = `exec setpriv --inh-caps=${drop} --bounding-set=${drop} aide "$@"`;
    const flood = 'case "$1" in --version) ;; *) head -c 5000000 /dev/zero | tr "\\0" "\\n" >&2;; esac';
    const provider = new AideProvider({ program: host.script('aide', `${flood}\n${aide}`) });
    const { report } = await provider.check(job, patience());
    assert.deepEqual(reported(report), ['changed /hostroot/etc/b', 'changed /hostroot/etc/sub']);
    assert.deepEqual([report.counts.removed, report.counts.problems], [0, 1]);
    assert.deepEqual(
      report.problems.map(({ path, code }) => [path, code]),
      [['/hostroot', 'EOVERFLOW']],
    );
    const about = { author: 'a', reason: 'r' };
    const paths = ['/hostroot/etc/b', '/hostroot/etc/sub/d'];
    assert.deepEqual((await provider.accept(job, paths, about, patience())).unread, paths);
  },
);

// The second is as 0.19 was before Debian's 0.19.1-2+deb13u3: no rule matches such a name, and `.` matches an é.
for (const [which, script] of [
  ['the one that is here', 'exec aide "$@"'],
  [
    'one that matches characters',
    `case "$*" in *path-check*) exit 0; esac; exec aide --after='!/.*[\\xC3\\xFF]' "$@"`,
  ],
] as const) {
  test(`a name that is not UTF-8 hides nothing, with AIDE: ${which}`, { skip }, async () => {
    using host = smallHost();
    const job = host.job(`!/hostroot/etc/left$\n${wholeEtc}`);
    const program = host.script('aide', script);
    const provider = new AideProvider({ program });
    const at = (name: string): Buffer => Buffer.concat([Buffer.from(host.root), Buffer.from(name, 'latin1')]);
    fs.mkdirSync(host.at('etc/left'));
    await provider.init(job, patience());
    fs.mkdirSync(host.at('etc/fresh'));
    for (const name of ['/etc/\xff', '/etc/fresh/a\xc3', '/etc/left/\xff'])
      fs.writeFileSync(at(name), 'hidden\n');
    const { report } = await provider.check(job, patience());
    const names = ['/hostroot/etc/fresh/a\xc3', '/hostroot/etc/\xff'];
    const added = reported(report).filter((line) => /[\xc3\xff]$/.test(line));
    const problems = report.problems.map(({ path, code }) => `${code} ${path}`);
    const isBlind = await matchesCharacters(await findAide(program), patience().signal);
    const [seen, unseen] = isBlind ? [[], names] : [names, []];
    assert.deepEqual(added.toSorted(), seen.map((name) => `added ${name}`).toSorted());
    assert.deepEqual(problems.toSorted(), unseen.map((name) => `EILSEQ ${name}`).toSorted());
    assert.equal(report.counts.problems, problems.length);
    assert.equal((await provider.init(job, patience())).unread, problems.length);
    if (which === 'one that matches characters') assert.equal(isBlind, true);
  });
}

deepTest('counts findings beyond the limit, and reports the others whole', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  await new AideProvider().init(job, patience());
  for (let at = 0; at < 200; at++) host.write(`etc/more/file-${at}`, '');
  for (const file of ['a', 'b', 'c']) host.write(`etc/${file}`, 'changed\n');
  const whole = (await new AideProvider().check(job, patience())).report;
  for (const reportLimitBytes of [700, 3000, 10_500, 11_500, 12_000]) {
    const { report } = await new AideProvider({ reportLimitBytes }).check(job, patience());
    assert.deepEqual(report.counts, whole.counts);
    assert.equal(report.changes.length + report.omitted, whole.changes.length);
    for (const change of report.changes) {
      assert.deepEqual(
        change,
        whole.changes.find(({ path }) => path === change.path),
      );
    }
  }
});

test(
  'the first release of a version has no third number, and knows its own baselines',
  { skip },
  async () => {
    using host = smallHost();
    const job = host.job(wholeEtc);
    const text = `case "$1" in --version) echo "AIDE ${aideDialect}"; exit;; esac; exec aide "$@"`;
    const provider = new AideProvider({ program: host.script('aide', text) });
    await provider.init(job, patience());
    host.write('etc/a', 'changed\n');
    assert.deepEqual(reported((await provider.check(job, patience())).report), ['changed /hostroot/etc/a']);
  },
);

test('no AIDE, one of another version, something else: an error that says what to install', async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  const old = host.script('old', 'echo "AIDE 0.16.1"');
  const other = host.script('other', 'echo hello');
  const failing = host.script('failing', 'exit 3');
  const none = host.beside('none');
  for (const [program, why] of [
    [old, /it is AIDE 0\.16\.1/],
    [other, /does not identify itself as AIDE/],
    [failing, /--version failed/],
    [none, /--version failed/],
  ] as const) {
    const provider = new AideProvider({ program });
    await assert.rejects(provider.init(job, patience()), failsWith(errorCodes.UNSUPPORTED, why));
    await assert.rejects(provider.init(job, patience()), /apt-get install aide/);
  }
});

test('the failures of AIDE are errors, never findings', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  await new AideProvider().init(job, patience());
  const failing = (text: string): AideProvider =>
    new AideProvider({
      program: host.script('aide', `case "$1" in --version) exec aide --version;; esac\n${text}`),
    });
  for (const [code, why] of [
    [14, /write/],
    [16, /not implemented/],
    [18, /could not read or write/],
    [19, /version/],
    [21, /lock/],
    [23, /thread/],
    [99, /unknown/],
  ] as const) {
    const provider = failing(`echo "  ERROR: it is so" >&2; exit ${code}`);
    await assert.rejects(provider.check(job, patience()), (error: Error) => {
      assert.match(error.message, why);
      assert.match(error.message, /it is so/);
      return true;
    });
  }
  await assert.rejects(failing('kill -9 $$').check(job, patience()), /killed by SIGKILL/);
  await assert.rejects(failing('exit 5').check(job, patience()), failsWith(errorCodes.DECODE, /it is empty/));
  await assert.rejects(failing('exit 0').check(job, patience()), failsWith(errorCodes.DECODE, /it is empty/));
  const lying = 'echo \'{"outline":"x","number_of_entries":{"total":1,"added":1}}\' >&3; exit 4';
  await assert.rejects(failing(lying).check(job, patience()), failsWith(errorCodes.DECODE, /exit code/));
  // The name and the line of the configuration, not those of a file that the user has never seen.
  await assert.rejects(
    new AideProvider().init(host.job(`# one\n${wholeEtc}/hostroot/x nonsense\n`), patience()),
    failsWith(errorCodes.INPUT, /ConfigMap guard\/example, aide\.conf:3: group 'nonsense'/),
  );
  await assert.rejects(
    new AideProvider().init(host.job(`/etc ${content}\n`), patience()),
    failsWith(errorCodes.INPUT, /'\/etc' is not in \/hostroot/),
  );
  assert.equal(await new AideProvider().state(job), 'ready');
});

deepTest('a full disk leaves what was there', { skip: skip || mustBeRoot() }, async (t) => {
  using host = smallHost();
  const small = host.beside('small');
  fs.mkdirSync(small);
  if (spawnSync('mount', ['-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', small]).status !== 0) {
    t.skip('this machine lets nobody mount');
    return;
  }
  try {
    const job = host.job(wholeEtc, { directory: small });
    const provider = new AideProvider();
    await provider.init(job, patience());
    for (let at = 0; at < 1500; at++) host.write(`etc/many/${at}-${Math.random()}`, String(at));
    await assert.rejects(provider.init(job, patience()), failsWith(errorCodes.FULL, /whole|space/));
    assert.equal(await provider.state(job), 'ready');
    assert.equal((await provider.check(job, patience())).report.counts.added, 1501);
  } finally {
    spawnSync('umount', [small]);
  }
});

test('the signal ends AIDE, and so does the end of its time', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  await new AideProvider().init(job, patience());
  const pidFile = host.beside('pid');
  const program = host.script(
    'aide',
    `case "$1" in --version) exec aide --version;; esac\ntrap '' TERM; echo $$ > ${pidFile}.new; mv ${pidFile}.new ${pidFile}; exec sleep 1000`,
  );
  const isAlive = (): boolean => fs.existsSync(`/proc/${fs.readFileSync(pidFile, 'utf8').trim()}`);
  const stop = new AbortController();
  const check = new AideProvider({ program }).check(job, { signal: stop.signal });
  while (!fs.existsSync(pidFile)) await delay(5);
  stop.abort(new Error('enough'));
  await assert.rejects(check, /enough/);
  assert.equal(isAlive(), false);
  assert.equal(await new AideProvider().state(job), 'ready');
});

test('ends an AIDE that no longer does anything', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  const program = host.script('aide', 'case "$1" in --version) exec aide --version;; esac\nexec sleep 1000');
  const stuck = new AideProvider({ program, stuckMs: 400 });
  await assert.rejects(stuck.init(job, patience()), failsWith(errorCodes.SYSTEM, /has made no progress for/));
});

deepTest('AIDE that works says so', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  const enough = host.beside('enough');
  const busy = host.script(
    'aide',
    `case "$1" in --version) exec aide --version;; esac\nuntil [ -e ${enough} ]; do :; done; exec aide "$@"`,
  );
  const onProgress = ({ cpuMs = 0 }: ScanProgress): void => {
    if (cpuMs > 0) fs.writeFileSync(enough, '');
  };
  // Checks every two seconds; an AIDE without any CPU time for 40 s is stuck.
  const provider = new AideProvider({ program: busy, stuckMs: 40_000 });
  await provider.init(job, { ...patience(), onProgress });
  assert.equal(await provider.state(job), 'ready');
});

test('AIDE is the last to get a processor', { skip }, async () => {
  using host = smallHost();
  const job = host.job(wholeEtc);
  await new AideProvider().init(job, patience());
  const niceness = host.beside('niceness');
  const program = host.script(
    'aide',
    `case "$*" in *" --check"*) (nice; ionice) > ${niceness}; esac; exec aide "$@"`,
  );
  await new AideProvider({ program }).check(job, patience());
  assert.equal(fs.readFileSync(niceness, 'utf8'), '19\nidle\n');
});

function mustBeRoot(): string | false {
  return process.getuid?.() === 0 ? false : 'needs root';
}
