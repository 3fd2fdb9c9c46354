import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { before, suite, test } from 'node:test';

import { scaled } from '../../../../lib/testing/depth.fixture.ts';
import type { Attach, DesiredProgram } from '../desired.ts';
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
  PROCEED_TC,
  PROCEED_XDP,
  send,
  sending,
  tc,
  u32,
  u64,
  xdp,
} from '../lab.fixture.ts';

const XDP_DROP = 1;
const XDP_PASS = 2;
const TC_ACT_OK = 0;
const TC_ACT_SHOT = 2;
const TC_ACT_PIPE = 3;

/** Writes its digit into the map of the first of them. */
function digit(number: number, attach: Attach, verdict: number, name = `p${number}`): DesiredProgram {
  return desired(`order/${number}`, attach, {
    name,
    digest: 'sha256:order',
    bytecode: () => Promise.resolve(bytecode('order')),
    functionName: `${attach.type}_trace`,
    globals: { digit: u64(number), verdict: u32(verdict) },
    mapOwner: number === 1 ? undefined : 'order/1',
  });
}

function awkward(name: string, rest: Partial<DesiredProgram> = {}): DesiredProgram {
  return desired(name, xdp('in0'), {
    digest: 'sha256:awkward',
    bytecode: () => Promise.resolve(bytecode('awkward')),
    functionName: name,
    ...rest,
  });
}

