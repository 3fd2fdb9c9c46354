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
import { after, before, suite, test } from 'node:test';

import type { KiveTrap } from '../api.ts';
import { ourAnnotations } from '../kive-data.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { alertOf, TestCluster, type TestNode } from './node.fixture.ts';

function programAt(path: string): void {
  copyFileSync('/bin/cat', path);
  chmodSync(path, 0o755);
}

const trap = { path: '/token', matchAny: [{ host: true }] };

/** A node whose root is a directory with a secret. */
class Scene implements AsyncDisposable {
  readonly #stack = new AsyncDisposableStack();
  readonly host: TemporaryDirectory;
  cluster!: TestCluster;
  node!: TestNode;
  /** The agent's facts in its lease. */
  facts: () => { readonly filtered?: number } = () => ({});

  private constructor() {
    this.host = this.#stack.use(new TemporaryDirectory());
    writeFileSync(this.token, 'secret');
  }

  static async start(): Promise<Scene> {
    await using unfinished = new AsyncDisposableStack();
    const scene = unfinished.use(new Scene());
    scene.cluster = scene.#stack.use(await TestCluster.start());
    scene.node = await scene.cluster.startNode('n1', {
      hostRoot: scene.host.at(''),
      reportFacts: (given) => {
        scene.facts = () => (typeof given === 'function' ? given() : given);
      },
    });
    await scene.cluster.createPolicy('filtered', trap);
    // Whoever reads raises this one: it shows that the others would have come.
    await scene.cluster.createPolicy('all', trap);
    await scene.cluster.dataCount(2);
    await alertOf(scene.node, scene.token, (alert) => alert['kive-policy-name'] === 'all');
    unfinished.move();
    return scene;
  }

  get token(): string {
    return this.host.at('token');
  }

  /** A directory of the node with the programs `vault` and `other`. */
  programsIn(directory: string): void {
    mkdirSync(this.host.at(directory));
    for (const name of ['vault', 'other']) programAt(this.host.at(directory, name));
  }

  async filter(processes: NonNullable<KiveTrap['processes']>): Promise<void> {
    await this.cluster.setTraps('filtered', { ...trap, processes });
  }

  /** The policies whose alerts a command raises that reads the secret once. */
  async alertsOf(command: string, ...args: readonly string[]): Promise<string> {
    this.node.lines.length = 0;
    execFileSync(command, args, { stdio: 'ignore' });
    const names = () => this.node.alerts.map((alert) => alert['kive-policy-name']);
    await until('the alert of all', () => names().includes('all'));
    return names().sort().join();
  }

  by(program: string): Promise<string> {
    return this.alertsOf(this.host.at(program), this.token);
  }

  async untilBy(program: string, expected: string): Promise<void> {
    await until(`${program}: ${expected}`, async () => (await this.by(program)) === expected);
  }

  /** By a shell whose mounts are its own. */
  inOwnMounts(...script: readonly string[]): Promise<string> {
    return this.alertsOf('unshare', '-m', 'sh', '-ec', script.join('; '));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

suite('processes of a trap', { skip: sensorSkip }, () => {
  let scene: Scene;
  before(async () => void (scene = await Scene.start()));
  after(async () => await scene?.[Symbol.asyncDispose]());

  test('except leaves out the program at the path, counted, and none that only is called so', async () => {
    const { host, token } = scene;
    scene.programsIn('bin');
    const [vault, other, jail] = [host.at('bin/vault'), host.at('bin/other'), host.at('jail')];
    await scene.filter({ except: ['/bin/vault'] });
    await scene.untilBy('bin/vault', 'all');
    const { filtered = 0 } = scene.facts();
    assert.ok(filtered > 0);
    assert.equal(await scene.inOwnMounts(`exec ${vault} ${token}`), 'all');
    assert.equal(scene.facts().filtered, filtered + 1);

    assert.equal(await scene.by('bin/other'), 'all,filtered');
    // Its own mounts or its own root make no other program the one that is left out.
    const cover = `mount --bind ${other} ${vault}`;
    assert.equal(await scene.inOwnMounts(cover, `exec ${vault} ${token}`), 'all,filtered');
    const enter = [`mkdir ${jail}`, `mount --bind / ${jail}`, `mount --bind ${other} ${jail}/bin/cat`];
    assert.equal(await scene.inOwnMounts(...enter, `exec chroot ${jail} /bin/cat ${token}`), 'all,filtered');
    // The program that was started counts, not the one that calls itself so.
    assert.equal(await scene.alertsOf('bash', '-c', `exec -a ${vault} ${other} ${token}`), 'all,filtered');
    writeFileSync(host.at('bin/script'), `#!${other}\n`, { mode: 0o755 });
    assert.equal(await scene.by('bin/script'), 'all,filtered');
    assert.equal(scene.facts().filtered, filtered + 1);
  });

  test('except follows the program: by links, replaced, missing', async () => {
    const { host } = scene;
    scene.programsIn('changing');
    await scene.filter({ except: ['/changing/vault', '/changing/link'] });
    await scene.untilBy('changing/vault', 'all');
    assert.equal(await scene.by('changing/other'), 'all,filtered');
    symlinkSync('other', host.at('changing/link'));
    await scene.untilBy('changing/other', 'all');
    renameSync(host.at('changing/link'), host.at('changing/unused'));
    await scene.untilBy('changing/other', 'all,filtered');

    linkSync(host.at('changing/vault'), host.at('changing/earlier'));
    programAt(host.at('changing/new'));
    renameSync(host.at('changing/new'), host.at('changing/vault'));
    await scene.untilBy('changing/vault', 'all');
    // As a process that was started before.
    assert.equal(await scene.by('changing/earlier'), 'all,filtered');
    await until('the annotation', async () =>
      (await scene.cluster.data()).some(({ metadata: { annotations } }) =>
        /^except \d+:\d+:\d+$/.test(annotations?.[ourAnnotations.processes] ?? ''),
      ),
    );
    renameSync(host.at('changing/vault'), host.at('changing/gone'));
    await scene.untilBy('changing/gone', 'all,filtered');
  });

  test('with only, the named processes raise alerts, and all processes if it is not known which those are', async () => {
    scene.programsIn('only');
    await scene.filter({ only: ['/only/other', '/only/not-there'] });
    await scene.untilBy('only/vault', 'all');
    assert.equal(await scene.by('only/other'), 'all,filtered');
    // A directory is no program.
    await scene.filter({ only: ['/only/other', '/only'] });
    await scene.untilBy('only/vault', 'all,filtered');
  });
});
