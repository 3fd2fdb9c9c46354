// The plan in the real sensor: who accesses a file gets exactly the alerts that are planned for it.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import {
  chmodSync,
  copyFileSync,
  linkSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { after, suite, test } from 'node:test';

import { AT_FDCWD, openat2, openFlags } from '../../../lib/ebpf/libc.ts';
import { accessFilter, type FileIdentity } from '../../../lib/sensor/access.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';
import { sensorSkip, testMode } from '../../../lib/sensor/sensor.fixture.ts';
import { ContainerIndex } from '../../../lib/cri/container-index.ts';
import { accessorJson, type AccessorJson, accessorOf } from './accessor.ts';
import { context } from '../alert/alert.fixture.ts';
import type { AlertContext, KiveAlert } from '../alert/alert.ts';
import { planChanges, type PlannedAlert } from './loader-plan.ts';
import { LocalSensor } from './local-sensor.ts';

interface Reported {
  readonly alert: KiveAlert;
  readonly callback: string;
  readonly id: string;
}

const mountNamespace = (pid: number | 'self'): number =>
  Number(statSync(`/proc/${pid}/ns/mnt`, { bigint: true }).ino);

/** A local sensor whose alerts are collected. */
class TestedSensor implements Disposable {
  readonly local: LocalSensor;
  readonly accessors: ContainerIndex<AccessorJson>;
  readonly problems: unknown[] = [];
  isAtHome = true;
  #reported: Reported[] = [];

  constructor(capacity = 1000) {
    this.accessors = new ContainerIndex(mountNamespace('self'), accessorOf);
    this.local = new LocalSensor({
      mode: testMode(),
      capacity,
      ratePerSecond: 0,
      onAlert: (line, callback, id) =>
        this.#reported.push({ alert: JSON.parse(line) as KiveAlert, callback, id }),
      accessorOf: (access, owner) => accessorJson(this.accessors.find(access), owner),
      isAtHome: () => this.isAtHome,
      onProblem: (problem) => this.problems.push(problem),
    });
  }

  identify(path: string): FileIdentity {
    using fd = openat2(AT_FDCWD, path, { flags: openFlags.PATH });
    return this.local.identify(fd.number);
  }

  planned(name: string, path: string, more: Partial<AlertContext> = {}): PlannedAlert {
    const full = { ...context, policyName: name, ...more };
    return { name, identity: this.identify(path), context: full, callbackSecret: '' };
  }

  plan(...all: PlannedAlert[]): void {
    const before = this.local.plan();
    for (const { planned } of this.local.refused.values()) before.set(planned.name, planned);
    this.local.applyChanges(planChanges(before, new Map(all.map((planned) => [planned.name, planned]))));
  }

  /** The alerts since the last call. */
  take(): Reported[] {
    this.local.sensor.drain();
    return this.#reported.splice(0);
  }

  /** The names of the planned alerts that `cat` of a file gives. */
  cat(path: string): string[] {
    this.take();
    assert.equal(spawnSync('cat', [path]).status, 0);
    return this.take()
      .map(({ alert }) => alert['kive-policy-name'])
      .sort();
  }

  [Symbol.dispose](): void {
    this.local[Symbol.dispose]();
    assert.deepEqual(this.problems, []);
  }
}

