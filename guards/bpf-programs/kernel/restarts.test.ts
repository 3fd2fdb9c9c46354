import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { probeFeatures } from '../../../lib/ebpf/features/features.ts';
import { deepTest, Random, scaled, seed } from '../../../lib/testing/depth.fixture.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { changing, staying } from './churn.fixture.ts';
import { openProgramHost } from './host.ts';
import {
  cable,
  desired,
  ip,
  Lab,
  loaded,
  NAME,
  networkOf,
  obstacle,
  ownNetwork,
  send,
  tc,
  tcx,
  xdp,
} from './lab.fixture.ts';

/** Before 6.6 there is no TCX. */
const hasTcx = probeFeatures(['tcx']).attach.tcx.available;
const notAsked = () => Promise.reject(new Error('the bytecode was asked for'));

suite(`restarts (RAMPART_TEST_SEED=${seed})`, { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('a later process adopts what is there, with the same ids, and asks for no bytecode', async () => {
    await using lab = new Lab();
    const wanted = [
      desired('a', xdp('in0', 1)),
      desired('b', xdp('in0', 2)),
      desired('t', tc('in0', 'ingress')),
      ...(hasTcx ? [desired('x', tcx('in0', 'ingress', 5))] : []),
    ];
    const first = await (await lab.host()).apply(wanted);
    const composed = lab.composed();
    const host = await lab.restarted();
    assert.deepEqual(await host.verify(), []);
    const adopted = wanted.map((program) => ({ ...program, bytecode: notAsked }));
    const second = await host.apply(adopted);
    assert.deepEqual(second, first);
    assert.deepEqual(lab.composed(), composed);
    send('out0', 10);
    for (const { id } of wanted) assert.equal(lab.counted(id), 10);
    // A chain is composed again from what was kept.
    const third = await (await lab.restarted()).apply(adopted.slice(0, 3));
    assert.equal(loaded(third, 'a'), loaded(first, 'a'));
    assert.equal(third.get('x'), undefined);
    send('out0', 10);
    assert.equal(lab.counted('b'), 20);
  });

  test('links deleted while no agent ran are created again', async () => {
    await using lab = new Lab();
    const wanted = [desired('a', xdp('in0')), desired('t', tc('in0', 'ingress')), desired('p', xdp('out0'))];
    await (await lab.host()).apply(wanted);
    execFileSync('tc', ['qdisc', 'del', 'dev', 'in0', 'clsact']);
    const chains = join(lab.bpffs, NAME, 'chains');
    for (const key of readdirSync(chains)) rmSync(join(chains, key, 'link'), { force: true });
    rmSync(join(lab.programPins('p'), '1', 'program'));
    // The kernel detaches in a work queue when a pin was the last that held a link (bpf_link_put in kernel/bpf/syscall.c).
    for (const name of ['in0', 'out0'])
      await until(
        `${name} without a program`,
        () => !execFileSync('ip', ['link', 'show', name], { encoding: 'utf8' }).includes('xdp'),
      );
    const host = await lab.restarted();
    assert.equal((await host.verify()).length, 3);
    const outcomes = await host.apply(wanted);
    for (const { id } of wanted) loaded(outcomes, id);
    send('out0', 10);
    for (const id of ['a', 't']) assert.equal(lab.counted(id), 10);
    assert.deepEqual(await host.verify(), []);
  });

  test('without its records it loads anew, in one step', async () => {
    await using lab = new Lab();
    const wanted = [desired('a', xdp('in0'))];
    await (await lab.host()).apply(wanted);
    rmSync(lab.state, { recursive: true });
    const host = await lab.restarted();
    assert.deepEqual(await host.list(), []);
    loaded(await host.apply(wanted), 'a');
    send('out0', 10);
    assert.equal(lab.counted('a'), 10);
    assert.equal(readdirSync(lab.programPins('a')).length, 1);
  });

  test('nothing of others is touched', async () => {
    await using lab = new Lab();
    mkdirSync(join(lab.bpffs, 'other'));
    const object = join(import.meta.dirname, 'fixtures/count.bpf.o');
    execFileSync('tc', ['qdisc', 'add', 'dev', 'in0', 'clsact']);
    execFileSync('tc', [
      'filter',
      'add',
      'dev',
      'in0',
      'ingress',
      'prio',
      '60',
      'bpf',
      'da',
      'obj',
      object,
      'sec',
      'classifier/stats',
    ]);
    const filters = () =>
      execFileSync('tc', ['filter', 'show', 'dev', 'in0', 'ingress'], { encoding: 'utf8' });
    const theirs = filters();
    try {
      const host = await lab.host();
      await host.apply([desired('t', tc('in0', 'ingress'))]);
      assert.ok(filters().length > theirs.length);
      const lines = await host.remove();
      assert.deepEqual(lines.length, 2);
      assert.equal(filters(), theirs);
      assert.ok(existsSync(join(lab.bpffs, 'other')));
    } finally {
      execFileSync('tc', ['qdisc', 'del', 'dev', 'in0', 'clsact']);
    }
  });

  test('nothing starts without a bpffs', async () => {
    await using lab = new Lab();
    await assert.rejects(
      openProgramHost({
        bpffs: lab.directory,
        name: NAME,
        stateDirectory: lab.state,
        hostRoot: '/',
        logger: createLogger({ level: 'silent' }),
      }),
      /cannot keep eBPF programs in .*: it is not a bpffs\. Mount it on the host/,
    );
    await assert.rejects(
      openProgramHost({
        bpffs: lab.bpffs,
        name: 'a.b',
        stateDirectory: lab.state,
        hostRoot: '/',
        logger: createLogger({ level: 'silent' }),
      }),
      /cannot name a directory of bpffs/,
    );
  });

  test('in a bpffs that only this container sees nothing is begun', async (t) => {
    await using lab = new Lab();
    const program = `import { openProgramHost } from ${JSON.stringify(join(import.meta.dirname, 'host.ts'))};
      await openProgramHost({ bpffs: ${JSON.stringify(lab.bpffs)}, name: 'x', stateDirectory: ${JSON.stringify(lab.state)}, logger: console })
        .then(() => console.log('opened'), ({ message }) => console.log(message));`;
    const inside = (...wrapper: readonly string[]) => {
      const [command, ...rest] = [...wrapper, process.execPath, '--input-type=module', '-e', program];
      return execFileSync(String(command), rest, { encoding: 'utf8' });
    };
    if (!existsSync('/proc/1/root')) t.skip('process 1 cannot be looked at');
    else {
      assert.match(inside(), /^opened$/m);
      const own = `mount --make-rprivate / && umount ${lab.bpffs} && mount -t bpf bpf ${lab.bpffs} && exec "$@"`;
      assert.match(inside('unshare', '-m', 'sh', '-c', own, 'sh'), /private to this container/);
    }
  });

  deepTest('killed at random moments it converges, and those that stay see every packet', async () => {
    await using lab = new Lab();
    const random = new Random(seed);
    const ids = await (await lab.host()).apply(staying());
    let sent = 0;
    for (let round = scaled(60, 5); round > 0; round--) {
      const child = spawn(
        process.execPath,
        [join(import.meta.dirname, 'churn.fixture.ts'), lab.directory, String(random.below(1e9))],
        { stdio: ['ignore', 'pipe', 'inherit'] },
      );
      await once(child.stdout, 'data');
      const end = performance.now() + random.below(150);
      while (performance.now() < end) {
        send('out0', 50);
        sent += 50;
        await delay(1);
      }
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      assert.deepEqual(await ended, [null, 'SIGKILL']);
    }
    const host = await lab.restarted();
    const wanted = [...staying(), ...changing(random)];
    const outcomes = await host.apply(wanted);
    for (const { id } of staying()) {
      assert.equal(loaded(outcomes, id), loaded(ids, id));
      assert.equal(lab.counted(id), sent);
    }
    assert.deepEqual(await host.verify(), []);
    assert.equal(readdirSync(join(lab.bpffs, NAME, 'programs')).length, wanted.length);
    for (const name of readdirSync(join(lab.state, 'programs'))) assert.match(name, /\.(json|insns)$/);
    send('out0', 1);
    for (const { id } of staying()) assert.equal(lab.counted(id), sent + 1);
  });
});

