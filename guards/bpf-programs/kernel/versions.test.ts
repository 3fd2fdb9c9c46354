// A version that runs keeps running until a new one is attached, whatever is wrong with the new one, and for every way to attach.
import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import { before, suite, test } from 'node:test';

import { probeFeatures } from '../../../lib/ebpf/features/features.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { epollCreate } from '../../../lib/ebpf/libc.ts';
import type { Attach, DesiredProgram } from './desired.ts';
import {
  bytecode,
  cable,
  desired,
  failed,
  ip,
  kept,
  Lab,
  loaded,
  obstacle,
  ownNetwork,
  send,
  tc,
  tcx,
  u32,
  u64,
  xdp,
} from './lab.fixture.ts';

const uprobe: Extract<Attach, { type: 'uprobe' | 'uretprobe' }> = {
  ...{ type: 'uprobe', functionName: 'getppid', offset: 0n, target: 'libc' },
  ...{ pid: process.pid, container: undefined },
};

interface Kind {
  readonly attach: Attach;
  /** A program that counts in `packets`, and its object file. */
  readonly runs: readonly [functionName: string, file: string];
  /** Makes it run ten times. */
  readonly act: () => void;
  /** Whether other processes make it run, too. */
  readonly ofAll?: boolean;
}

const packets = (): void => send('out0', 10);
const callGetppid = (): void => {
  for (let call = 0; call < 10; call++) assert.ok(process.ppid > 0);
};

const epoll = (): void => {
  for (let call = 0; call < 10; call++) epollCreate()[Symbol.dispose]();
};

const { attach: attachable, programs } = probeFeatures(['tcx', 'kprobe', 'fentry']);
/** Before 6.6 there is no TCX. */
const hasTcx = attachable.tcx.available;
const hasKprobes = attachable.kprobe.available;
const hasFentry = programs.fentry.available && attachable.fentry.available;

const kinds: readonly Kind[] = [
  { attach: xdp('in0'), runs: ['xdp_count', 'count'], act: packets },
  { attach: tc('in0', 'ingress'), runs: ['tc_count', 'count'], act: packets },
  ...(hasTcx
    ? [{ attach: tcx('in0', 'ingress', 5), runs: ['tc_count', 'count'], act: packets } as const]
    : []),
  { attach: uprobe, runs: ['on_uprobe', 'probes'], act: callGetppid },
  { attach: { ...uprobe, type: 'uretprobe' }, runs: ['on_uprobe', 'probes'], act: callGetppid },
  ...[
    { type: 'tracepoint', tracepoint: 'syscalls/sys_enter_epoll_create1' } as const,
    ...(hasKprobes ? [{ type: 'kprobe', functionName: 'do_epoll_create', offset: 0n } as const] : []),
    ...(hasFentry ? [{ type: 'fentry', functionName: 'do_epoll_create' } as const] : []),
  ].map((attach): Kind => ({ attach, runs: [`on_${attach.type}`, 'probes'], act: epoll, ofAll: true })),
];

const of = (file: string, functionName: string): Partial<DesiredProgram> => ({
  digest: `sha256:${file}`,
  bytecode: () => Promise.resolve(bytecode(file)),
  functionName,
});