suite('planned alerts', { skip: sensorSkip }, () => {
  let shared: TestedSensor | undefined;
  const sensor = (): TestedSensor => (shared ??= new TestedSensor());
  after(() => shared?.[Symbol.dispose]());

  test('two traps on one file: each its own alert, with its callback and its id', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    sensor().plan(
      sensor().planned('a', space.at('secret'), {
        callback: 'http://a/',
        customMetadata: { severity: 'low' },
      }),
      sensor().planned('b', space.at('secret'), { callback: 'http://b/' }),
    );
    assert.equal(sensor().local.stats().targets, 1);
    spawnSync('cat', [space.at('secret')]);
    const reported = sensor().take();
    assert.deepEqual(
      reported.map(({ alert, callback }) => [alert['kive-policy-name'], callback, alert.metadata.mask]),
      [
        ['a', 'http://a/', 36],
        ['b', 'http://b/', 36],
      ],
    );
    assert.equal(new Set(reported.map(({ id }) => id)).size, 2);
    assert.ok(reported.every(({ id }) => /^[\w-]{18,40}$/.test(id)));
    assert.deepEqual(reported[0]?.alert['custom-metadata'], { severity: 'low' });
  });

  test('only the operations that a trap names raise its alerts, also after an edit', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    const all = sensor().planned('all', space.at('secret'));
    const changes = {
      ...sensor().planned('changes', space.at('secret')),
      filter: accessFilter(['write', 'append']),
    };
    sensor().plan(changes);
    assert.deepEqual(sensor().cat(space.at('secret')), []);
    sensor().plan(changes, all);
    assert.deepEqual(sensor().cat(space.at('secret')), ['all']);
    sensor().plan({ ...changes, filter: accessFilter(['read']) });
    assert.deepEqual(sensor().cat(space.at('secret')), ['changes']);
    sensor().plan(changes);
    assert.deepEqual(sensor().cat(space.at('secret')), []);
    sensor().plan();
  });

  test('a process that a trap leaves out raises none of its alerts, and is counted; the same program elsewhere does', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    for (const name of ['reader', 'other']) copyFileSync('/bin/cat', space.at(name));
    for (const name of ['reader', 'other']) chmodSync(space.at(name), 0o755);
    const files = [sensor().identify(space.at('reader'))];
    const all = sensor().planned('all', space.at('secret'));
    const except = {
      ...sensor().planned('except', space.at('secret')),
      processes: { kind: 'except', files },
    } as const;
    const only = {
      ...sensor().planned('only', space.at('secret')),
      processes: { kind: 'only', files },
    } as const;
    const by = (name: string): string[] => {
      sensor().take();
      assert.equal(spawnSync(space.at(name), [space.at('secret')]).status, 0);
      return sensor()
        .take()
        .map(({ alert }) => alert['kive-policy-name'])
        .sort();
    };
    sensor().plan(all, except, only);
    const before = sensor().local.filtered;
    assert.deepEqual(by('reader'), ['all', 'only']);
    assert.deepEqual(by('other'), ['all', 'except']);
    assert.equal(sensor().local.filtered - before, 2);
    sensor().isAtHome = false;
    assert.deepEqual(by('reader'), ['all', 'except', 'only']);
    sensor().isAtHome = true;
    // An edit that changes nothing else.
    sensor().plan(all, { ...except, processes: { kind: 'except', files: [] } });
    assert.deepEqual(by('reader'), ['all', 'except']);
    sensor().plan();
  });

  test('a hard link that two containers share: the trap of each, by either name, until the last goes', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('one'), 'x');
    linkSync(space.at('one'), space.at('two'));
    const [one, two] = [sensor().planned('one', space.at('one')), sensor().planned('two', space.at('two'))];
    sensor().plan(one, two);
    assert.deepEqual(sensor().cat(space.at('one')), ['one', 'two']);
    assert.deepEqual(sensor().cat(space.at('two')), ['one', 'two']);
    sensor().plan(two);
    assert.deepEqual(sensor().cat(space.at('one')), ['two']);
    sensor().plan();
    assert.deepEqual(sensor().cat(space.at('one')), []);
    assert.equal(sensor().local.stats().targets, 0);
  });

  test('a file that is replaced is followed to the new one', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'old');
    sensor().plan(sensor().planned('a', space.at('secret')));
    linkSync(space.at('secret'), space.at('kept'));
    writeFileSync(space.at('new'), 'new');
    renameSync(space.at('new'), space.at('secret'));
    assert.deepEqual(sensor().cat(space.at('secret')), []);
    sensor().plan(sensor().planned('a', space.at('secret')));
    assert.deepEqual(sensor().cat(space.at('secret')), ['a']);
    assert.deepEqual(sensor().cat(space.at('kept')), []);
  });

  test('a file moved away and back: each access is reported once, with the path at its time', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'old');
    writeFileSync(space.at('decoy'), 'new');
    const here = sensor().planned('a', space.at('secret'));
    const reported = { ...here.context, moved: true };
    const moved = { ...here, name: `a/${here.identity.inode}`, context: reported };
    const decoy = { ...sensor().planned('a', space.at('decoy')) };
    sensor().plan(here);
    sensor().take();
    const cat = (): void => void spawnSync('cat', [space.at('secret'), space.at('decoy')]);
    for (const plan of [[decoy, moved], [here], [{ ...here, context: reported }], [decoy, moved], []]) {
      cat();
      sensor().plan(...plan);
      assert.equal(sensor().local.size, plan.length === 0 ? 0 : 1);
      const ofMoved = plan.filter((one) => 'moved' in one.context);
      assert.equal(sensor().local.moved, ofMoved.length);
    }
    cat();
    assert.deepEqual(
      sensor()
        .take()
        .map(({ alert: { metadata } }) => [Number(here.identity.inode) === metadata.inode, metadata.moved]),
      [
        [true, undefined],
        [true, true],
        [false, undefined],
        [true, undefined],
        [true, true],
        [true, true],
        [false, undefined],
      ],
    );
    assert.equal(sensor().local.stats().targets, 0);
  });

  test('accesses before a change are reported by the plan of that time', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    const path = space.at('secret');
    sensor().plan(sensor().planned('a', path, { callback: 'http://before/' }));
    spawnSync('cat', [path]);
    sensor().plan(sensor().planned('a', path, { callback: 'http://after/' }));
    spawnSync('cat', [path]);
    sensor().plan(sensor().planned('b', path, { callback: 'http://other/' }));
    spawnSync('cat', [path]);
    sensor().plan();
    spawnSync('cat', [path]);
    assert.deepEqual(
      sensor()
        .take()
        .map(({ callback }) => callback),
      ['http://before/', 'http://after/', 'http://other/'],
    );
  });

  test('a plan that changes all the time while a file is accessed: no access untold, none twice', async () => {
    using space = new TemporaryDirectory();
    for (const name of ['secret', 'other', 'third']) writeFileSync(space.at(name), 'x');
    const path = space.at('secret');
    const planned = (name: string, callback: string): PlannedAlert =>
      sensor().planned(name, path, { callback });
    const [other, third] = [
      sensor().planned('other', space.at('other')),
      sensor().planned('third', space.at('third')),
    ];
    sensor().plan(planned('a', 'http://0/'));
    sensor().take();
    // Each open is one access of mask 36. A byte of its input allows 20 of them, so that it is never further ahead
    // of what was reported than the ring has room for, however slowly this process runs.
    const OPENS_PER_BYTE = 20;
    const script = `
      const fs = require('node:fs');
      let opened = 0;
      for (const byte = Buffer.alloc(1); fs.readSync(0, byte) > 0;)
        for (let i = 0; i < ${OPENS_PER_BYTE}; i++, opened++) fs.closeSync(fs.openSync(process.argv[1]));
      process.stdout.write(String(opened));`;
    const child = spawn(process.execPath, ['-e', script, path], { stdio: ['pipe', 'pipe', 'inherit'] });
    let output = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => (output += text));
    const ended = new Promise((resolve) => child.once('close', resolve));
    const callbacksOf = (alerts: readonly Reported[]) => new Set(alerts.map(({ callback }) => callback)).size;
    let plans = 0;
    let allowed = 0;
    const endMs = Date.now() + 60_000;
    const reported: Reported[] = [];
    while (child.exitCode === null) {
      for (; !child.stdin.writableEnded && allowed < reported.length + 1000; allowed += OPENS_PER_BYTE)
        child.stdin.write('.');
      plans += 1;
      // The same object with other contents, another one in its place, and others that come, move and go.
      const here = planned(plans % 3 === 0 ? 'a' : 'b', `http://${plans}/`);
      const elsewhere = { ...other, identity: plans % 2 === 0 ? other.identity : third.identity };
      sensor().plan(...[here, ...(plans % 5 === 0 ? [] : [elsewhere])]);
      reported.push(...sensor().take());
      assert.equal(sensor().local.size, sensor().local.plan().size);
      // By what was seen, not by time: on a busy machine few plans meet an access. Accesses that are never reported end it, too.
      const isEnough = plans > 20 && reported.length > 1000 && callbacksOf(reported) > 10;
      if (isEnough || Date.now() > endMs) child.stdin.end();
      await new Promise((resolve) => setImmediate(resolve));
    }
    await ended;
    reported.push(...sensor().take());
    const opened = Number(output);
    const stats = sensor().local.stats();
    const lost = stats.lost.ringFull + stats.lost.consumer + stats.lost.noReturn;
    assert.ok(plans > 20 && opened > 1000, `${plans} plans, ${opened} accesses`);
    assert.equal(lost, 0);
    assert.equal(reported.length, opened);
    assert.ok(callbacksOf(reported) > 10);
  });

  test('who accessed: the owner, another container, the node, also in a mount namespace of its own', () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    sensor().plan(sensor().planned('a', space.at('secret')));
    const { pod } = context;
    const relation = (...command: string[]) => {
      sensor().take();
      assert.equal(spawnSync(command[0] ?? '', command.slice(1)).status, 0);
      return sensor().take()[0]?.alert.accessor;
    };
    const nobody = { pod: { name: '', namespace: '' }, container: { id: '', name: '' } };
    assert.deepEqual(relation('cat', space.at('secret')), { relation: 'host', ...nobody });
    const isolated = relation('unshare', '--mount', 'cat', space.at('secret'));
    assert.deepEqual([isolated?.relation, isolated?.mounts], ['host', 'own']);
    const own = { mountNamespace: mountNamespace('self') };
    const owner = { id: pod.container.id, name: 'nginx', podName: pod.name, podNamespace: pod.namespace };
    sensor().accessors.set(owner, own);
    assert.deepEqual(relation('cat', space.at('secret')), {
      relation: 'owner',
      pod: { name: pod.name, namespace: pod.namespace },
      container: { id: pod.container.id, name: 'nginx' },
    });
    sensor().accessors.set({ id: 'containerd://x', name: 'side', podName: 'p', podNamespace: 'n' }, own);
    sensor().accessors.delete(owner.id);
    assert.deepEqual(relation('cat', space.at('secret')), {
      relation: 'container',
      pod: { name: 'p', namespace: 'n' },
      container: { id: 'containerd://x', name: 'side' },
    });
    sensor().accessors.delete('containerd://x');
    assert.equal(relation('cat', space.at('secret'))?.relation, 'host');
  });

  test("the agent's own accesses are not reported", () => {
    using space = new TemporaryDirectory();
    writeFileSync(space.at('secret'), 'x');
    sensor().plan(sensor().planned('a', space.at('secret')));
    sensor().take();
    readFileSync(space.at('secret'));
    assert.deepEqual(sensor().take(), []);
  });
});

