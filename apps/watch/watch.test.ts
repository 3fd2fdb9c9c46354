// `rampart watch` from its command line to its lines.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  readFileSync,
  readlinkSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { hostname } from 'node:os';
import { suite, test } from 'node:test';

import { heldBy, untilGone } from '../../lib/ebpf/kernel-objects.fixture.ts';
import { run } from '../../lib/sensor/file-systems.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { rampart, Watching } from './watch.fixture.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

const CAT = readlinkSync('/bin') === 'usr/bin' ? '/usr/bin/cat' : '/bin/cat';
const skip = sensorSkip;

/** A directory with a file to watch. */
class Files extends TemporaryDirectory {
  readonly file: string = this.at('file');

  constructor() {
    super();
    writeFileSync(this.file, 'content\n');
  }
}

suite('rampart watch', { skip }, () => {
  test('prints an alert for each access: one JSON object a line, with all keys', async () => {
    using files = new Files();
    await using watching = await Watching.start(files.file);
    const pid = spawnSync('cat', [files.file, '-'], { cwd: files.path }).pid;
    run('sh', ['-c', 'echo more >> "$0"', files.file]);
    const [first, second] = await watching.untilAlerts(2);
    assert.ok(first && second);
    assert.equal(first.time, first.timestamp);
    assert.match(first.timestamp, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}Z$/);
    const stat = statSync(files.file, { bigint: true });
    assert.deepEqual(
      { ...first, time: '', timestamp: '' },
      {
        ...{ guard: 'file-access', kind: 'KiveAlert', time: '', node: { name: hostname() } },
        ...{ severity: 'high', object: null, policy: null, verdict: 'allowed' },
        message: `${CAT} accessed ${files.file} (read).`,
        'kive-alert-version': 'v1',
        'kive-policy-name': '',
        'kive-policy-namespace': '',
        timestamp: '',
        metadata: {
          path: files.file,
          inode: Number(stat.ino),
          mask: 36,
          'kernel-id': readFileSync('/proc/sys/kernel/random/boot_id', 'utf8').trim(),
          callback: '',
          device: first.metadata.device,
          access: ['read'],
          verdict: 'allowed',
          folded: 0,
        },
        'custom-metadata': {},
        pod: { name: '', namespace: '', ip: '', container: { id: '', name: '' } },
        process: {
          ...first.process,
          uid: 0,
          gid: 0,
          binary: CAT,
          cwd: files.path,
          arguments: `${files.file} -`,
          comm: 'cat',
          truncated: [],
        },
      },
    );
    if (readlinkSync('/proc/self/ns/pid') === 'pid:[4026531836]') {
      assert.deepEqual([first.process.pid, first.process.tgid], [pid, pid]);
      assert.equal(first.process.ppid, process.pid);
    }
    assert.deepEqual(second.metadata.access, ['write', 'append']);
    assert.ok(second.timestamp > first.timestamp);
  });

  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    const once = signal === 'SIGINT' ? test : deepTest;
    once(`${signal}: the totals, exit code 0, nothing left in the kernel`, async () => {
      using files = new Files();
      await using watching = await Watching.start(files.file);
      const held = heldBy(watching.pid);
      assert.ok(held.prog.size > 0 && held.map.size > 0 && held.link.size > 0);
      for (let i = 0; i < 3; i++) run('cat', [files.file]);
      const ended = await watching.stop(signal);
      assert.deepEqual([ended.code, ended.signal], [0, null]);
      assert.equal(ended.stdout.split('\n').length, 4, 'what was in the ring at the end is printed too');
      assert.match(ended.stderr, /^rampart: 3 accesses: 3 reported, 0 folded, 0 lost$/m);
      await untilGone(held);
    });
  }

  test('in a terminal-like format: a readable line', async () => {
    using files = new Files();
    await using watching = await Watching.start('--format', 'pretty', files.file);
    run('cat', [files.file]);
    await watching.until(() => watching.lines.length === 1);
    assert.match(watching.lines[0] ?? '', /^\d\d:\d\d:\d\d\.\d{3} .* read .*\/file .*\/cat /);
  });

  deepTest('ends quietly when its reader has enough: | head -1', () => {
    using files = new Files();
    const script = `
      (i=0; while [ $i -lt 600 ]; do cat "$1"; sleep 0.05; i=$((i + 1)); [ -e "$1.done" ] && exit; done) > /dev/null &
      "$0" watch "$1" | head -1; echo "codes \${PIPESTATUS[*]}"; touch "$1.done"; wait`;
    const { stdout, stderr } = spawnSync('bash', ['-c', script, rampart, files.file], {
      encoding: 'utf8',
      timeout: 60_000,
    });
    const [alert = '', codes] = stdout.split('\n');
    assert.equal((JSON.parse(alert) as { metadata: { path: string } }).metadata.path, files.file);
    assert.equal(codes, 'codes 0 0');
    assert.doesNotMatch(stderr, /EPIPE|rror|at .*\.ts/);
  });

  test('two hard-linked paths, one given twice: an access through either is reported once for both', async () => {
    using files = new Files();
    linkSync(files.file, files.at('other'));
    await using watching = await Watching.start(files.file, `${files.path}/./file`, files.at('other'));
    run('cat', [files.file]);
    run('cat', [files.at('other')]);
    const alerts = await watching.untilAlerts(4);
    const both = new Set([files.file, files.at('other')]);
    assert.deepEqual(new Set(alerts.slice(0, 2).map(({ metadata }) => metadata.path)), both);
    assert.deepEqual(new Set(alerts.slice(2).map(({ metadata }) => metadata.path)), both);
    const { stdout, stderr } = await watching.stop();
    assert.equal(stdout.split('\n').length, 5);
    assert.match(stderr, /: 2 accesses: 2 reported/);
  });

  test('--except and --only: by the program that runs, whatever it is called', async () => {
    using files = new Files();
    for (const name of ['reader', 'other']) copyFileSync(CAT, files.at(name));
    for (const name of ['reader', 'other']) chmodSync(files.at(name), 0o755);
    for (const [option, reported] of [
      ['--except', 'other'],
      ['--only', 'reader'],
    ] as const) {
      await using watching = await Watching.start(option, `${files.at('reader')}, /no/such`, files.file);
      run(files.at(reported === 'other' ? 'reader' : 'other'), [files.file]);
      run(files.at(reported), [files.file]);
      const [first] = await watching.untilAlerts(1);
      assert.equal(first?.process.binary, files.at(reported));
      assert.match(
        (await watching.stop()).stderr,
        /2 accesses: 1 reported, 1 not because of their program, 0 folded, 0 lost/,
      );
    }
  });

  deepTest('--access reports only what it names', async () => {
    using files = new Files();
    await using watching = await Watching.start('--access', 'write, append', files.file);
    run('sh', ['-c', 'cat "$0"; : > "$0"; : >> "$0"', files.file]);
    const alerts = await watching.untilAlerts(2);
    assert.deepEqual(
      alerts.map(({ metadata }) => metadata.mask),
      [34, 42],
    );
    assert.match((await watching.stop()).stderr, /: 2 accesses: 2 reported/);
  });

  deepTest('--rate folds, says so and adds up', async () => {
    using files = new Files();
    await using watching = await Watching.start('--rate', '5', files.file);
    run('perl', ['-e', 'for (1 .. 1000) { open(my $f, "<", $ARGV[0]) or die; close $f }', files.file]);
    await watching.untilSaid(/folded \d+ more accesses of .*\/file by pid \d+ \(over 5 per second\)/);
    const { stdout, stderr } = await watching.stop();
    const [, produced, reported, folded, lost] =
      /(\d+) accesses: (\d+) reported, (\d+) folded, (\d+) lost/.exec(stderr) ?? [];
    assert.equal(Number(produced), 1000);
    assert.equal(Number(reported) + Number(folded) + Number(lost), 1000);
    assert.equal(stdout.split('\n').length - 1, Number(reported));
  });

  test('--metrics serves the counts', async () => {
    using files = new Files();
    await using watching = await Watching.start('--metrics', '127.0.0.1:0', files.file);
    run('cat', [files.file]);
    await watching.untilAlerts(1);
    const url = /metrics on (\S+)/.exec(watching.stderr)?.[1];
    assert.ok(url);
    const text = await (await fetch(url, { signal: patience() })).text();
    const value = (name: string): string | undefined =>
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')[1];
    assert.equal(value('rampart_sensor_produced_total'), '1');
    assert.equal(value('rampart_sensor_received_total'), '1');
    assert.equal(value('rampart_sensor_folded_total'), '0');
    assert.equal(value('rampart_sensor_lost_total{reason="ring_full"}'), '0');
    assert.equal(value('rampart_sensor_targets'), '1');
    assert.equal(value('rampart_sensor_capacity'), '65536');
  });

  test('--root: absolute links stay inside, and a file of this machine is not mistaken for one in there', async () => {
    using root = new TemporaryDirectory();
    mkdirSync(root.at('etc'));
    mkdirSync(root.at('secret'));
    writeFileSync(root.at('secret/real'), '');
    symlinkSync('/secret/real', root.at('etc/shadow'));
    await using watching = await Watching.start('--root', root.path, '/etc/shadow', '/etc/passwd');
    assert.match(watching.stderr, /\/etc\/passwd does not exist \(\/etc\/passwd is missing\)/);
    run('cat', ['/etc/passwd', root.at('secret/real')]);
    const [alert] = await watching.untilAlerts(1);
    assert.equal(alert?.metadata.path, '/etc/shadow');
    assert.match((await watching.stop()).stderr, /: 1 access: 1 reported/);
  });
});
