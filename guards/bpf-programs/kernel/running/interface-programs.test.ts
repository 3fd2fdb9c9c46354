import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { join } from 'node:path';
import { before, suite, test } from 'node:test';

import { openPin } from '../pins/pin.ts';
import { programInfo } from '../info.ts';
import { attachTcx } from '../link/tcx.ts';
import { addClsact, setFilter } from '../link/traffic-control.ts';
import { findInterface } from '../../../../lib/netlink/interface.ts';
import { RouteSocket } from '../../../../lib/netlink/route.ts';
import { NetworkPlace } from '../place/network-place.ts';
import { cable, desired, ip, Lab, loaded, NAME, obstacle, ownNetwork, tc, tcx, xdp } from '../lab.fixture.ts';
import { readChain } from './chains.ts';
import { interfacePrograms } from './interface-programs.ts';

const fixture = (name: string): string => join(import.meta.dirname, '..', 'fixtures', `${name}.bpf.o`);

suite('programs on interfaces', { skip: obstacle() ?? false }, () => {
  before(() => {
    ownNetwork();
    cable('in0', 'out0');
    cable('far0', 'far1');
  });

  test('all of them, those of others too, and how they are attached', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    using network = NetworkPlace.own();
    assert.deepEqual(interfacePrograms(options, network), []);
    const host = await lab.host();
    const outcomes = await host.apply([
      desired('x', xdp('in0', 10)),
      desired('y', xdp('in0', 20)),
      desired('generic', xdp('lo')),
      desired('t', tc('in0', 'egress')),
    ]);
    for (const id of outcomes.keys()) loaded(outcomes, id);
    using socket = new RouteSocket();
    const index = (name: string): number => findInterface(socket, name)?.index ?? 0;
    const [generation = ''] = execFileSync('ls', [lab.programPins('t')], { encoding: 'utf8' }).split('\n');
    using classifier = openPin(join(lab.programPins('t'), generation, 'program'));
    assert.ok(classifier !== undefined);
    const { id: classifierId, name } = programInfo(classifier.fd);
    addClsact(socket, index('far0'));
    const place = { interfaceIndex: index('far0'), direction: 'ingress', priority: 7, handle: 3 } as const;
    setFilter(socket, place, classifier, 'theirs', { replace: false });

    const found = interfacePrograms(options, network);
    assert.deepEqual(
      found
        .filter((one) => one.interface !== 'far0')
        .map(({ interface: at, hook, direction, mode, linkId, owners }) => [
          ...[at, hook, direction ?? mode, linkId !== undefined],
          owners.map((owner) => owner.replace('XdpProgram/', '')).join(),
        ]),
      [
        ['lo', 'xdp', 'generic', true, 'generic'],
        ['in0', 'xdp', 'native', true, 'x,y'],
        ['in0', 'tc', 'egress', false, 't'],
      ],
    );
    const theirs = found.filter((one) => one.interface === 'far0');
    assert.deepEqual(
      theirs.map(({ hook, direction, filter, programId, name: shown }) => [
        hook,
        direction,
        filter,
        programId,
        shown,
      ]),
      [['tc', 'ingress', { chain: 0, priority: 7, handle: 3, block: undefined }, classifierId, name]],
    );
    assert.deepEqual(interfacePrograms(options, network, 'out0'), []);
  });

  test('filters of a block that interfaces share are shown on each', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    loaded(await (await lab.host()).apply([desired('tc', tc('out0', 'ingress'))]), 'tc');
    const [own] = interfacePrograms(options, NetworkPlace.own(), 'out0');
    cable('block0', 'block1');
    const pin = join(lab.programPins('tc'), '1', 'program');
    for (const name of ['block0', 'block1'])
      execFileSync('tc', ['qdisc', 'add', 'dev', name, 'ingress_block', '22', 'clsact']);
    execFileSync('tc', ['filter', 'add', 'block', '22', 'prio', '9', 'bpf', 'da', 'object-pinned', pin]);
    for (const name of ['block0', 'block1']) {
      const [shared, ...more] = interfacePrograms(options, NetworkPlace.own(), name);
      assert.deepEqual(
        [shared?.interface, shared?.hook, shared?.direction, shared?.filter, more],
        [name, 'tc', 'ingress', { chain: 0, priority: 9, handle: 1, block: 22 }, []],
      );
      assert.notEqual(shared?.programId, own?.programId);
    }
    ip('link delete block0');
  });

  test('in another network namespace', async () => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    const place = { name: `rampart-net-${process.pid}` };
    execFileSync('ip', ['netns', 'add', place.name]);
    try {
      ip(`link add there0 type veth peer name eth0 netns ${place.name}`);
      const words = ['xdpgeneric', 'object', fixture('count'), 'section', 'xdp'];
      execFileSync('ip', ['-n', place.name, 'link', 'set', 'dev', 'eth0', ...words]);
      using network = NetworkPlace.at(`/run/netns/${place.name}`);
      const [found, ...more] = interfacePrograms(options, network);
      assert.deepEqual(
        [found?.interface, found?.hook, found?.mode, found?.linkId, found?.owners, more],
        ['eth0', 'xdp', 'generic', undefined, [], []],
      );
    } finally {
      execFileSync('ip', ['netns', 'delete', place.name]);
    }
  });

  test('TCX programs are in the chain, also those of others', async (t) => {
    await using lab = new Lab();
    const options = { bpffs: lab.bpffs, name: NAME, stateDirectory: lab.state };
    const outcomes = await (
      await lab.host()
    ).apply([
      desired('second', tcx('in0', 'egress', 20)),
      desired('first', tcx('in0', 'egress', 10), { pod: 'shop/web', container: 'server' }),
    ]);
    const outcome = outcomes.get('first');
    if (outcome?.state === 'failed') {
      t.skip(outcome.message);
      return;
    }
    using socket = new RouteSocket();
    using stranger = openPin(join(lab.programPins('second'), '1', 'program'));
    assert.ok(stranger !== undefined);
    const index = findInterface(socket, 'in0')?.index ?? 0;
    await (await lab.host()).apply([desired('first', tcx('in0', 'egress', 10), { pod: 'shop/web' })]);
    using _link = attachTcx(stranger, index, 'egress', { at: 'end' }, 0n);
    const [view, ...more] = readChain(options, 'in0');
    assert.deepEqual(
      [view?.kind, view?.direction, view?.programId, view?.pod, more],
      ['tcx', 'egress', undefined, 'shop/web', []],
    );
    assert.deepEqual(
      view?.members.map(({ owner, priority, proceedOn }) => [owner, priority, proceedOn.join()]),
      [
        ['XdpProgram/first', 10, 'next'],
        [undefined, undefined, 'next'],
      ],
    );
    using network = NetworkPlace.own();
    assert.deepEqual(
      interfacePrograms(options, network, 'in0').map(({ hook, direction, owners, linkId }) => [
        ...[hook, direction, owners.join()],
        linkId !== undefined,
      ]),
      [
        ['tcx', 'egress', 'XdpProgram/first', true],
        ['tcx', 'egress', '', true],
      ],
    );
    assert.equal((await (await lab.host()).list())[0]?.pod, 'shop/web');
    assert.equal((await (await lab.host()).list())[0]?.container, undefined);
  });
});