test('refuses files beyond the capacity, and watches them once there is room', { skip: sensorSkip }, () => {
  using tested = new TestedSensor(2);
  using space = new TemporaryDirectory();
  const all = ['a', 'b', 'c'].map((name) => {
    writeFileSync(space.at(name), name);
    return tested.planned(name, space.at(name));
  });
  tested.plan(...all);
  assert.deepEqual([...tested.local.refused.keys()], ['c']);
  assert.match(tested.local.refused.get('c')?.error.message ?? '', /limit of 2/);
  assert.deepEqual(tested.cat(space.at('c')), []);
  const [a, b, c] = all;
  assert.ok(a && b && c);
  // The one that goes makes room within the same change.
  tested.plan(b, c);
  assert.equal(tested.local.refused.size, 0);
  assert.deepEqual(
    [tested.cat(space.at('a')), tested.cat(space.at('b')), tested.cat(space.at('c'))],
    [[], ['b'], ['c']],
  );
  tested.plan(a, b, c);
  assert.deepEqual([...tested.local.refused.keys()], ['a']);
  // A move of what is in place and the end of what is not.
  tested.plan({ ...b, identity: a.identity }, c);
  assert.equal(tested.local.refused.size, 0);
  assert.deepEqual([tested.cat(space.at('a')), tested.cat(space.at('b'))], [['b'], []]);
});

test('two generations of one inode number: the one that stays is watched', { skip: sensorSkip }, () => {
  using tested = new TestedSensor();
  using space = new TemporaryDirectory();
  writeFileSync(space.at('secret'), 'x');
  const right = tested.planned('right', space.at('secret'));
  const stale = {
    ...right,
    name: 'stale',
    identity: { ...right.identity, generation: right.identity.generation ^ 1 },
  };
  tested.plan(right, stale);
  tested.plan(right);
  assert.deepEqual(tested.cat(space.at('secret')), ['right']);
});
