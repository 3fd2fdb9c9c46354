import assert from 'node:assert/strict';
import { before, suite, test } from 'node:test';

import { probeFeatures } from '../../../../lib/ebpf/features/features.ts';
import type { Attach, DesiredProgram, Outcome, ProgramHost } from '../desired.ts';
import {
  bytecode,
  cable,
  desired,
  Lab,
  NAME,
  obstacle,
  ownNetwork,
  send,
  tc,
  tcx,
  u32,
  xdp,
} from '../lab.fixture.ts';
import { readChain } from '../running/chains.ts';

const TC_ACT_OK = 0;
const TC_ACT_PIPE = 3;
const TCX_NEXT = -1;
const XDP_DROP = 1;
const XDP_PASS = 2;

/** A program that returns this code. */
function program(
  id: string,
  attach: Attach,
  verdict: number,
  rest: Partial<DesiredProgram> = {},
): DesiredProgram {
  return desired(id, attach, {
    digest: 'sha256:order',
    bytecode: () => Promise.resolve(bytecode('order')),
    functionName: `${attach.type}_trace`,
    globals: { verdict: u32(verdict) },
    ...rest,
  });
}

function notes(outcomes: ReadonlyMap<string, Outcome>): Readonly<Record<string, string>> {
  return Object.fromEntries(
    [...outcomes].map(([id, outcome]) => [
      id,
      outcome.state === 'loaded' ? outcome.notes.join() : outcome.state,
    ]),
  );
}

/** As an agent does, with packets between. */
async function rounds(host: ProgramHost, wanted: readonly DesiredProgram[], from: string) {
  await host.apply(wanted);
  await host.verify();
  send(from, 150);
  await host.verify();
  return notes(await host.apply(wanted));
}

suite('programs that no packet reaches', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
  });

  test('TC and XDP: reports the programs behind the one that ends the chain, as long as it does', async () => {
    await using lab = new Lab();
    const host = await lab.host();
    const chain = (verdict: number) => [
      program('first', tc('in0', 'ingress', 1), TC_ACT_PIPE),
      program('ends', tc('in0', 'ingress', 2), verdict, { owner: 'TcProgram/ends' }),
      program('behind', tc('in0', 'ingress', 3), TC_ACT_PIPE),
      program('tenant', tc('in0', 'ingress', 4), TC_ACT_PIPE, { namespace: 'acme' }),
      program('x', xdp('out0', 1), XDP_DROP, { owner: 'XdpProgram/x' }),
      program('y', xdp('out0', 2), XDP_PASS),
    ];
    const reported = await rounds(host, chain(TC_ACT_OK), 'out0');
    const why = 'runs before it and returns codes that are not in its proceedon (pipe, dispatcher_return)';
    assert.deepEqual(reported, {
      ...{ first: '', ends: '', x: '', y: '' },
      behind: `no packet reaches it on in0 ingress: TcProgram/ends ${why}`,
      tenant: `no packet reaches it on in0 ingress: another program ${why}`,
    });
    // A chain of XDP on the other end is met by packets of the other direction.
    send('in0', 150);
    await host.verify();
    assert.match(
      notes(await host.apply(chain(TC_ACT_OK)))['y'] ?? '',
      /on out0: XdpProgram\/x runs before it/,
    );
    const views = readChain({ bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state }, 'in0');
    assert.deepEqual(
      views[0]?.members.map(({ notes: of }) => of.length),
      [0, 0, 1, 1],
    );
    assert.equal((await rounds(host, chain(TC_ACT_PIPE), 'out0'))['behind'], '');
  });

  const { tcx: feature } = probeFeatures(['tcx']).attach;
  test(
    'TCX: also behind a program of others',
    { skip: feature.available ? false : feature.detail },
    async () => {
      await using lab = new Lab();
      const host = await lab.host();
      const wanted = [
        program('next', tcx('in0', 'ingress', 1), TCX_NEXT),
        program('ends', tcx('in0', 'ingress', 2), TC_ACT_OK, { owner: 'TcxProgram/ends' }),
        program('behind', tcx('in0', 'ingress', 3), TCX_NEXT),
      ];
      assert.deepEqual(await rounds(host, wanted, 'out0'), {
        ...{ next: '', ends: '' },
        behind:
          'no packet reaches it on in0 ingress: TcxProgram/ends runs before it and returns something else than TCX_NEXT (-1)',
      });
      assert.equal((await rounds(host, [wanted[0], wanted[2]] as DesiredProgram[], 'out0'))['behind'], '');
      await host.apply([]);
      await using others = new Lab();
      await (await others.host()).apply([program('first', tcx('in0', 'ingress', 1), TC_ACT_OK)]);
      assert.match(
        (await rounds(host, [program('behind', tcx('in0', 'ingress', 1), TCX_NEXT)], 'out0'))['behind'] ?? '',
        /on in0 ingress: program \d+ \(tcx_trace\), which is not Rampart's, runs before it/,
      );
    },
  );
});
