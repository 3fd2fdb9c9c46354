// Applications of bpfman v0.6 on the kernel of this machine: `rampart standalone`, kubectl, packets.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until as waitFor } from '../../lib/testing/until.fixture.ts';
import { cable, ip, obstacle, ownNetwork, send } from '../../guards/bpf-programs/kernel/lab.fixture.ts';
import { countObject } from '../../guards/bpf-programs/image.fixture.ts';
import { stateTypes } from '../../guards/bpf-programs/api.ts';
import type { ApplicationStatus } from '../../guards/bpf-programs/state-schema.ts';
import { probeFeatures } from '../../lib/ebpf/features/features.ts';
import { BpfStandalone } from './standalone.fixture.ts';

const objectOf = (name: string): string => countObject.replace('count.bpf', `${name}.bpf`);

/** In JSON, which YAML has in it. */
const application = (name: string, programs: readonly object[], more: object = {}): string =>
  JSON.stringify({
    apiVersion: 'bpfman.io/v1alpha1',
    kind: 'ClusterBpfApplication',
    metadata: { name },
    spec: { nodeSelector: {}, byteCode: { path: countObject }, programs, ...more },
  });
const xdp = (name: string, ...links: object[]): object => ({ name, type: 'XDP', xdp: { links } });
const on = (name: string, more: object = {}): object => ({
  interfaceSelector: { interfaces: [name] },
  ...more,
});

const tcxFeature = probeFeatures(['tcx']).attach.tcx;

