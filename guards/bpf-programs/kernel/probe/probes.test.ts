import assert from 'node:assert/strict';
import {
  copyFileSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmdirSync,
  rmSync,
  writeFileSync,
} from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { before, suite, test, type TestContext } from 'node:test';

import { probeFeatures } from '../../../../lib/ebpf/features/features.ts';
import { epollCreate } from '../../../../lib/ebpf/libc.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import type { Attach, DesiredProgram } from '../desired.ts';
import {
  bytecode,
  cable,
  desired,
  failed,
  Lab,
  loaded,
  obstacle,
  ownNetwork,
  send,
  tcx,
  u32,
  u64,
  xdp,
} from '../lab.fixture.ts';
import { Caller, place, probe, uprobe } from './caller.fixture.ts';

/** Programs run if the kernel supports them, and are refused with the reason if not. */
async function either(t: TestContext, attach: Attach, functionName: string, act: () => void, min: number) {
  const { type } = attach;
  if (type === 'tc' || type === 'tcx' || type === 'xdp' || type === 'nowhere') throw new TypeError(type);
  const kind = type === 'kretprobe' ? 'kprobe' : type;
  const features = probeFeatures([type]);
  const runs =
    features.attach[type].available &&
    features.programs[kind === 'uprobe' || kind === 'uretprobe' ? 'kprobe' : kind].available;
  await using lab = new Lab();
  const outcomes = await (await lab.host()).apply([probe('p', attach, functionName)]);
  t.diagnostic(`${type}: ${runs ? 'runs' : 'refused'}`);
  if (runs) {
    loaded(outcomes, 'p');
    act();
    assert.ok(lab.counted('p') >= min, `${lab.counted('p')}`);
    return;
  }
  const outcome = outcomes.get('p');
  assert.ok(outcome?.state === 'failed');
  const feature = features.programs[type === 'fentry' || type === 'fexit' ? type : 'kprobe'];
  const answer = feature.available ? features.attach[type] : feature;
  assert.ok(!answer.available);
  assert.ok(
    outcome.message.includes(
      `This kernel does not run ${type} programs (${answer.reason}): ${answer.detail}`,
    ),
    outcome.message,
  );
}