suite('interfaces of pods', { skip: obstacle() ?? false }, () => {
  before(ownNetwork);

  test('a program runs once in a pod, however many containers it has, goes on for another one, and leaves with it', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const types = hasTcx ? (['xdp', 'tc', 'tcx'] as const) : (['xdp', 'tc'] as const);
    // The pod's first process, and two containers of it.
    const pod = spawn('unshare', ['-n', 'sleep', '600']);
    await until('a network of its own', () => networkOf(pod) !== networkOf(process));
    const container = () => spawn('nsenter', [`--net=/proc/${pod.pid}/ns/net`, 'sleep', '600']);
    const [one, two] = [container(), container()];
    await until('both in it', () => [one, two].every((process) => networkOf(process) === networkOf(pod)));
    try {
      ip(`link add pod0 type veth peer name eth0 netns ${pod.pid}`, 'link set pod0 up');
      execFileSync('sysctl', ['-qw', 'net.ipv6.conf.pod0.disable_ipv6=1']);
      execFileSync('nsenter', [
        `--net=/proc/${pod.pid}/ns/net`,
        'sh',
        '-c',
        'sysctl -qw net.ipv6.conf.eth0.disable_ipv6=1 && ip link set eth0 up',
      ]);
      const wanted = [one, two].flatMap(({ pid = 0 }, at) => {
        const place = { pid, containerId: '', cgroupPath: undefined };
        return types.map((type) => {
          const attach = { xdp: xdp('eth0'), tc: tc('eth0', 'ingress'), tcx: tcx('eth0', 'ingress', 1) }[
            type
          ];
          if (!('hook' in attach)) throw new TypeError(type);
          return desired(
            `web/${type}-${at}`,
            { ...attach, hook: { interface: 'eth0', container: place } },
            {
              owner: `NsProgram/web/${type}`,
              name: type,
              namespace: 'web',
            },
          );
        });
      });
      const first = await host.apply(wanted);
      for (const type of types) assert.equal(loaded(first, `web/${type}-0`), loaded(first, `web/${type}-1`));
      assert.equal((await host.list()).length, types.length);
      send('pod0', 10);
      for (const type of types) assert.equal(lab.counted(`web/${type}-0`), 10);

      const left = wanted.filter(({ id }) => id.endsWith('-1'));
      const second = await host.apply(left);
      for (const type of types) assert.equal(loaded(second, `web/${type}-1`), loaded(first, `web/${type}-0`));
      send('pod0', 10);
      for (const type of types) assert.equal(lab.counted(`web/${type}-0`), 20);

      // Unwanted, in a pod that stays: also removed by a process that did not attach it.
      const restarted = await lab.restarted();
      await restarted.apply(left.filter(({ attach }) => attach.type === 'xdp'));
      const filters = execFileSync('nsenter', [
        `--net=/proc/${pod.pid}/ns/net`,
        'tc',
        'qdisc',
        'show',
        'dev',
        'eth0',
      ]);
      assert.doesNotMatch(filters.toString(), /clsact/);
    } finally {
      for (const child of [one, two, pod]) {
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
      }
    }
    const gone = await (await lab.host()).apply([]);
    assert.equal(gone.size, 0);
    assert.ok(!existsSync(lab.programPins('web/xdp-0')));
  });

  test('a container that is gone is said, and does not stop others', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    cable('in1', 'out1');
    const place = { pid: 2 ** 22 + 1, containerId: 'containerd://abc', cgroupPath: undefined };
    const attach = xdp('eth0');
    assert.ok(attach.type === 'xdp');
    const outcomes = await host.apply([
      desired('gone', { ...attach, hook: { interface: 'eth0', container: place } }),
      desired('stays', xdp('in1')),
    ]);
    const outcome = outcomes.get('gone');
    assert.ok(outcome?.state === 'failed' && outcome.reason === 'target' && outcome.mayPass);
    send('out1', 10);
    assert.equal(lab.counted('stays'), 10);
  });
});