suite('applications of bpfman v0.6 on the kernel of this machine', { skip: obstacle() ?? false }, () => {
  let machine: BpfStandalone;
  before(async () => {
    ownNetwork();
    machine = new BpfStandalone();
    await machine.start();
  });
  after(() => machine[Symbol.asyncDispose]());

  const apply = (text: string): void => {
    const applied = machine.apply(text);
    assert.equal(applied.code, 0, applied.stderr);
  };
  const until = (type: string, name: string): Promise<string> =>
    machine.untilCondition(type, 'clusterbpfapplication', name);
  const remove = (...names: readonly string[]): void => {
    const deleted = machine.process.kubectl('delete', 'clusterbpfapplication', ...names, '--timeout=60s');
    assert.equal(deleted.code, 0, deleted.stderr);
  };
  /** The first value of a map. */
  const valueIn = async (name: string, map: string): Promise<unknown> => {
    const owner = `ClusterBpfApplication/${name}`;
    const dumped = await machine.bpf('map', 'dump', owner, map, '-o', 'json');
    assert.equal(dumped.code, 0, dumped.stderr);
    return (JSON.parse(dumped.stdout) as { entries: { value: unknown }[] }).entries[0]?.value;
  };
  const stateOf = async (name: string): Promise<ApplicationStatus> => {
    const labelSelector = `bpfman.io/ownedByProgram=${name}`;
    const { items } = await machine.process.client.list(stateTypes.Cluster, {}, { labelSelector });
    assert.equal(items.length, 1);
    return items[0]?.status as ApplicationStatus;
  };
  const linksOf = async (name: string): Promise<unknown[]> =>
    ((await stateOf(name)).programs ?? []).flatMap(({ xdp: { links } = { links: [] } }) =>
      links.map((link) => [link['interfaceName'], link.linkStatus]),
    );

  test('an application counts the packets of its link, over a restart too, and nothing is left of it', async () => {
    cable('count0', 'count1');
    apply(application('count', [xdp('xdp_count', on('count0'))]));
    assert.equal(await until('Success', 'count'), '1 program is loaded and 1 link is attached on lab.');
    send('count1', 100);
    assert.equal(await valueIn('count', 'packets'), 100);
    const state = await stateOf('count');
    await machine.process.stop('SIGKILL');
    send('count1', 50);
    await machine.start();
    await until('Success', 'count');
    send('count1', 50);
    assert.equal(await valueIn('count', 'packets'), 200);
    assert.deepEqual(await stateOf('count'), state);
    remove('count');
    assert.equal(machine.process.kubectl('get', 'clusterbpfapplicationstates', '-o', 'name').stdout, '');
    assert.match((await machine.bpf('list')).stdout, /^No eBPF programs/);
    ip('link delete count0');
  });

  deepTest(
    'a program without links is loaded with its maps; links, and the list of programs, may change',
    async () => {
      cable('later0', 'later1');
      const unlinked = { name: 'xdp_count', type: 'XDP', xdp: { links: null } };
      apply(application('later', [unlinked]));
      assert.equal(await until('Success', 'later'), '1 program is loaded and 0 links are attached on lab.');
      assert.equal(await valueIn('later', 'packets'), 0);
      send('later1', 10);
      apply(application('later', [xdp('xdp_count', on('later0'))]));
      await waitFor('a link', async () => (await linksOf('later')).length === 1);
      await until('Success', 'later');
      send('later1', 10);
      assert.equal(await valueIn('later', 'packets'), 10);
      // Both programs count in one map, because they come from one load.
      const tc = (...links: object[]): object => ({ name: 'tc_count', type: 'TC', tc: { links } });
      const ingress = on('later0', { direction: 'Ingress' });
      apply(application('later', [xdp('xdp_count', on('later0')), tc(ingress)]));
      await waitFor('another program', async () => (await stateOf('later')).programs?.length === 2);
      await until('Success', 'later');
      send('later1', 10);
      assert.equal(await valueIn('later', 'packets'), 30);
      apply(application('later', [unlinked, tc()]));
      await waitFor('no links', async () => (await linksOf('later')).length === 0);
      await until('Success', 'later');
      send('later1', 10);
      assert.equal(await valueIn('later', 'packets'), 30);
      remove('later');
      ip('link delete later0');
    },
  );

  deepTest(
    'a link that cannot be attached fails alone; of programs that cannot all be loaded none is, and what ran stays',
    async () => {
      cable('some0', 'some1');
      const functions = xdp('xdp_functions', on('some0'), on('none0'));
      const more = { byteCode: { path: objectOf('awkward') } };
      apply(application('some', [functions], more));
      assert.match(await until('Error', 'some'), /There is no interface none0 on this node/);
      assert.deepEqual(await linksOf('some'), [
        ['some0', 'Attached'],
        ['none0', 'AttachError'],
      ]);
      const { appLoadStatus, programs } = await stateOf('some');
      assert.deepEqual([appLoadStatus, programs?.[0]?.programLinkStatus], ['LoadSuccess', 'Error']);
      const good = xdp('xdp_functions', on('some0'));
      const bad = { name: 'xdp_refused', type: 'XDP', xdp: {} };
      apply(application('none', [good, bad], more));
      const said = await until('Error', 'none');
      assert.match(said, /xdp_refused/);
      const none = await stateOf('none');
      assert.equal(none.appLoadStatus, 'LoadError');
      assert.deepEqual(
        none.programs?.map(({ name, programId }) => [name, programId]),
        [
          ['xdp_functions', undefined],
          ['xdp_refused', undefined],
        ],
      );
      apply(application('none', [good], more));
      await until('Success', 'none');
      const [running] = (await stateOf('none')).programs ?? [];
      apply(application('none', [good, bad], more));
      assert.match(await until('Error', 'none'), /xdp_refused/);
      const [kept] = (await stateOf('none')).programs ?? [];
      assert.equal(kept?.programId, running?.programId);
      assert.deepEqual(await linksOf('none'), [['some0', 'Attached']]);
      remove('some', 'none');
      ip('link delete some0');
    },
  );

  deepTest(
    'priorities order the links of several applications, which may share maps; an edit changes the order in place',
    async () => {
      cable('order0', 'order1');
      const traced = (name: string, digit: number, priority: number, more: object = {}): string => {
        const [verdict] = [[2, 0, 0, 0]];
        return application(name, [xdp('xdp_trace', on('order0', { priority }))], {
          byteCode: { path: objectOf('order') },
          globalData: { digit: [digit, 0, 0, 0, 0, 0, 0, 0], verdict },
          ...more,
        });
      };
      const shared = { mapOwnerSelector: { matchLabels: { 'bpfman.io/ownedByProgram': 'one' } } };
      apply(traced('one', 1, 20));
      await until('Success', 'one');
      apply(traced('two', 2, 10, shared));
      await until('Success', 'two');
      send('order1', 1);
      assert.equal(await valueIn('one', 'trace'), 21);
      const uuid = async (): Promise<unknown> => (await stateOf('two')).programs?.[0]?.xdp?.links[0]?.uuid;
      const first = await uuid();
      apply(traced('two', 2, 30, shared));
      await waitFor(
        'the other order',
        async () => (await stateOf('two')).programs?.[0]?.xdp?.links[0]?.['priority'] === 30,
      );
      send('order1', 1);
      assert.equal(await valueIn('one', 'trace'), 2112);
      assert.equal(await uuid(), first);
      remove('two', 'one');
      ip('link delete order0');
    },
  );

  test('an edited byteCode or globalData takes effect; until it can, the version that ran stays, and is named', async () => {
    using directory = new TemporaryDirectory();
    cable('edit0', 'edit1');
    const edited = (path: string, globals: object): string =>
      application('edit', [xdp('xdp_trace', on('edit0'))], {
        ...{ byteCode: { path }, globalData: { verdict: [2, 0, 0, 0], ...globals } },
      });
    const digit = (value: number): object => ({ digit: [value, 0, 0, 0, 0, 0, 0, 0] });
    const traced = async (): Promise<unknown> => {
      send('edit1', 1);
      return await valueIn('edit', 'trace');
    };
    const programId = async (): Promise<number> => {
      const [program] = (await stateOf('edit')).programs ?? [];
      return program?.programId ?? 0;
    };
    const order = objectOf('order');
    apply(edited(order, digit(1)));
    await until('Success', 'edit');
    assert.equal(await traced(), 1);
    const first = await programId();
    const keeps = new RegExp(`The last version that ran, sha256:\\S+, keeps running as program ${first}\\b`);

    apply(edited(order, { ...digit(2), nosuch: [0] }));
    const unknown = await until('Error', 'edit');
    assert.match(unknown, /cannot set nosuch: the program has no such global variable/);
    assert.match(unknown, keeps);
    assert.equal(await traced(), 11);
    apply(edited(countObject, digit(2)));
    await waitFor('the other reason', async () => !(await until('Error', 'edit')).includes('nosuch'));
    assert.match(await until('Error', 'edit'), keeps);
    assert.equal(await traced(), 111);
    assert.deepEqual([await programId(), await linksOf('edit')], [first, [['edit0', 'Attached']]]);

    apply(edited(order, digit(2)));
    await until('Success', 'edit');
    const second = await programId();
    assert.notEqual(second, first);
    assert.equal(await traced(), 1112);
    // Another file, by one byte behind its end.
    const copy = directory.at('order.bpf.o');
    writeFileSync(copy, Buffer.concat([readFileSync(order), Buffer.alloc(1)]));
    apply(edited(copy, digit(2)));
    await waitFor('another version', async () => (await programId()) !== second);
    await until('Success', 'edit');
    assert.equal(await traced(), 11_122);
    remove('edit');
    ip('link delete edit0');
  });

  deepTest('priorities order the TC and TCX links of two applications', async () => {
    const kinds = [
      ['TC', [3, 0, 0, 0]],
      ...(tcxFeature.available ? [['TCX', [255, 255, 255, 255]] as const] : []),
    ] as const;
    for (const [type, next] of kinds) {
      cable('prio0', 'prio1');
      const traced = (name: string, digit: number, priority: number, more: object = {}): string => {
        const links = [on('prio0', { direction: 'Ingress', priority })];
        const field = type.toLowerCase();
        return application(name, [{ name: `${field}_trace`, type, [field]: { links } }], {
          byteCode: { path: objectOf('order') },
          globalData: { digit: [digit, 0, 0, 0, 0, 0, 0, 0], verdict: next },
          ...more,
        });
      };
      const shared = { mapOwnerSelector: { matchLabels: { 'bpfman.io/ownedByProgram': 'behind' } } };
      apply(traced('behind', 1, 20));
      await until('Success', 'behind');
      apply(traced('before', 2, 10, shared));
      await until('Success', 'before');
      send('prio1', 1);
      assert.equal(await valueIn('behind', 'trace'), 21, type);
      remove('before', 'behind');
      ip('link delete prio0');
    }
  });

  deepTest(
    'interfaces are discovered as they come and go, on the node and in network namespaces with a name',
    async () => {
      cable('found0', 'other1');
      const interfacesDiscoveryConfig = { interfaceAutoDiscovery: true, allowedInterfaces: ['/^found/'] };
      const found = { interfaceSelector: { interfacesDiscoveryConfig } };
      apply(application('found', [xdp('xdp_count', found)]));
      await waitFor('found0', async () => (await linksOf('found')).length === 1);
      cable('found2', 'other3');
      await waitFor('found2', async () => (await linksOf('found')).length === 2);
      await until('Success', 'found');
      send('other3', 10);
      assert.equal(await valueIn('found', 'packets'), 10);
      const name = `rampart-test-${process.pid}`;
      execFileSync('ip', ['netns', 'add', name]);
      try {
        execFileSync('ip', ['-n', name, 'link', 'add', 'found4', 'type', 'veth', 'peer', 'other5']);
        await waitFor('found4', async () => (await linksOf('found')).length === 3);
        const links = (await stateOf('found')).programs?.[0]?.xdp?.links ?? [];
        assert.deepEqual(
          links.map((link) => [link['interfaceName'], link['netnsPath']]),
          [
            ['found0', undefined],
            ['found2', undefined],
            ['found4', `/run/netns/${name}`],
          ],
        );
      } finally {
        execFileSync('ip', ['netns', 'delete', name]);
      }
      ip('link delete found2');
      await waitFor('one', async () => (await linksOf('found')).length === 1);
      await until('Success', 'found');
      remove('found');
      ip('link delete found0');
    },
  );
});