suite('programs that are attached by themselves', { skip: obstacle() ?? false }, () => {
  before(ownNetwork);

  test('a tracepoint', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([
      probe('there', { type: 'tracepoint', tracepoint: 'syscalls/sys_enter_epoll_create1' }, 'on_tracepoint'),
      probe('not', { type: 'tracepoint', tracepoint: 'syscalls/sys_enter_nothing' }, 'on_tracepoint'),
      probe('outside', { type: 'tracepoint', tracepoint: '../../etc/passwd' }, 'on_tracepoint'),
    ]);
    loaded(outcomes, 'there');
    for (let call = 0; call < 20; call++) epollCreate()[Symbol.dispose]();
    assert.ok(lab.counted('there') >= 20);
    assert.match(failed(outcomes, 'not', 'attach'), /there is no tracepoint syscalls\/sys_enter_nothing/);
    assert.match(failed(outcomes, 'outside', 'attach'), /there is no tracepoint/);
    const beyond = desired(
      'beyond',
      { type: 'tracepoint', tracepoint: 'syscalls/sys_enter_epoll_create1' },
      {
        digest: 'sha256:kinds',
        bytecode: () => Promise.resolve(bytecode('kinds')),
        functionName: 'on_argument',
      },
    );
    assert.match(
      failed(await host.apply([beyond]), 'beyond', 'attach'),
      /EACCES.*\. The program reads bytes 40 to 47 of the record, which is arguments\[3\] of struct sys_enter, and the record has 24 bytes: .*__syscall_nr \(8 to 11\), flags \(16 to 23\)\./,
    );
    assert.ok(!existsSync('/sys/kernel/tracing/rampart'));
  });

  test('kprobe', (t) =>
    either(
      t,
      { type: 'kprobe', functionName: 'do_epoll_create', offset: 0n },
      'on_kprobe',
      () => epollCreate()[Symbol.dispose](),
      1,
    ));
  test('kretprobe', (t) =>
    either(
      t,
      { type: 'kretprobe', functionName: 'do_epoll_create', offset: 0n },
      'on_kprobe',
      () => epollCreate()[Symbol.dispose](),
      1,
    ));
  test('fentry', (t) =>
    either(
      t,
      { type: 'fentry', functionName: 'do_epoll_create' },
      'on_fentry',
      () => epollCreate()[Symbol.dispose](),
      1,
    ));
  test('fexit', (t) =>
    either(
      t,
      { type: 'fexit', functionName: 'do_epoll_create' },
      'on_fexit',
      () => epollCreate()[Symbol.dispose](),
      1,
    ));

  test('uprobes and uretprobes of a process, by function, by library name and by offset', async (t) => {
    const caller = new Caller(t);
    const pid = await caller.pid();
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([
      probe('entry', uprobe({ pid }), 'on_uprobe'),
      probe('return', uprobe({ type: 'uretprobe', pid, target: 'libc.so.6' }), 'on_uprobe'),
      probe('none', uprobe({ functionName: 'no_such_function' }), 'on_uprobe'),
      probe('nothing', uprobe({ target: 'libnothing' }), 'on_uprobe'),
      probe('text', uprobe({ target: '/etc/passwd' }), 'on_uprobe'),
    ]);
    for (const id of ['entry', 'return']) loaded(outcomes, id);
    await caller.call(50);
    for (const id of ['entry', 'return']) assert.equal(lab.counted(id), 50);
    assert.match(failed(outcomes, 'none', 'target'), /has no function no_such_function/);
    assert.match(failed(outcomes, 'nothing', 'target'), /no library of that name/);
    assert.match(failed(outcomes, 'text', 'target'), /not a 64-bit little-endian ELF file/);
  });

  test('the target of a uprobe is a path below the root of the node', async (t) => {
    const caller = new Caller(t);
    const pid = await caller.pid();
    const [, libc = ''] = /(\S+\/libc\.so\.6)$/m.exec(readFileSync(`/proc/${pid}/maps`, 'utf8')) ?? [];
    // Not in the lab's directory: the kernel releases the file only some time after the probe is gone.
    const root = mkdtempSync(join(tmpdir(), 'rampart-node-root-'));
    t.after(() => rmSync(root, { recursive: true }));
    await using lab = new Lab();
    copyFileSync(libc, join(root, 'libc.so'));
    await using host = await lab.another(root);
    const outcomes = await host.apply([
      probe('below', uprobe({ target: '/libc.so' }), 'on_uprobe'),
      probe('beside', uprobe({ target: libc }), 'on_uprobe'),
    ]);
    loaded(outcomes, 'below');
    assert.match(failed(outcomes, 'beside', 'target'), /no such file|does not exist|ENOENT/i);
    await host.apply([]);
  });

  test('a uprobe in a container counts what the container does, and not others with the same file', async (t) => {
    const inside = new Caller(t, { wrapper: ['unshare', '--pid', '--fork', '--kill-child'] });
    const outside = new Caller(t);
    await using lab = new Lab();
    const host = await lab.host();
    const container = place(await inside.pid());
    const wanted = [probe('inside', uprobe({ container }), 'on_uprobe')];
    loaded(await host.apply(wanted), 'inside');
    await outside.call(1000);
    assert.equal(lab.counted('inside'), 0);
    await inside.call(50);
    assert.equal(lab.counted('inside'), 50);
    assert.deepEqual(await host.verify(), []);
    // It stays when it is asked for again, and is gone when it is not.
    loaded(await host.apply(wanted), 'inside');
    await inside.call(7);
    assert.equal(lab.counted('inside'), 57);
    await host.apply([]);
    assert.deepEqual(await host.list(), []);
  });

  test('a container with the processes of the node is gated by its cgroup, or refused', async (t) => {
    const inside = new Caller(t);
    const outside = new Caller(t);
    const pid = await inside.pid();
    await using lab = new Lab();
    const host = await lab.host();
    const refused = await host.apply([probe('p', uprobe({ container: place(pid) }), 'on_uprobe')]);
    assert.match(failed(refused, 'p', 'target'), /hostPID/);
    const [, mount] =
      /^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 /m.exec(readFileSync('/proc/self/mountinfo', 'latin1')) ?? [];
    if (mount === undefined) return t.diagnostic('cgroup v2 is not mounted');
    const containerId = `rampart-test-${process.pid}`;
    mkdirSync(`${mount}/${containerId}`);
    t.after(() =>
      until('the cgroup to be empty', () => {
        rmdirSync(`${mount}/${containerId}`);
        return true;
      }),
    );
    writeFileSync(`${mount}/${containerId}/cgroup.procs`, String(pid));
    const container = place(pid, { containerId, cgroupPath: `/${containerId}` });
    loaded(await host.apply([probe('p', uprobe({ container }), 'on_uprobe')]), 'p');
    await outside.call(100);
    await inside.call(30);
    assert.equal(lab.counted('p'), 30);
  });

  test('a process that has ended or is not in the container does not identify it', async (t) => {
    const caller = new Caller(t);
    await using lab = new Lab();
    const host = await lab.host();
    const pid = await caller.pid();
    const outcomes = await host.apply([
      probe('other', uprobe({ container: place(pid, { containerId: 'containerd://abc' }) }), 'on_uprobe'),
      probe('gone', uprobe({ container: place(2 ** 22 + 1) }), 'on_uprobe'),
    ]);
    assert.match(failed(outcomes, 'other', 'target'), /now belongs to another container/);
    assert.match(failed(outcomes, 'gone', 'target'), /is gone/);
  });
});

