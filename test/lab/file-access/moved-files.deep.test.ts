// A rename is no way to read a file unseen: what a trap has led to stays watched under every name, for as long as it exists.
// Read with a command that the traps' paths do not go through; the marker says what raised nothing.
import assert from 'node:assert/strict';
import { linkSync, readFileSync, renameSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import type { KiveData } from '../../../guards/file-access/api.ts';
import { ourAnnotations } from '../../../guards/file-access/kive-data.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';

const POLICY = 'moved';
const movedOf = ({ metadata }: KiveData): string[] =>
  metadata.annotations?.[ourAnnotations.movedFiles]?.split(',') ?? [];

suite('files that leave the path of their trap', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab;
  let container: LabContainer;
  let other: LabContainer;
  let volume: string;
  before(async () => {
    guarded = await GuardedLab.start();
    volume = guarded.hostDirectory('volume');
    const mounts = [{ containerPath: '/volume', hostPath: volume }];
    const command = ['sleep', '1000000'];
    ({ container } = await guarded.run({ name: 'moved', containers: [{ name: 'c', command, mounts }] }));
    ({ container: other } = await guarded.run({
      name: 'other',
      containers: [{ name: 'c', command, mounts }],
    }));
  });
  after(async () => guarded?.[Symbol.asyncDispose]());

  const sh = (script: string): Promise<string> => guarded.sh(container, script);
  const inodeOf = (path: string, of = container): number => statSync(guarded.pathIn(of, path)).ino;
  const watch = (path: string, more = {}): Promise<unknown> =>
    guarded.setPolicy(POLICY, [{ path, ...more, matchAny: [{ pod: 'moved' }] }]);

  /** Waits until the only KiveData has this file, 0 for none, and `moved` moved ones. */
  const reports = (inode: number, moved: number): Promise<KiveData> =>
    until(`one KiveData of ${inode}, ${moved} moved`, async () => {
      const [one, ...others] = await guarded.data(POLICY);
      if (one === undefined || others.length > 0) return false;
      return one.spec.inodeNo === inode && movedOf(one).length === moved && one;
    });

  /** The paths in a script's alerts, with a `*` for moved files. */
  const reported = async (script: string, of = container): Promise<string[]> =>
    (await guarded.alertsOf(() => guarded.sh(of, script))).map(
      ({ metadata: { path, moved } }) => `${path}${moved === true ? '*' : ''}`,
    );

  const problems = async (): Promise<string[]> =>
    ((await guarded.partOf(POLICY))?.problems ?? []).map(({ message }) => message);

  test('renamed, read by its new name, and renamed back: of the image, of the container, of a tmpfs', async () => {
    await sh('echo > /root/f; echo > /dev/shm/f');
    for (const path of ['/etc/shadow', '/root/f', '/dev/shm/f']) {
      const inode = inodeOf(path);
      await watch(path);
      await reports(inode, 0);
      assert.deepEqual(await reported(`/bin/cat ${path}`), [path]);
      const to = `${path}.x`;
      await sh(`mv ${path} ${to}`);
      await reports(inode, 1);
      assert.deepEqual(await reported(`/bin/cat ${to}`), [`${path}*`]);
      const said = `${path} does not exist; the previous file was moved and is still watched`;
      await until('the status to say so', async () => (await problems()).includes(said));
      await sh(`mv ${to} ${path}`);
      await reports(inode, 0);
      assert.deepEqual(await reported(`/bin/cat ${path}`), [path]);
    }
  });

  test('a decoy in its place; deleted, it is forgotten', async () => {
    const inode = inodeOf('/etc/shadow');
    await watch('/etc/shadow');
    await reports(inode, 0);
    await sh('mv /etc/shadow /x; echo decoy > /etc/shadow');
    await reports(inodeOf('/etc/shadow'), 1);
    assert.deepEqual(await reported('/bin/cat /x /etc/shadow'), ['/etc/shadow*', '/etc/shadow']);
    await sh('mkdir /dir; mv /x /dir/y');
    assert.deepEqual(await reported('/bin/cat /dir/y'), ['/etc/shadow*']);
    // Another directory than the one it came from, and back over the decoy.
    await sh('mv /dir/y /etc/shadow');
    await reports(inode, 0);
    assert.deepEqual(await reported('/bin/cat /etc/shadow'), ['/etc/shadow']);
    await sh('mv /etc/shadow /x');
    await reports(inode, 1);
    await sh('rm /x');
    await guarded.dataCount(POLICY, 0);
    await sh('echo new > /etc/shadow');
    await reports(inodeOf('/etc/shadow'), 0);
  });

  test('replaced while it has another name; a directory in its place; a copy is another file', async () => {
    await sh('echo 1 > /root/f; ln -f /root/f /root/kept; echo 2 > /root/new');
    const first = inodeOf('/root/f');
    await watch('/root/f');
    await reports(first, 0);
    await sh('mv /root/new /root/f');
    await reports(inodeOf('/root/f'), 1);
    assert.deepEqual(await reported('/bin/cat /root/kept /root/f'), ['/root/f*', '/root/f']);
    await sh('rm /root/f; mkdir /root/f');
    await reports(first, 1);
    assert.deepEqual(await reported('/bin/cat /root/kept'), ['/root/f*']);
    await sh('rmdir /root/f; mv /root/kept /volume/kept');
    // To another file system is a copy.
    await guarded.dataCount(POLICY, 0);
    assert.deepEqual(await reported('/bin/cat /volume/kept'), []);
  });

  test('saved a hundred times: nothing is left; kept a hundred times: the first and the last ones', async () => {
    await sh('rm -f /root/f; echo > /root/f');
    await watch('/root/f');
    const first = inodeOf('/root/f');
    await reports(first, 0);
    const times = (script: string): Promise<string> =>
      sh(`i=0; while [ $i -lt 100 ]; do echo $i > /root/n; ${script} mv /root/n /root/f; i=$((i+1)); done`);
    await times('');
    await reports(inodeOf('/root/f'), 0);
    assert.equal(await guarded.metric('file_access_targets'), 2);
    await sh('ln /root/f /root/first');
    await times('ln /root/f /root/kept$i;');
    await reports(inodeOf('/root/f'), 4);
    assert.equal(await guarded.metric('file_access_targets'), 6);
    assert.equal(await guarded.metric('file_access_moved'), 4);
    // A busy agent may have seen no more of them than it keeps; then one more that it does see is one too many.
    for (let more = 0; (await guarded.metric('file_access_moved_dropped_total')) === 0; more++) {
      assert.ok(more < 5, 'none is dropped');
      await sh(`echo > /root/n; ln /root/f /root/kept-${more}; mv /root/n /root/f`);
      await reports(inodeOf('/root/f'), 4);
    }
    // Some of the others existed for too short a time to be seen.
    assert.deepEqual(await reported('/bin/cat /root/first'), ['/root/f*']);
    await sh('rm /root/kept* /root/first');
    await reports(inodeOf('/root/f'), 0);
    assert.equal(await guarded.metric('file_access_targets'), 2);
  });

  test('moved as fast as the container can, a decoy in its place: every read is reported once', async () => {
    await sh('echo > /root/f');
    await watch('/root/f');
    const inode = inodeOf('/root/f');
    await reports(inode, 0);
    const times = scaled(200, 40);
    const turn =
      'mv /root/f /root/x; echo > /root/f; /bin/head -n $i /root/x; mv /root/x /root/f; /bin/tail -n $i /root/f';
    const alerts = await guarded.alertsOf(() =>
      sh(`i=0; while [ $i -lt ${times} ]; do ${turn}; i=$((i+1)); done`),
    );
    const reads = alerts
      .filter(({ metadata, process: { binary } }) => metadata.inode === inode && binary === '/bin/busybox')
      .map(({ process }) => `${process.comm} ${process.arguments}`)
      .filter((line) => /^(head|tail) /.test(line));
    const expected = Array.from({ length: times }, (_, at) => [
      `head -n ${at} /root/x`,
      `tail -n ${at} /root/f`,
    ]);
    assert.deepEqual(reads, expected.flat());
    await reports(inode, 0);
  });

  test('two traps; edited it stays, of another path or deleted it goes', async () => {
    await sh('echo > /root/f');
    const inode = inodeOf('/root/f');
    const trap = { path: '/root/f', matchAny: [{ pod: 'moved' }] };
    await guarded.setPolicy('second', [trap]);
    await watch('/root/f');
    await reports(inode, 0);
    await guarded.dataCount('second', 1);
    await sh('mv /root/f /root/moved');
    await reports(inode, 1);
    const both = await guarded.alertsOf(() => sh('/bin/cat /root/moved'));
    assert.deepEqual(both.map((alert) => alert['kive-policy-name']).sort(), [POLICY, 'second']);
    await guarded.deletePolicy('second');
    await watch('/root/f', { metadata: { severity: 'high' } });
    await until(
      'the edited trap',
      async () => (await reports(inode, 1)).spec.metadata?.['severity'] === 'high',
    );
    assert.deepEqual(await reported('/bin/cat /root/moved'), ['/root/f*']);
    // A trap that comes later has never led there.
    await guarded.setPolicy('second', [trap]);
    assert.deepEqual(await reported('/bin/cat /root/moved'), ['/root/f*']);
    await guarded.deletePolicy('second');
    await watch('/root/elsewhere');
    await guarded.dataCount(POLICY, 0);
    assert.deepEqual(await reported('/bin/cat /root/moved'), []);
  });

  test('a volume of two pods, changed by the host', async () => {
    writeFileSync(join(volume, 'f'), 'shared');
    const inode = inodeOf('/volume/f');
    await guarded.setPolicy(POLICY, [{ path: '/volume/f', matchAny: [{ pod: 'moved' }, { pod: 'other' }] }]);
    await guarded.dataCount(POLICY, 2);
    linkSync(join(volume, 'f'), join(volume, 'link'));
    writeFileSync(join(volume, 'next'), 'next');
    renameSync(join(volume, 'next'), join(volume, 'f'));
    await until('both to tell it', async () => {
      const data = await guarded.data(POLICY);
      return data.length === 2 && data.every((one) => movedOf(one)[0]?.startsWith(`${inode}:`));
    });
    const alerts = await guarded.alertsOf(() => readFileSync(join(volume, 'link')));
    assert.deepEqual(
      alerts.map(({ pod, metadata }) => `${pod.name} ${metadata.path} ${metadata.moved}`).sort(),
      ['moved /volume/f true', 'other /volume/f true'],
    );
    rmSync(join(volume, 'f'));
    rmSync(join(volume, 'link'));
    await guarded.dataCount(POLICY, 0);
  });

  test('the container ends: what it had is let go, in a volume too', async () => {
    writeFileSync(join(volume, 'f'), 'shared');
    await guarded.setPolicy(POLICY, [{ path: '/volume/f', matchAny: [{ pod: 'other' }] }]);
    await guarded.dataCount(POLICY, 1);
    await guarded.sh(other, 'mv /volume/f /volume/moved');
    await reports(statSync(join(volume, 'moved')).ino, 1);
    assert.deepEqual(await reported('/bin/cat /volume/moved', other), ['/volume/f*']);
    await guarded.lab.stopContainer(other);
    await guarded.dataCount(POLICY, 0);
    assert.deepEqual(await guarded.alertsOf(() => readFileSync(join(volume, 'moved'))), []);
  });
});
