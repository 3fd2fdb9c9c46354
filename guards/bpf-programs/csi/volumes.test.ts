// Volumes as kubelet asks for them: calls of gRPC on the sockets of the driver, and processes in another mount namespace that read the maps.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readdirSync, symlinkSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { before, suite, test } from 'node:test';

import { Code, ConnectError } from '@connectrpc/connect';

import type { DesiredProgram } from '../kernel/desired.ts';
import { bytecode, cable, desired, obstacle, ownNetwork, send, xdp } from '../kernel/lab.fixture.ts';
import { CsiLab } from './lab.fixture.ts';

/** A program of a namespaced object, unless `namespace` is undefined. */
function program(id: string, rest: Partial<DesiredProgram> = {}): DesiredProgram {
  const namespace = 'namespace' in rest ? rest.namespace : 'shop';
  const owner = namespace === undefined ? `XdpProgram/${id}` : `XdpNsProgram/${namespace}/${id}`;
  return desired(id, xdp('in0'), { namespace, owner, ...rest });
}

/** The status and text of a call that fails. */
async function refused(call: Promise<unknown>): Promise<{ readonly code: Code; readonly message: string }> {
  const error = await call.then(
    () => assert.fail('it succeeded'),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof ConnectError, String(error));
  return { code: error.code, message: error.rawMessage };
}