const tcxFeature = probeFeatures(['tcx']).attach.tcx;

suite('TCX', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('runs from 6.6 on, and says so before', async (t) => {
    await using lab = new Lab();
    const outcomes = await (
      await lab.host()
    ).apply([desired('x', tcx('in0', 'egress', 1)), desired('a', xdp('in0'))]);
    loaded(outcomes, 'a');
    t.diagnostic(`tcx: ${tcxFeature.available ? 'runs' : 'refused'}`);
    if (tcxFeature.available) {
      loaded(outcomes, 'x');
      send('in0', 5);
      assert.equal(lab.counted('x'), 5);
    } else
      assert.match(failed(outcomes, 'x', 'attach'), /does not run tcx programs \(not_in_kernel\): .*6\.6/);
  });

  const TCX_NEXT = -1;
  const digit = (number: number, priority: number, rest: Partial<DesiredProgram> = {}) =>
    desired(`order/${number}`, tcx('in0', 'ingress', priority), {
      name: `p${number}`,
      digest: 'sha256:order',
      bytecode: () => Promise.resolve(bytecode('order')),
      functionName: 'tcx_trace',
      globals: { digit: u64(number), verdict: u32(TCX_NEXT) },
      mapOwner: number === 1 ? undefined : 'order/1',
      ...rest,
    });

  test(
    'links run in order, whoever came first, and move when their order changes',
    { skip: tcxFeature.available ? false : tcxFeature.detail },
    async () => {
      await using lab = new Lab();
      const host = await lab.host();
      const trace = async (...programs: readonly DesiredProgram[]): Promise<number> => {
        const outcomes = await host.apply(programs);
        for (const { id } of programs) loaded(outcomes, id);
        lab.clear('order/1', 'trace');
        send('out0', 1);
        return lab.counted('order/1', 'trace');
      };
      assert.equal(await trace(digit(1, 50)), 1);
      assert.equal(await trace(digit(1, 50), digit(2, 60)), 12);
      assert.equal(await trace(digit(3, 10), digit(1, 50), digit(2, 60)), 312);
      assert.equal(await trace(digit(3, 55), digit(1, 50), digit(2, 60)), 132);
      assert.equal(await trace(digit(4, 0), digit(3, 55), digit(1, 50), digit(2, 1)), 4213);
      // Another version takes the place of the one before.
      const globals = { digit: u64(9), verdict: u32(TCX_NEXT) };
      assert.equal(await trace(digit(4, 0), digit(3, 55), digit(1, 50), digit(2, 1, { globals })), 4913);
      assert.equal(await trace(digit(1, 50)), 1);
      assert.deepEqual(await host.verify(), []);
    },
  );
});
