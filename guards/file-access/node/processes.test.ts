// Traps that leave processes out, by programs of the node: real processes, the real sensor, the embedded API.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  mkdirSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';

import type { KiveTrap } from '../api.ts';
import { ourAnnotations } from '../kive-data.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { alertOf, readByCat, TestCluster, type TestNode } from './node.fixture.ts';

function programAt(path: string): void {
  copyFileSync('/bin/cat', path);
  chmodSync(path, 0o755);
}

/** A node whose root is a directory with a secret, and the programs `vault` and `other` in /bin. */
class Scene implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly host: TemporaryDirectory;
  cluster!: TestCluster;
  node!: TestNode;

  private constructor() {
    this.host = this.#stack.use(new TemporaryDirectory());
    mkdirSync(this.host.at('bin'));
    for (const name of ['vault', 'other']) programAt(this.host.at('bin', name));
    writeFileSync(this.host.at('token'), 'secret');
  }

  static async start(processes: NonNullable<KiveTrap['processes']>): Promise<Scene> {
    await using unfinished = new AsyncDisposableStack();
    const scene = unfinished.use(new Scene());
    scene.cluster = scene.#stack.use(await TestCluster.start());
    scene.node = await scene.cluster.startNode('n1', { hostRoot: scene.host.at('') });
    const trap = { path: '/token', matchAny: [{ host: true }] };
    await scene.cluster.createPolicy('filtered', { ...trap, processes });
    // Whoever reads raises this one: it shows that the others would have come.
    await scene.cluster.createPolicy('all', trap);
    await scene.cluster.dataCount(2);
    await alertOf(scene.node, scene.host.at('token'), (alert) => alert['kive-policy-name'] === 'all');
    unfinished.move();
    return scene;
  }

  /** The policies whose alerts a command raises that reads the secret once. */
  async alertsOf(command: string, ...args: readonly string[]): Promise<string[]> {
    this.node.lines.length = 0;
    execFileSync(command, args, { stdio: 'ignore' });
    await until('the alert of all', () =>
      this.node.alerts.some((alert) => alert['kive-policy-name'] === 'all'),
    );
    return this.node.alerts.map((alert) => alert['kive-policy-name']).sort();
  }

  by(name: string): Promise<string[]> {
    return this.alertsOf(this.host.at('bin', name), this.host.at('token'));
  }

  async untilBy(name: string, ...expected: readonly string[]): Promise<void> {
    await until(`${name}: ${expected.join()}`, async () => (await this.by(name)).join() === expected.join());
  }

  /** By a shell whose mounts are its own. */
  inOwnMounts(script: string): Promise<string[]> {
    return this.alertsOf('unshare', '-m', 'sh', '-ec', script);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

suite('processes: except', { skip: sensorSkip }, () => {
  test('leaves out the program at the path, and none that only is called so', async () => {
    await using scene = await Scene.start({ except: ['/bin/vault'] });
    const [vault, other, token] = [
      scene.host.at('bin/vault'),
      scene.host.at('bin/other'),
      scene.host.at('token'),
    ];
    assert.deepEqual(await scene.by('vault'), ['all']);
    assert.deepEqual(await scene.by('other'), ['all', 'filtered']);
    assert.deepEqual(await scene.inOwnMounts(`exec ${vault} ${token}`), ['all']);
    // Its own mounts or its own root make no other program the one that is left out.
    const covered = `mount --bind ${other} ${vault}; exec ${vault} ${token}`;
    assert.deepEqual(await scene.inOwnMounts(covered), ['all', 'filtered']);
    const chrooted = [
      `mkdir -p ${scene.host.at('jail')}; mount --bind / ${scene.host.at('jail')}`,
      `mount --bind ${scene.host.at('bin/other')} ${scene.host.at('jail')}/bin/cat`,
      `exec chroot ${scene.host.at('jail')} /bin/cat ${token}`,
    ];
    assert.deepEqual(await scene.inOwnMounts(chrooted.join('; ')), ['all', 'filtered']);
    // The program that was started counts, not the one that calls itself so.
    const named = `exec -a ${vault} ${other} ${token}`;
    assert.deepEqual(await scene.alertsOf('bash', '-c', named), ['all', 'filtered']);
    const script = `#!${other}\n`;
    writeFileSync(scene.host.at('bin/script'), script, { mode: 0o755 });
    assert.deepEqual(await scene.alertsOf(scene.host.at('bin/script'), token), ['all', 'filtered']);
  });

  test('follows the program: by links, replaced, missing', async () => {
    await using scene = await Scene.start({ except: ['/bin/vault', '/bin/link'] });
    assert.deepEqual(await scene.by('other'), ['all', 'filtered']);
    symlinkSync('other', scene.host.at('bin/link'));
    await scene.untilBy('other', 'all');
    renameSync(scene.host.at('bin/link'), scene.host.at('bin/unused'));
    await scene.untilBy('other', 'all', 'filtered');

    linkSync(scene.host.at('bin/vault'), scene.host.at('bin/earlier'));
    programAt(scene.host.at('bin/new'));
    renameSync(scene.host.at('bin/new'), scene.host.at('bin/vault'));
    await scene.untilBy('vault', 'all');
    // What a running process of it would be.
    assert.deepEqual(await scene.by('earlier'), ['all', 'filtered']);
    const [data] = (await scene.cluster.data()).filter(
      ({ metadata }) => metadata.annotations?.['kive-policy-name'] === 'filtered',
    );
    assert.match(data?.metadata.annotations?.[ourAnnotations.processes] ?? '', /^except \d+:\d+:\d+$/);
    renameSync(scene.host.at('bin/vault'), scene.host.at('bin/gone'));
    await scene.untilBy('gone', 'all', 'filtered');
  });

  test('is counted, in a metric and in the lease of the agent', async () => {
    let facts: () => unknown = () => undefined;
    await using scene = await Scene.start({ except: ['/bin/vault'] });
    await scene.node.stop();
    scene.node = await scene.cluster.startNode('n1', {
      hostRoot: scene.host.at(''),
      containers: scene.node.containers,
      tellFacts: (given) => {
        facts = typeof given === 'function' ? given : () => given;
      },
    });
    await alertOf(scene.node, scene.host.at('token'), () => true);
    await scene.by('vault');
    assert.deepEqual((facts() as { filtered?: number }).filtered, 1);
  });
});

suite('processes: only', { skip: sensorSkip }, () => {
  test('these raise alerts, and what cannot be told', async () => {
    await using scene = await Scene.start({ only: ['/bin/other', '/bin/not-there'] });
    assert.deepEqual(await scene.by('other'), ['all', 'filtered']);
    assert.deepEqual(await scene.by('vault'), ['all']);
    await scene.cluster.setTraps('filtered', {
      ...{ path: '/token', matchAny: [{ host: true }] },
      processes: { only: ['/bin/other', '/bin'] },
    });
    // A directory is no program: it is not known who is meant.
    await scene.untilBy('vault', 'all', 'filtered');
    readByCat(scene.host.at('token'));
  });
});