suite('chains of programs', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('XDP programs run by priority, and by name where that is the same', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const programs = [
      digit(1, xdp('in0', 50), XDP_PASS, 'b'),
      digit(2, xdp('in0', 50), XDP_PASS, 'a'),
      digit(3, xdp('in0', 1000), XDP_PASS, 'a'),
      digit(4, xdp('in0', 0), XDP_PASS, 'z'),
    ];
    const outcomes = await host.apply(programs);
    for (const { id } of programs) loaded(outcomes, id);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 4213);
  });

  test('a return code outside of the mask ends the chain', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    await host.apply([
      digit(1, xdp('in0', 1), XDP_PASS),
      digit(2, xdp('in0', 2, PROCEED_XDP | (1 << XDP_DROP)), XDP_DROP),
      digit(3, xdp('in0', 3), XDP_DROP),
      digit(4, xdp('in0', 4), XDP_PASS),
    ]);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 123);
    lab.clear('order/1', 'trace');
    // A code that no mask can name ends it too.
    await host.apply([digit(1, xdp('in0', 1, -1), 32), digit(2, xdp('in0', 2), XDP_PASS)]);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 1);
  });

  test('thirty programs run in one chain', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const programs = Array.from({ length: 30 }, (_, at) => desired(`c${at}`, xdp('in0', at)));
    const outcomes = await host.apply(programs);
    for (const { id } of programs) loaded(outcomes, id);
    send('out0', 100);
    for (const { id } of programs) assert.equal(lab.counted(id), 100);
  });

  test('TC programs run in both directions, in order', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const programs = [
      digit(1, tc('in0', 'ingress', 2), TC_ACT_PIPE),
      digit(2, tc('in0', 'ingress', 1), TC_ACT_PIPE),
      digit(3, tc('in0', 'ingress', 3), TC_ACT_OK),
      digit(4, tc('in0', 'ingress', 4), TC_ACT_OK),
    ];
    const outcomes = await host.apply([...programs, desired('egress', tc('out0', 'egress'))]);
    for (const { id } of programs) loaded(outcomes, id);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 213);
    assert.equal(lab.counted('egress'), 1);
    await host.apply([]);
    assert.equal(execFileSync('tc', ['qdisc', 'show', 'dev', 'in0', 'clsact'], { encoding: 'utf8' }), '');
  });

  test('the qdisc goes with the last direction, whichever that is, and one of others stays', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const qdisc = () => execFileSync('tc', ['qdisc', 'show', 'dev', 'in0', 'clsact'], { encoding: 'utf8' });
    const both = [desired('i', tc('in0', 'ingress')), desired('e', tc('in0', 'egress'))];
    for (const order of [both, both.toReversed()]) {
      await host.apply(order);
      await host.apply(order.slice(1));
      assert.match(qdisc(), /clsact/);
      send('out0', 1);
      await host.apply([]);
      assert.equal(qdisc(), '');
    }
    execFileSync('tc', ['qdisc', 'add', 'dev', 'in0', 'clsact']);
    await host.apply(both);
    await host.apply([]);
    assert.match(qdisc(), /clsact/);
    execFileSync('tc', ['qdisc', 'del', 'dev', 'in0', 'clsact']);
  });

  test('a TC program that says TC_ACT_SHOT ends the packet, and TC_ACT_UNSPEC is a code of the mask', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    await host.apply([
      digit(1, tc('in0', 'ingress', 1, PROCEED_TC | 1), -1),
      digit(2, tc('in0', 'ingress', 2, PROCEED_TC), TC_ACT_SHOT),
      digit(3, tc('in0', 'ingress', 3), TC_ACT_PIPE),
    ]);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 12);
  });

  test('functions and callbacks of a member work in a chain', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([awkward('xdp_functions'), desired('z', xdp('in0'))]);
    loaded(outcomes, 'xdp_functions');
    send('out0', 10);
    assert.equal(lab.counted('xdp_functions'), 30);
    assert.equal(lab.counted('z'), 10);
  });

  test('one that cannot join says what the verifier says, and the others run', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = [desired('a', xdp('in0', 1)), awkward('xdp_stack'), desired('z', xdp('in0', 99))];
    const outcomes = await host.apply(wanted);
    assert.match(failed(outcomes, 'xdp_stack', 'load'), /combined stack size of 2 calls is \d+\. Too large/);
    send('out0', 10);
    for (const id of ['a', 'z']) assert.equal(lab.counted(id), 10);
    // It is not retried without a reason: the chain is unchanged.
    const first = lab.composed();
    const again = await host.apply(wanted);
    assert.match(failed(again, 'xdp_stack', 'load'), /Too large/);
    assert.deepEqual(lab.composed(), first);
  });

  test('one that the verifier refuses alone takes no other with it', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([awkward('xdp_refused'), desired('a', xdp('in0'))]);
    assert.match(failed(outcomes, 'xdp_refused', 'load'), /invalid access to packet, off=100 size=1/);
    send('out0', 10);
    assert.equal(lab.counted('a'), 10);
  });

  test('each program sees each packet exactly once while the chain is changed', async (t) => {
    await using lab = new Lab();
    const host = await lab.host();
    const packets = scaled(200_000, 5000);
    const stays = [desired('x', xdp('in0', 50)), desired('t', tc('in0', 'ingress', 50))];
    loaded(await host.apply(stays), 'x');
    // As many packets as it takes: how many swaps there are meanwhile is the machine's matter.
    let [sent, swaps] = [0, 0];
    while (swaps < 12) {
      const sender = sending('out0', packets);
      sent += packets;
      while (sender.exitCode === null) {
        const others = [
          desired(`x${swaps % 3}`, xdp('in0', 10 + (swaps % 90))),
          desired(`t${swaps % 3}`, tc('in0', 'ingress', 10 + (swaps % 90))),
        ];
        await host.apply(swaps % 2 === 0 ? [...others, ...stays] : stays);
        swaps++;
        await new Promise(setImmediate);
      }
      assert.equal(sender.exitCode, 0);
    }
    assert.deepEqual([lab.counted('x'), lab.counted('t')], [sent, sent]);
    t.diagnostic(`${sent} packets over ${swaps} changes`);
  });

  test('also where the chain goes on in a second program', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const packets = scaled(100_000, 5000);
    // Three maps each: the kernel takes 64 in one program.
    const stays = Array.from({ length: 24 }, (_, at) => desired(`s${at}`, xdp('in0', 10 * at)));
    loaded(await host.apply(stays), 's23');
    let [sent, swaps] = [0, 0];
    while (swaps < 4) {
      const sender = sending('out0', packets);
      sent += packets;
      for (; sender.exitCode === null; swaps++) {
        const outcomes = await host.apply(
          swaps % 2 === 0 ? [...stays, desired('more', xdp('in0', swaps % 240))] : stays,
        );
        loaded(outcomes, 's23');
        await new Promise(setImmediate);
      }
      assert.equal(sender.exitCode, 0);
    }
    for (const { id } of stays) assert.equal(lab.counted(id), sent);
    // The previous one goes with the next pass: it holds the maps of programs that are gone.
    const previous = (): readonly string[] => lab.chainPins().filter((name) => name.endsWith('-old'));
    loaded(await host.apply([...stays, desired('last', xdp('in0'))]), 'last');
    assert.equal(previous().length, 1);
    loaded(await host.apply([...stays, desired('last', xdp('in0'))]), 'last');
    assert.deepEqual(previous(), []);
  });

  test('globals are set by their names, and only to their sizes', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const outcomes = await host.apply([
      desired('five', xdp('in0'), { globals: { step: u64(5) } }),
      desired('unknown', xdp('in0'), { globals: { steps: u64(5) } }),
      desired('short', xdp('in0'), { globals: { step: u32(5) } }),
    ]);
    send('out0', 10);
    assert.equal(lab.counted('five'), 50);
    assert.match(failed(outcomes, 'unknown', 'load'), /no such global variable\. It has: .*step, tc_verdict/);
    assert.match(failed(outcomes, 'short', 'load'), /it has 8 bytes, the value 4/);
    // Other values are another program, in the same place of the chain, with the same map.
    await host.apply([desired('five', xdp('in0'), { globals: { step: u64(7) } })]);
    send('out0', 10);
    assert.equal(lab.counted('five'), 50 + 70);
  });

  test('maps are shared only where they are alike, with an owner of the same namespace that is loaded', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const owner = digit(1, xdp('in0', 1), XDP_PASS);
    const outcomes = await host.apply([
      awkward('xdp_shape', { mapOwner: 'order/1' }),
      { ...digit(2, xdp('in0', 2), XDP_PASS), namespace: 'web' },
      { ...digit(3, xdp('in0', 3), XDP_PASS), mapOwner: 'nobody' },
      { ...digit(4, xdp('in0', 4), XDP_PASS), mapOwner: 'xdp_refused' },
      digit(5, xdp('in0', 5), XDP_PASS),
      awkward('xdp_refused'),
      owner,
    ]);
    assert.match(failed(outcomes, 'xdp_shape', 'load'), /number of entries 2 here, 1 there/);
    assert.match(failed(outcomes, 'order/2', 'map-owner-not-found'), /in namespace web/);
    assert.match(failed(outcomes, 'order/3', 'map-owner-not-found'), /nobody/);
    assert.match(failed(outcomes, 'order/4', 'map-owner-not-loaded'), /invalid access to packet/);
    send('out0', 1);
    assert.equal(lab.counted('order/1', 'trace'), 15);
    // The map is kept while it has users, also by a later process.
    const last = { ...digit(5, xdp('in0', 5), XDP_PASS) };
    for (const later of [host, await lab.restarted()]) {
      assert.match(kept(await later.apply([last]), 'order/5', 'map-owner-not-found'), /order\/1/);
      send('out0', 1);
    }
    assert.equal(lab.counted('order/5', 'trace'), 1555);
  });

  test('an interface that comes later gets its program, and again when it comes back', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = [desired('a', xdp('late0')), desired('t', tc('late0', 'ingress'))];
    const missing = await host.apply(wanted);
    assert.match(failed(missing, 'a', 'target'), /There is no interface late0/);
    for (let round = 1; round <= 2; round++) {
      cable('late0', 'late1');
      const outcomes = await host.apply(wanted);
      loaded(outcomes, 'a');
      loaded(outcomes, 't');
      send('late1', 10);
      for (const id of ['a', 't']) assert.equal(lab.counted(id), 10 * round);
      ip('link del late0');
      assert.deepEqual(
        (await host.verify()).filter(({ what }) => what.startsWith('xdp')),
        [{ what: 'xdp on late0: the interface is gone.', owners: ['XdpProgram/a'] }],
      );
      assert.equal((await host.apply(wanted)).get('a')?.state, 'failed');
    }
  });

  test('a deleted clsact qdisc is created again', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const wanted = [desired('t', tc('in0', 'ingress'))];
    await host.apply(wanted);
    assert.deepEqual(await host.verify(), []);
    execFileSync('tc', ['qdisc', 'del', 'dev', 'in0', 'clsact']);
    assert.deepEqual(await host.verify(), [
      {
        what: 'tc on in0 ingress: its filter, or its clsact qdisc, was removed.',
        owners: ['XdpProgram/t'],
      },
    ]);
    loaded(await host.apply(wanted), 't');
    send('out0', 10);
    assert.equal(lab.counted('t'), 10);
  });

  test('an ingress qdisc, an XDP program and a filter of others are left alone, and said', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    execFileSync('tc', ['qdisc', 'add', 'dev', 'in0', 'ingress']);
    const object = `${import.meta.dirname}/../fixtures/count.bpf.o`;
    execFileSync('ip', ['link', 'set', 'dev', 'in0', 'xdpgeneric', 'obj', object, 'sec', 'xdp']);
    const wanted = [desired('a', xdp('in0')), desired('t', tc('in0', 'egress'))];
    try {
      const outcomes = await host.apply(wanted);
      assert.match(failed(outcomes, 'a', 'displaced'), /Another XDP program.*left alone/);
      assert.match(failed(outcomes, 't', 'displaced'), /has the qdisc ingress/);
      assert.match(execFileSync('ip', ['link', 'show', 'in0'], { encoding: 'utf8' }), /xdpgeneric/);
    } finally {
      execFileSync('ip', ['link', 'set', 'dev', 'in0', 'xdpgeneric', 'off']);
      execFileSync('tc', ['qdisc', 'del', 'dev', 'in0', 'ingress']);
    }
    const outcomes = await host.apply(wanted);
    for (const id of ['a', 't']) loaded(outcomes, id);
  });

  test('where the MTU is above what native mode takes, generic mode is taken and said', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    cable('jumbo0', 'jumbo1');
    ip('link set jumbo0 mtu 9000', 'link set jumbo1 mtu 9000');
    try {
      const outcome = (await host.apply([desired('a', xdp('jumbo0'))])).get('a');
      assert.ok(outcome?.state === 'loaded');
      assert.match(outcome.notes.join(), /jumbo0 runs it in generic mode.*MTU/);
      send('jumbo1', 10);
      assert.equal(lab.counted('a'), 10);
      await host.apply([]);
      // With fragments the driver takes it.
      const other = (await host.apply([digit(1, xdp('jumbo0'), XDP_PASS)])).get('order/1');
      assert.deepEqual(other?.state === 'loaded' && other.notes, []);
      // One without cannot join those that run there, and they go on.
      const both = await host.apply([digit(1, xdp('jumbo0'), XDP_PASS), desired('a', xdp('jumbo0'))]);
      loaded(both, 'order/1');
      assert.match(failed(both, 'a', 'attach'), /continues without it.*ERANGE.*xdp\.frags/);
      send('jumbo1', 1);
      assert.equal(lab.counted('order/1', 'trace'), 1);
    } finally {
      await host.apply([]);
      ip('link del jumbo0');
    }
  });
});