suite('versions of programs', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  for (const { attach, runs, act, ofAll = false } of kinds) {
    const [functionName, file] = runs;
    test(`${attach.type}: what runs goes on while the next version is not one, also in a later process`, async () => {
      await using lab = new Lab();
      const host = await lab.host();
      const good = desired('p', attach, of(file, functionName));
      const first = loaded(await host.apply([good]), 'p');
      const half = bytecode(file).subarray(0, 1000);
      const bad: readonly (readonly [Partial<DesiredProgram>, Parameters<typeof kept>[2], RegExp])[] = [
        [
          { digest: 'sha256:half', bytecode: () => Promise.resolve(half) },
          'bytecode',
          /cannot open eBPF object/,
        ],
        [{ functionName: 'none' }, 'bytecode', /has no program none/],
        [{ globals: { none: u64(1) } }, 'load', /cannot set none/],
        [{ mapOwner: 'nobody' }, 'map-owner-not-found', /no program nobody/],
        [of('awkward', 'xdp_refused'), 'load', /xdp_refused/],
      ];
      let count = 0;
      for (const [change, reason, says] of bad) {
        const wanted = [{ ...good, ...change }];
        assert.match(kept(await host.apply(wanted), 'p', reason, first), says);
        const later = await lab.restarted();
        assert.match(kept(await later.apply(wanted), 'p', reason, first), says);
        act();
        count += 10;
        if (ofAll) assert.ok(lab.counted('p') >= count);
        else assert.equal(lab.counted('p'), count);
        const [running, ...others] = await later.list();
        assert.deepEqual([others.length, running?.programId, running?.digest], [0, first, good.digest]);
        const { functionName: asked, digest, source, why = '' } = running?.refused ?? {};
        assert.match(why, says);
        const [{ functionName: wantedFunction, digest: wantedDigest }] = wanted as [DesiredProgram];
        assert.deepEqual([asked, digest, source], [wantedFunction, wantedDigest, good.source]);
        assert.deepEqual(await later.verify(), []);
      }
      assert.equal(readdirSync(lab.programPins('p')).length, 1);
      // Asked for as it runs, it is a success again; and the next version counts on in the same map.
      const later = await lab.restarted();
      assert.equal(loaded(await later.apply([good]), 'p'), first);
      assert.equal((await later.list())[0]?.refused, undefined);
      assert.notEqual(loaded(await later.apply([{ ...good, digest: 'sha256:next' }]), 'p'), first);
      // The kernel detaches in a work queue when a pin was the last that held a probe: until then, both versions count.
      await until('only the next version', () => {
        count = lab.counted('p');
        act();
        return lab.counted('p') === count + 10;
      });
      assert.ok(count >= bad.length * 10);
      assert.equal(readdirSync(lab.programPins('p')).length, 1);
      await later.apply([]);
      assert.deepEqual(await later.list(), []);
    });
  }

  test('a version that the chain does not accept leaves the place to the one before, at every packet', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const [a, b, z] = [desired('a', xdp('in0', 1)), desired('b', xdp('in0', 2)), desired('z', xdp('in0', 3))];
    const first = await host.apply([a, b, z]);
    const composed = lab.composed();
    const next = { ...b, ...of('awkward', 'xdp_stack') };
    for (const later of [host, host, await lab.restarted()]) {
      const outcomes = await later.apply([a, next, z]);
      assert.match(kept(outcomes, 'b', 'load', loaded(first, 'b')), /combined stack size .* Too large/);
      for (const id of ['a', 'z']) assert.equal(loaded(outcomes, id), loaded(first, id));
      assert.deepEqual(lab.composed(), composed);
    }
    // Also when the others change.
    const outcomes = await (await lab.host()).apply([{ ...a, globals: { step: u64(2) } }, next]);
    kept(outcomes, 'b', 'load', loaded(first, 'b'));
    send('out0', 10);
    assert.deepEqual([lab.counted('a'), lab.counted('b')], [20, 10]);
    // Without one before, nothing runs.
    await (await lab.host()).apply([]);
    failed(await (await lab.host()).apply([next]), 'b', 'load');
  });

  test('running programs are attached to an interface that comes again', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    cable('late0', 'late1');
    const kindsHere = [xdp('late0'), tc('late0', 'ingress'), ...(hasTcx ? [tcx('late0', 'ingress', 1)] : [])];
    const wanted = kindsHere.map((attach) => desired(attach.type, attach));
    const first = await host.apply(wanted);
    const bad = wanted.map((program) => ({ ...program, functionName: 'none' }));
    for (const { id } of bad) kept(await host.apply(bad), id, 'bytecode');
    ip('link del late0');
    for (const outcome of (await host.apply(bad)).values()) assert.equal(outcome.state, 'failed');
    cable('late0', 'late1');
    const again = await host.apply(bad);
    for (const { id } of bad) kept(again, id, 'bytecode', loaded(first, id));
    send('late1', 10);
    for (const { id } of bad) assert.equal(lab.counted(id), 10);
    ip('link del late0');
  });

  test('a held version keeps its place in the chain, and goes when no longer held', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const attached = [
      xdp('in0', 2),
      tc('in0', 'ingress', 2),
      ...(hasTcx ? [tcx('in0', 'ingress', 2)] : []),
      uprobe,
    ];
    const held = attached.map((attach) =>
      desired(attach.type, attach, attach.type === 'uprobe' ? of('probes', 'on_uprobe') : {}),
    );
    const first = await host.apply([desired('a', xdp('in0', 1)), ...held]);
    const ids = new Set(held.map(({ id }) => id));
    const alone = await (await lab.restarted()).apply([], undefined, ids);
    assert.equal(alone.size, 0);
    const next = { ...desired('a', xdp('in0', 1)), globals: { step: u64(2) } };
    const later = await lab.restarted();
    loaded(await later.apply([next, desired('z', tc('in0', 'ingress', 3))], undefined, ids), 'a');
    send('out0', 10);
    callGetppid();
    for (const id of ids) assert.equal(lab.counted(id), 10, id);
    assert.deepEqual([lab.counted('a'), lab.counted('z')], [20, 10]);
    assert.deepEqual(
      (await later.list()).filter(({ id }) => ids.has(id)).map(({ id, programId }) => [id, programId]),
      [...ids].toSorted((a, b) => (a < b ? -1 : 1)).map((id) => [id, loaded(first, id)]),
    );
    await later.apply([next]);
    assert.deepEqual(
      (await later.list()).map(({ id }) => id),
      ['a'],
    );
  });

  test('a probe that cannot be attached elsewhere stays where it is', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const good = desired('p', uprobe, of('probes', 'on_uprobe'));
    const first = loaded(await host.apply([good]), 'p');
    const gone: Attach = { ...uprobe, pid: 2 ** 22 + 1 };
    for (const change of [{ attach: gone }, { attach: gone, digest: 'sha256:next' }]) {
      kept(await host.apply([{ ...good, ...change }]), 'p', 'attach', first);
      callGetppid();
    }
    assert.equal(lab.counted('p'), 20);
    // The next version is there already, and takes its place.
    const bytes = () => Promise.reject(new Error('the bytecode was asked for'));
    const next = loaded(await host.apply([{ ...good, digest: 'sha256:next', bytecode: bytes }]), 'p');
    assert.notEqual(next, first);
    // One at the return of the function is another type of program.
    const other = { ...good, attach: { ...uprobe, type: 'uretprobe' }, functionName: 'none' } as const;
    kept(await host.apply([other]), 'p', 'bytecode', next);
    const count = lab.counted('p');
    callGetppid();
    assert.ok(lab.counted('p') >= count + 10);
  });

  test('a new version of TCX takes the place of the one before among others', async (t) => {
    if (!hasTcx) return t.skip('the kernel has no TCX');
    await using lab = new Lab();
    const host = await lab.host();
    const digit = (id: string, at: number, number: number): DesiredProgram =>
      desired(id, tcx('in0', 'ingress', at), {
        ...of('order', 'tcx_trace'),
        globals: { digit: u64(number), verdict: u32(-1) },
        mapOwner: at === 1 ? undefined : 'a',
      });
    const [a, b, c] = [digit('a', 1, 1), digit('b', 2, 2), digit('c', 3, 3)];
    const first = await host.apply([a, b, c]);
    kept(await host.apply([a, { ...b, ...of('maps', 'xdp_refused') }, c]), 'b', 'load', loaded(first, 'b'));
    loaded(await host.apply([a, digit('b', 2, 5), c]), 'b');
    send('out0', 1);
    assert.equal(lab.counted('a', 'trace'), 153);
    assert.deepEqual(await host.verify(), []);
  });
});
