/** `rampart integrity check` as its users run it. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { generateKeyPairSync } from 'node:crypto';
import * as fs from 'node:fs';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { publicPath, withPublicCheckout } from '../../../lib/testing/public-checkout.fixture.ts';
import { deepTest, isDeep, sampled, scaled } from '../../../lib/testing/depth.fixture.ts';
import { withoutAide } from '../aide.fixture.ts';
import { type Ended, onTerminal, rampart, Scene, start } from './integrity.fixture.ts';

const attributes = 'p+u+g+n+s+sha256';
const mustBeRoot = process.getuid?.() === 0 ? false : 'needs root';

function small(scene: Scene): void {
  scene.write('aide.conf', `${scene.tree} f ${attributes}\n`);
  for (const name of ['a', 'b', 'c', 'sub/d']) scene.write(`tree/${name}`, `${name}\n`);
}

function withoutTimes({ stdout }: Ended): string {
  return stdout.replaceAll(/^(?:Start|End) timestamp: .*$/gm, '');
}

test('exit codes and report are those of AIDE on the same trees', { skip: withoutAide }, async () => {
  using scene = new Scene();
  small(scene);
  const own = fs.readFileSync(scene.at('aide.conf'), 'utf8');
  const databases = `database_in=file:${scene.at('in')}\ndatabase_out=file:${scene.at('in')}\ndatabase_attrs=E\n`;
  const aide = (command: string): Ended => {
    const conf = scene.write('theirs.conf', databases + own);
    const run = spawnSync('aide', ['-c', conf, command], {
      encoding: 'utf8',
      env: { ...process.env, TZ: 'UTC' },
    });
    return { code: run.status, signal: run.signal, stdout: run.stdout, stderr: run.stderr };
  };
  assert.equal(aide('--init').code, 0);
  assert.equal((await scene.check('--init')).code, 0);
  const changes = [
    () => scene.write('tree/sub/new', 'new\n'),
    () => fs.rmSync(scene.at('tree/b')),
    () => scene.write('tree/a', 'other\n'),
  ];
  for (const bits of sampled([0, 1, 2, 3, 4, 5, 6, 7], 1)) {
    changes.forEach((change, at) => void ((bits & (1 << at)) !== 0 && change()));
    const theirs = aide('--check');
    const ours = await scene.check();
    assert.equal(theirs.code, bits);
    assert.equal(ours.code, bits);
    assert.equal(withoutTimes(ours), withoutTimes(theirs));
    fs.rmSync(scene.at('tree/sub/new'), { force: true });
    scene.write('tree/a', 'a\n');
    scene.write('tree/b', 'b\n');
  }
});

test('grown logs are not changes, however many have to be read again', async () => {
  using scene = new Scene();
  scene.write('aide.conf', `${scene.tree} f ${attributes}+growing\n`);
  const names = Array.from({ length: scaled(200, 20) }, (_, at) => `tree/${at}`);
  for (const name of names) scene.write(name, name.repeat(40_000));
  assert.equal((await scene.check('--init')).code, 0);
  for (const name of names) fs.appendFileSync(scene.at(name), 'more\n');
  const grown = await scene.check();
  assert.equal(grown.code, 0, grown.stderr);
  scene.write('tree/7', 'less\n');
  const changed = await scene.check();
  assert.equal(changed.code, 4, changed.stderr);
});

test('an update reports and accepts differences; the earlier baseline stays beside it', async () => {
  using scene = new Scene();
  small(scene);
  const first = await scene.check('--init');
  assert.equal(first.code, 0);
  assert.match(first.stdout, /AIDE successfully initialized database/);
  assert.match(first.stderr, /created the key .*db\.key\. .*Root on this machine can read it/);
  assert.equal(fs.statSync(scene.at('db.key')).mode & 0o777, 0o600);
  const before = fs.readFileSync(scene.at('db'));
  scene.write('tree/a', 'other\n');
  const update = await scene.check('--update', '--json');
  assert.equal(update.code, 4);
  assert.deepEqual(Object.keys((JSON.parse(update.stdout) as { changed: object }).changed), [
    `${scene.tree}/a`,
  ]);
  const after = await scene.check();
  assert.equal(after.code, 0);
  assert.match(after.stdout, /Looks okay/);
  assert.deepEqual(fs.readFileSync(scene.at('db.old')), before);
  assert.deepEqual(fs.readdirSync(scene.path).toSorted(), ['aide.conf', 'db', 'db.key', 'db.old', 'tree']);
});

test('with --root paths begin after it, and the level is that of the option', async () => {
  using scene = new Scene();
  small(scene);
  scene.write('aide.conf', `report_level=summary\n/sub ${attributes}\n`);
  assert.equal((await scene.check('--init', '--root', scene.tree)).code, 0);
  fs.rmSync(scene.at('tree/sub/d'));
  const short = await scene.check('--root', scene.tree);
  assert.equal(short.code, 2 + 0);
  assert.doesNotMatch(short.stdout, /sub\/d/);
  const long = await scene.check('--root', scene.tree, '--report-level', 'list_entries');
  assert.match(long.stdout, /^f-+: \/sub\/d$/m);
});

test('errors have the exit codes of AIDE, a next step, and no report', async () => {
  using scene = new Scene();
  small(scene);
  await scene.check('--init');
  const db = fs.readFileSync(scene.at('db'));
  scene.write('empty', '');
  scene.write('cut', db.subarray(0, db.length - 10));
  scene.write('damaged', Buffer.from(db).fill(0x41, 200, 210));
  scene.write('aide', '@@begin_db\n');
  scene.write('bad.conf', '# one\n/x nonsense\n');
  scene.write('otherkey', 'ab'.repeat(32));
  scene.write('shortkey', 'abc\n');
  const key = ['--key', scene.at('db.key')];
  const all: (readonly [code: number, reported: RegExp, args: readonly string[]])[] = [
    [15, /unknown option '--nonsense'/, ['--nonsense']],
    [15, /too many arguments/, ['extra']],
    [15, /--init and --update together/, ['--init', '--update']],
    [15, /'--workers <number>' argument '0' is invalid/, ['--workers', '0']],
    [15, /'--read-rate <bytes>' argument 'much' is invalid/, ['--read-rate', 'much']],
    [15, /is not a baseline key/, ['--key', scene.at('shortkey')]],
    [17, /bad\.conf:2:4: group 'nonsense'/, ['-c', scene.at('bad.conf')]],
    [18, /cannot read the configuration/, ['-c', scene.at('none')]],
    [18, /no such directory/, ['--root', scene.at('none')]],
    [18, /cannot be used: it does not exist.*baseline/, ['--db', scene.at('none'), ...key]],
    [18, /cannot read the key/, ['--db', scene.at('none')]],
    [18, /it is empty/, ['--db', scene.at('empty'), ...key]],
    [18, /ends/, ['--db', scene.at('cut'), ...key]],
    [18, /cannot be used/, ['--db', scene.at('damaged'), ...key]],
    [18, /not a baseline of Rampart.*import an AIDE database/, ['--db', scene.at('aide'), ...key]],
    [18, /; expected /, ['--key', scene.at('otherkey')]],
    [18, /was cut off|end_db|db_spec/, ['--import-aide', scene.at('aide')]],
    [14, /cannot write/, ['--init', '--db', '/proc/baseline', ...key]],
  ];
  const cases = sampled(all, 3);
  for (let at = 0; at < cases.length; at += 3) {
    await Promise.all(
      cases.slice(at, at + 3).map(async ([code, reported, args]) => {
        const ended = await scene.check(...args);
        assert.match(ended.stderr, reported);
        assert.equal(ended.code, code, ended.stderr);
        assert.equal(ended.stdout, '');
      }),
    );
  }
  assert.deepEqual(fs.readFileSync(scene.at('db')), db);
});

test('an Ed25519 key: the private one makes a baseline, the public one checks it', async () => {
  using scene = new Scene();
  small(scene);
  const pair = generateKeyPairSync('ed25519');
  const secret = scene.write('private', pair.privateKey.export({ type: 'pkcs8', format: 'pem' }), 0o644);
  const open = scene.write('public', pair.publicKey.export({ type: 'spki', format: 'pem' }));
  const refused = await scene.check('--init', '--key', open);
  assert.equal(refused.code, 15);
  assert.match(refused.stderr, /public key/);
  const made = await scene.check('--init', '--key', secret);
  assert.equal(made.code, 0);
  assert.match(made.stderr, /other users may read or write the key .*chmod 600/);
  assert.equal((await scene.check('--key', open)).code, 0);
  assert.ok(!fs.existsSync(scene.at('db.key')));
});

test('includes are read; programs of @@x_include only run where that is allowed', async () => {
  using scene = new Scene();
  small(scene);
  fs.chmodSync(scene.path, 0o755);
  scene.write('conf.d/rules', `${scene.tree}/a f ${attributes}\n`);
  const program = scene.write('program', `#!/bin/sh\necho "${scene.tree}/$NAME f ${attributes}"\n`, 0o755);
  const both = `@@include ${scene.at('conf.d')} .*\n@@x_include_setenv NAME b\n@@x_include ${program}\n`;
  scene.write('aide.conf', both);
  const refused = await scene.check('--init');
  assert.equal(refused.code, 17);
  assert.match(refused.stderr, /aide\.conf:3:.*--allow-execution/s);
  const made = await scene.check('--init', '--allow-execution');
  assert.match(made.stdout, /Number of entries:\t2\n/);
  fs.chmodSync(program, 0o777);
  const unsafe = await scene.check('--init', '--allow-execution');
  assert.equal(unsafe.code, 17);
  assert.match(unsafe.stderr, /writable by its group or by all/);
  scene.write('program', '#!/bin/sh\necho hello >&2\n', 0o755);
  assert.match((await scene.check('--allow-execution')).stderr, /wrote to stderr: hello/);
  // As in AIDE: what its owner may not run is read, and a variable that is set already stays.
  scene.write('program', `${scene.tree}/a f ${attributes}\n`, 0o654);
  assert.equal((await scene.check('--init', '--allow-execution')).code, 0);
  scene.write('aide.conf', `@@x_include_setenv TERM other\n@@x_include ${program}\n`);
  scene.write(
    'program',
    `#!/bin/sh\n[ "$TERM" = xterm ] || echo "TERM is $TERM" >&2\necho "${scene.tree}/a f ${attributes}"\n`,
    0o755,
  );
  const kept = await scene.check('--init', '--allow-execution');
  assert.equal(kept.code, 0, kept.stderr);
  // The configuration of stdin.
  const args = ['integrity', 'check', '-c', '-', '--db', scene.at('db2'), '--init'];
  const { ended } = start(rampart, args, `${scene.tree} f ${attributes}\n`);
  assert.match((await ended).stdout, /Number of entries:\t4\n/);
});

test('includes regular files only, without waiting; a dangling link is an error', async () => {
  using scene = new Scene();
  small(scene);
  spawnSync('mkfifo', [scene.at('fifo')]);
  scene.write('conf.d/a.conf', `${scene.tree} f ${attributes}\n`);
  fs.symlinkSync('/nowhere', scene.at('conf.d/b.conf'));
  for (const [line, why] of [
    [`@@include ${scene.at('fifo')}`, /aide\.conf:1:11: cannot read .*fifo: it is not a regular file/],
    ['@@include /dev/zero', /cannot read \/dev\/zero: it is not a regular file/],
    [`@@include ${scene.at('conf.d')} conf$`, /cannot read .*b\.conf: ENOENT/],
  ] as const) {
    scene.write('aide.conf', `${line}\n`);
    const { code, stderr } = await scene.check('--init');
    assert.equal(code, 17, stderr);
    assert.match(stderr, why);
  }
  scene.write('aide.conf', `@@include ${scene.at('conf.d')} ^a\n`);
  assert.equal((await scene.check('--init')).code, 0);
});

test('a database of AIDE becomes the baseline', { skip: withoutAide }, async () => {
  using scene = new Scene();
  small(scene);
  const conf = `database_out=file:${scene.at('aide.db')}\ngzip_dbout=yes\n${scene.tree} f ${attributes}+md5\n`;
  assert.equal(spawnSync('aide', ['-c', scene.write('theirs.conf', conf), '--init']).status, 0);
  const imported = await scene.check('--import-aide', scene.at('aide.db'));
  assert.equal(imported.code, 0, imported.stderr);
  assert.match(imported.stderr, /4 entries of .*aide\.db imported as the baseline/);
  assert.match(imported.stderr, /checksums md5 are not used/);
  assert.equal((await scene.check()).code, 0);
  scene.write('tree/c', 'other\n');
  const changed = await scene.check();
  assert.equal(changed.code, 4);
  assert.match(changed.stdout, /\/c$/m);
});

test('an unreadable file is reported, not removed, and kept in an update', { skip: mustBeRoot }, async () => {
  using scene = new Scene();
  small(scene);
  assert.equal((await scene.check('--init')).code, 0);
  const drop = '-dac_override,-dac_read_search';
  const limited = [...withPublicCheckout, 'setpriv', `--inh-caps=${drop}`, `--bounding-set=${drop}`];
  const command = ['integrity', 'check', '-c', scene.at('aide.conf'), '--db', scene.at('db')];
  const restricted = (...args: string[]): Promise<Ended> =>
    start('env', [...limited, publicPath(rampart), ...command, ...args]).ended;
  const shut = (path: string): void => (
    fs.chmodSync(scene.at(path), 0),
    fs.chownSync(scene.at(path), 1000, 1000)
  );
  const opened = (path: string): void => (
    fs.chownSync(scene.at(path), 0, 0),
    fs.chmodSync(scene.at(path), 0o755)
  );
  shut('tree/sub');
  if (isDeep) {
    const check = await restricted();
    assert.equal(check.code, 18);
    assert.match(check.stderr, /1 paths could not be read/);
  }
  scene.write('tree/a', 'other\n');
  const update = await restricted('--update');
  assert.equal(update.code, 4, update.stderr);
  assert.match(update.stdout, /Entries that could not be read:\t1/);
  assert.match(update.stdout, /\/sub: .*\(EACCES\)/);
  assert.doesNotMatch(update.stdout, /Removed entries:(?!\t\t0\n)/);
  opened('tree/sub');
  assert.equal((await scene.check()).code, 0);
  if (!isDeep) return;
  // The baseline itself.
  shut('db');
  const unreadable = await restricted();
  assert.equal(unreadable.code, 18);
  assert.match(unreadable.stderr, /EACCES/);
  assert.equal(unreadable.stdout, '');
});

test('Ctrl-C ends it, and leaves the baseline unchanged', async () => {
  using scene = new Scene();
  small(scene);
  await scene.check('--init');
  const before = fs.readFileSync(scene.at('db'));
  scene.write('tree/big', Buffer.alloc(4 << 20, 'x'));
  for (const mode of sampled(['--init', '--update'], 1)) {
    const { child, ended } = scene.start(mode, '--read-rate', '100k');
    // Until it writes: then it scans.
    while (!fs.readdirSync(scene.path).some((name) => name.startsWith('.db.new.'))) await delay(10);
    child.kill('SIGINT');
    const { code, signal, stdout, stderr } = await ended;
    // The launcher reports it as shells do, or dies of it as well.
    assert.ok(signal === 'SIGINT' || code === 130, `${String(code)} ${String(signal)}`);
    assert.equal(stdout, '');
    assert.match(stderr, /the baseline is unchanged/);
    assert.deepEqual(fs.readFileSync(scene.at('db')), before);
    assert.deepEqual(
      fs.readdirSync(scene.path).filter((name) => name.includes('new')),
      [],
    );
  }
});

deepTest('a terminal gets progress and colours, and names that cannot harm it', async () => {
  using scene = new Scene();
  small(scene);
  await scene.check('--init');
  scene.write('tree/evil\u001b[2J\nname', 'x');
  scene.write('tree/big', Buffer.alloc(3 << 20, 'x'));
  const args = [
    'integrity',
    'check',
    '-c',
    scene.at('aide.conf'),
    '--db',
    scene.at('db'),
    '--read-rate',
    '1500k',
  ];
  const { code, stdout } = await onTerminal(rampart, args).ended;
  const seen = stdout.replaceAll('\u001b', 'ESC').replaceAll('\r', 'CR');
  assert.equal(code, 1);
  assert.match(seen, /CRESC\[K.*━.* %.*\d files {2}[\d.]+ [KM]?i?B {2}[\d.]+ [KM]?i?B\/s/);
  // It is gone before the report begins.
  assert.match(seen, /CRESC\[KStart timestamp/);
  assert.match(seen, /ESC\[1mESC\[31mAIDE found differences/);
  assert.match(stdout, /evil\\033\[2J\\012name/);
  assert.ok(!stdout.includes('evil\u001b'));
  const piped = await scene.check('--read-rate', '1500k');
  assert.ok(!`${piped.stdout}${piped.stderr}`.includes('\u001b'));
  assert.ok(!piped.stderr.includes('files '));
});

test('configurations of an older AIDE, and that of the File Integrity Operator, are taken', async () => {
  using scene = new Scene();
  scene.write('tree/etc/hosts', 'a\n');
  // As RHEL 8 and the operator write them.
  const rules = (root: string): string =>
    [
      ...[
        '@@define DBDIR /var/lib/aide',
        'database=file:@@{DBDIR}/aide.db.gz',
        'gzip_dbout=yes',
        'verbose=20',
      ],
      ...['@@ifdef DBDIR', 'CONTENT_EX = sha512+ftype+p+u+g+n+acl+selinux+xattrs', '@@endif'],
      ...[`!${root}/etc/mtab$`, `${root}/etc/    CONTENT_EX`, ''],
    ].join('\n');
  for (const root of ['', '/hostroot']) {
    scene.write('aide.conf', rules(root));
    const init = await scene.check('--root', scene.tree, '--init');
    assert.equal(init.code, 0, init.stderr);
    assert.match(init.stdout, /Report level: added_removed_entries/);
    scene.write('tree/etc/hosts', `${root}changed\n`);
    const { code, stdout } = await scene.check('--root', scene.tree);
    assert.equal(code, 4);
    assert.match(stdout, /^f .* : \/etc\/hosts$/m);
  }
  scene.write('aide.conf', rules('').replace('=20', '=much').replace('CONTENT_EX\n', 'CONTENT_XE\n'));
  const { code, stderr } = await scene.check('--root', scene.tree);
  assert.equal(code, 17);
  assert.match(stderr, /aide\.conf:4:9: 'much' is not a number from 0 to 255 \(line 'verbose=much'\)/);
});