suite('volumes with maps', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('kubelet finds, registers and asks the driver', async () => {
    await using csi = await CsiLab.start();
    assert.deepEqual(await csi.call('GetInfo', {}, csi.registration), {
      $typeName: 'rampart.messages.PluginInfo',
      type: 'CSIPlugin',
      name: 'csi.bpfman.io',
      endpoint: join(csi.directory, 'plugins/csi.bpfman.io/csi.sock'),
      supportedVersions: ['1.0.0'],
    });
    assert.equal(csi.driver.problem, undefined);
    const { name, vendorVersion } = await csi.call('GetPluginInfo', {});
    assert.deepEqual([name, vendorVersion], ['csi.bpfman.io', '0.0.0']);
    assert.equal((await csi.call('NodeGetInfo', {}))['nodeId'], 'n1');
    const { capabilities } = await csi.call('NodeGetCapabilities', {});
    assert.equal(
      JSON.stringify(capabilities).replaceAll(/"\$typeName":"[^"]*",?/g, ''),
      '[{"rpc":{"type":6}}]',
    );
    await csi.call('GetPluginCapabilities', {});
    await csi.call('Probe', {});
    await csi.call('NotifyRegistrationStatus', { error: 'no such version' }, csi.registration);
    assert.equal(csi.driver.problem, 'kubelet did not register the CSI driver: no such version');
  });

  test('a pod reads what the program counts, and after the pod nothing is left', async () => {
    await using csi = await CsiLab.start();
    // As in a cluster, where pods may be quicker than programs.
    const early = await refused(csi.publish({ program: 'count', maps: 'packets' }));
    assert.equal(early.code, Code.NotFound);
    assert.match(early.message, /^no program of an object count of namespace shop is loaded on this node\. /);
    const host = await csi.lab.host();
    await host.apply([program('count')]);
    const target = await csi.publish({ program: 'count', maps: 'packets' });
    assert.deepEqual(csi.listed(target), ['600 root packets']);
    assert.match(csi.mounts.join('\n'), / bpf rw,nosuid,nodev,noexec,/);
    send('out0', 7);
    assert.equal(csi.read(target, 'packets'), 7);
    // Not in the mount namespace of the agent.
    assert.deepEqual(readdirSync(target), []);
    assert.equal(csi.driver.mounted, 1);
    await csi.unpublish();
    assert.deepEqual(csi.mounts, []);
    assert.equal(existsSync(target), false);
    assert.equal(csi.driver.mounted, 0);
    // Kubelet may ask again, also when the directory is gone.
    await csi.unpublish();
    await csi.unpublish('csi-other');
  });

  test('the same request again changes nothing, also after a restart; another one is refused', async () => {
    await using csi = await CsiLab.start();
    const host = await csi.lab.host();
    await host.apply([program('count')]);
    const target = await csi.publish({ program: 'count', maps: 'packets' });
    const mounts = csi.mounts;
    await csi.publish({ program: 'count', maps: ' packets, packets' });
    await csi.restart();
    assert.equal(csi.driver.mounted, 1);
    await csi.publish({ program: 'count', maps: 'packets' });
    assert.deepEqual(csi.mounts, mounts);
    for (const other of [{ maps: 'other' }, { program: 'more' }, { readOnly: true }, { group: '7' }]) {
      const { code } = await refused(csi.publish({ program: 'count', maps: 'packets', ...other }));
      assert.equal(code, Code.AlreadyExists);
    }
    // The program is gone, the pod is not.
    await host.apply([]);
    csi.driver.refresh();
    assert.deepEqual(csi.listed(target), ['600 root packets']);
    await csi.restart();
    await csi.unpublish();
    assert.deepEqual(csi.mounts, []);
  });

  test('fsGroup: processes of the group read and write', async () => {
    await using csi = await CsiLab.start();
    await (await csi.lab.host()).apply([program('count')]);
    const target = await csi.publish({ program: 'count', maps: 'packets', group: '65534' });
    assert.deepEqual(csi.listed(target), ['660 nogroup packets']);
    assert.equal(csi.onNode('stat', ['-c', '%a %g', target]), '750 65534\n');
    send('out0', 3);
    assert.equal(csi.read(target, 'packets', 65534), 3);
    assert.throws(() => csi.read(target, 'packets', 65533));
    const { code } = await refused(csi.publish({ program: 'count', maps: 'packets', group: 'staff' }));
    assert.equal(code, Code.InvalidArgument);
  });

  test('read-only: also what is in the maps', async () => {
    await using csi = await CsiLab.start();
    await (await csi.lab.host()).apply([program('count')]);
    const target = await csi.publish({ program: 'count', maps: 'packets', readOnly: true });
    send('out0', 5);
    assert.equal(csi.read(target, 'packets'), 5);
    assert.throws(() => csi.write(target, 'packets', 1), /EROFS/);
    assert.equal(csi.onNode('rm', [join(target, 'packets')]), undefined);
    const writable = await csi.publish({ program: 'count', maps: 'packets', volumeId: 'csi-2' });
    csi.write(writable, 'packets', 1);
    assert.equal(csi.read(target, 'packets'), 1);
  });

  test('maps of another namespace are not to be had, and those of cluster-scoped programs only where it is allowed', async () => {
    await using csi = await CsiLab.start({ clusterNamespaces: ['monitoring'] });
    const cluster = program('all', { namespace: undefined });
    await (await csi.lab.host()).apply([program('count'), cluster]);
    const other = await refused(csi.publish({ program: 'count', maps: 'packets', namespace: 'bank' }));
    assert.equal(other.code, Code.NotFound);
    const denied = await refused(csi.publish({ program: 'all', maps: 'packets' }));
    // The message does not reveal whether the program exists.
    assert.deepEqual(denied, {
      code: Code.NotFound,
      message:
        'no program of an object all of namespace shop is loaded on this node. Maps of cluster-scoped programs are for pods of the namespaces in --bpf-csi-namespaces, and shop is not one of them',
    });
    const allowed = await csi.publish({ program: 'all', maps: 'packets', namespace: 'monitoring' });
    send('out0', 4);
    assert.equal(csi.read(allowed, 'packets'), 4);
    const missing = await refused(
      csi.publish({ program: 'all', maps: 'packets,lost', namespace: 'monitoring', volumeId: 'csi-2' }),
    );
    assert.equal(missing.code, Code.NotFound);
    assert.match(missing.message, /^XdpProgram\/all has no map lost on this node\. It has: .*packets/);
    assert.equal(csi.mounts.length, 1);
  });

  test('refuses requests that kubelet does not make, and does not mount through symbolic links', async () => {
    await using csi = await CsiLab.start();
    await (await csi.lab.host()).apply([program('count')]);
    const maps = 'packets';
    const ask = (rest: object) => csi.publish({ program: 'count', maps, ...rest });
    const outside = join(csi.lab.directory, 'outside');
    mkdirSync(outside);
    for (const rest of [
      { maps: '' },
      { maps: ' , ' },
      { maps: '../packets' },
      { maps: 'a.bss' },
      { program: '' },
      { namespace: '' },
      { volumeId: '', targetPath: csi.target('uid-1', 'csi-1') },
      { targetPath: outside },
      { targetPath: `${csi.directory}/pods/uid-1/volumes/kubernetes.io~csi/../mount` },
      { targetPath: `${csi.directory}/pods/../pods/uid-1/volumes/kubernetes.io~csi/csi-1/mount` },
      // The namespace was not written by kubelet.
      { targetPath: csi.target('uid-2', 'csi-1') },
    ])
      assert.equal((await refused(ask(rest))).code, Code.InvalidArgument, JSON.stringify(rest));
    const linked = csi.target('uid-1', 'linked');
    mkdirSync(dirname(dirname(linked)), { recursive: true });
    symlinkSync(outside, dirname(linked));
    assert.match((await refused(ask({ targetPath: linked }))).message, /ELOOP/);
    const toOutside = csi.target('uid-1', 'csi-3');
    mkdirSync(dirname(toOutside), { recursive: true });
    symlinkSync(outside, toOutside);
    assert.match((await refused(ask({ volumeId: 'csi-3' }))).message, /ELOOP|ENOTDIR/);
    assert.deepEqual(readdirSync(outside), []);
    assert.deepEqual(csi.mounts, []);
    assert.equal(csi.driver.mounted, 0);
    assert.equal(csi.onNode('grep', [' bpf ', '/proc/self/mounts'])?.includes(outside), false);
  });

  test('a new version with other maps: the volume has those, read-only as before', async () => {
    await using csi = await CsiLab.start();
    const host = await csi.lab.host();
    const version = (file: string): DesiredProgram =>
      program('count', {
        functionName: 'xdp_write',
        digest: `sha256:${file}`,
        bytecode: () => Promise.resolve(bytecode(file)),
      });
    await host.apply([version('maps')]);
    const maps = 'table,packets';
    const target = await csi.publish({ program: 'count', maps, group: '7', readOnly: true });
    const first = ['packets', 'table'].map((name) => csi.lab.mapInfo('count', name).id);
    assert.deepEqual(
      ['packets', 'table'].map((name) => csi.idOf(target, name)),
      first,
    );
    await host.apply([version('maps_changed')]);
    csi.driver.refresh();
    const after = ['packets', 'table'].map((name) => csi.lab.mapInfo('count', name).id);
    assert.notDeepEqual(after, first);
    assert.deepEqual(
      ['packets', 'table'].map((name) => csi.idOf(target, name)),
      after,
    );
    assert.deepEqual(
      csi.listed(target),
      ['660 #7 packets', '660 #7 table'].map((line) => line.replace('#7', csi.groupName(7))),
    );
    assert.throws(() => csi.write(target, 'packets', 1), /EROFS/);
    // A volume that kubelet has unmounted without the driver is forgotten.
    csi.onNode('umount', [target]);
    await host.apply([version('maps')]);
    csi.driver.refresh();
    assert.equal(csi.driver.mounted, 0);
  });

  test('an agent with --bpf-csi registers it, and gives volumes the maps of the programs that it runs', () => {
    const alone = '--pid --fork --kill-child --mount-proc --propagation private --net'.split(' ');
    const agent = [process.execPath, join(import.meta.dirname, 'wired-agent.fixture.ts')];
    const { status, stderr } = spawnSync('unshare', [...alone, ...agent], { encoding: 'utf8' });
    assert.equal(status, 0, stderr);
  });
});
