import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { ParentObject } from '../api.ts';
import { type ApplicationSample, applicationSamples } from '../application-samples.fixture.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { interfaceFilter } from './interface-discovery.ts';
import { mapOwnerOf } from './map-owner.ts';
import { nodeCondition } from './node-condition.ts';
import { objectsOf } from './node-object.ts';
import { type Parent, parentOf } from './parent.ts';
import { stateOf } from './state.ts';
import type { Reported } from './reported.ts';
import type { NodeView, SelectedContainer } from './node-view.ts';
import { type Wanted, wantedOf } from './wanted.ts';

/** With what the API server fills in. */
function read({ kind, metadata, spec }: Pick<ApplicationSample, 'kind' | 'metadata' | 'spec'>): Parent {
  const text = JSON.stringify({ metadata: { ...metadata, uid: `u-${metadata.name}` }, spec });
  const object = JSON.parse(text, (key, value: unknown) => {
    if (value === null) return undefined;
    if (key === 'interfacesDiscoveryConfig') return { excludeInterfaces: ['lo'], ...(value as object) };
    return value;
  }) as ParentObject;
  for (const program of object.spec['programs'] as Record<string, { links?: object[] }>[]) {
    const defaults: Readonly<Record<string, object>> = {
      xdp: { proceedOn: ['Pass', 'DispatcherReturn'] },
      tc: { proceedOn: ['Pipe', 'DispatcherReturn'] },
      kprobe: { offset: 0 },
      uprobe: { offset: 0 },
      uretprobe: { offset: 0 },
    };
    for (const [field, more] of Object.entries(defaults)) {
      const member = program[field];
      if (member?.links !== undefined) member.links = member.links.map((link) => ({ ...more, ...link }));
    }
  }
  return parentOf(parentKind(kind, 'v0.6'), object);
}

const application = (name: string, programs: object[], more: object = {}): Parent =>
  read({
    kind: 'ClusterBpfApplication',
    metadata: { name },
    spec: { nodeSelector: {}, byteCode: { path: '/x.o' }, programs, ...more },
  });

const container = (pid: number, podName: string, name: string): SelectedContainer => ({
  namespace: 'acme',
  ...{ podName, name },
  place: { pid, containerId: `containerd://${pid}`, cgroupPath: undefined },
  network: BigInt(podName.length),
  hostNetwork: false,
});

const node = (containers: readonly SelectedContainer[] = []): NodeView => ({
  name: 'n1',
  primaryInterface: () => ({ name: 'ens3', why: 'ens3 has the default route' }),
  networks: () => [
    { path: undefined, interfaces: ['lo', 'ens3', 'veth1'] },
    { path: '/run/netns/blue', interfaces: ['lo', 'eth0'] },
  ],
  interfacesIn: () => ['lo', 'eth0', 'eth1'],
  select: () => containers,
});

function placesOf(all: readonly Wanted[]): string[] {
  return all.flatMap(({ member, goal }) => {
    if (!('attach' in goal)) return [];
    const { attach } = goal;
    const { spec } = member;
    if (attach.type === 'nowhere') return [`${spec.bpffunctionname} ${attach.programType} nowhere`];
    const hook =
      'hook' in attach
        ? ` ${attach.hook.interface} ${attach.hook.namespacePath ?? attach.hook.container?.pid ?? 'node'}`
        : '';
    return [`${spec.bpffunctionname} ${attach.type}${hook}`];
  });
}

const sample = (name: string, at = 0): Parent => {
  const found = applicationSamples.filter(
    ({ kind, metadata }) => !/State|Config/.test(kind) && metadata.name === name,
  );
  const one = found[at];
  assert.ok(one, name);
  return read(one);
};

suite('applications of v0.6', () => {
  test('the sample with all types has a link for each place, and one for each pod', () => {
    const containers = [container(7, 'daemon', 'bpfman'), container(8, 'daemon', 'bpfman-agent')];
    assert.deepEqual(placesOf(wantedOf(sample('clusterbpfapplication-sample'), node(containers))), [
      'kprobe_test kprobe',
      'kretprobe_test kretprobe',
      'tracepoint_test tracepoint',
      'tc_pass_test tc ens3 node',
      'tc_pass_test tc eth0 7',
      'tcx_next_test tcx ens3 node',
      'tcx_next_test tcx eth0 7',
      'uprobe_test uprobe',
      'uprobe_test uprobe',
      'uretprobe_test uretprobe',
      'uretprobe_test uretprobe',
      'xdp_pass_test xdp ens3 node',
      'xdp_pass_test xdp eth0 7',
      'fentry_test fentry',
      'fexit_test fexit',
    ]);
  });

  test('without links, each program is loaded for itself, as its type', () => {
    const all = wantedOf(sample('clusterbpfapplication-sample', 1), node());
    const types = [
      'kprobe',
      'kretprobe',
      'tracepoint',
      'tc',
      'tcx',
      'uprobe',
      'uretprobe',
      'xdp',
      'fentry',
      'fexit',
    ];
    assert.deepEqual(
      placesOf(all).map((place) => place.split(' ').slice(1).join(' ')),
      types.map((type) => `${type} nowhere`),
    );
    const [fentry] = all.filter(({ member }) => member.type === 'fentry');
    assert.ok(fentry && 'attach' in fentry.goal);
    assert.deepEqual(fentry.goal.attach, {
      ...{ type: 'nowhere', programType: 'fentry', kernelFunction: 'do_unlinkat' },
    });
  });

  test('if no pod is selected, the program is loaded without attachments, and the text says so', () => {
    const all = wantedOf(sample('clusterbpfapplication-sample-netns'), node());
    assert.deepEqual(placesOf(all), [
      'tc_pass_test tc nowhere',
      'tcx_next_test tcx nowhere',
      'xdp_pass_test xdp nowhere',
    ]);
    const texts = all.flatMap(({ goal }) => ('noContainers' in goal ? [goal.noContainers] : []));
    assert.match(
      texts[0] ?? '',
      /^spec\.programs\[0\]\.tc\.links\[0\]\.networkNamespaces selects no container/,
    );
  });

  test('discovery selects interfaces of the node and of named namespaces, except lo', () => {
    assert.deepEqual(placesOf(wantedOf(sample('clusterbpfapplication-sample-if-dicovery'), node())), [
      'tc_pass_test tc veth1 node',
      ...['tcx_next_test', 'tcx_next_test'].flatMap((name) => [
        ...[`${name} tcx ens3 node`, `${name} tcx veth1 node`, `${name} tcx eth0 /run/netns/blue`],
      ]),
      'xdp_pass_test xdp ens3 node',
      'xdp_pass_test xdp veth1 node',
      'xdp_pass_test xdp eth0 /run/netns/blue',
    ]);
  });

  const all = { interfaceSelector: { interfacesDiscoveryConfig: { interfaceAutoDiscovery: true } } };
  const xdp = (...links: object[]): object => ({ name: 'f', type: 'XDP', xdp: { links } });

  test('discovery in pods selects the interfaces of these pods', () => {
    const link = { ...all, networkNamespaces: { namespace: '', pods: {} } };
    const containers = [container(7, 'web', 'app'), container(8, 'other', 'app')];
    assert.deepEqual(placesOf(wantedOf(application('x', [xdp(link)]), node(containers))), [
      ...['f xdp eth0 7', 'f xdp eth1 7', 'f xdp eth0 8', 'f xdp eth1 8'],
    ]);
  });

  for (const [what, config, name, is] of [
    ['a name', { allowedInterfaces: ['eth0'] }, 'eth0', true],
    ['no part of a name', { allowedInterfaces: ['eth'] }, 'eth0', false],
    ['a part of a name by an expression', { allowedInterfaces: ['/th/'] }, 'eth0', true],
    ['the end by an expression', { allowedInterfaces: ['/0$/'] }, 'eth1', false],
    ['none that is excluded', { excludeInterfaces: ['eth0'] }, 'eth0', false],
    ['lo where that is not excluded', { excludeInterfaces: [] }, 'lo', true],
  ] as const) {
    test(`discovery selects ${what}`, () => {
      const found = interfaceFilter({ interfaceAutoDiscovery: true, excludeInterfaces: ['lo'], ...config });
      assert.ok(typeof found !== 'string');
      assert.equal(found(name), is);
    });
  }

  test('an invalid expression is named in the error', () => {
    const interfacesDiscoveryConfig = { interfaceAutoDiscovery: true, allowedInterfaces: ['eth0', '/(/'] };
    const [one] = wantedOf(
      application('x', [xdp({ interfaceSelector: { interfacesDiscoveryConfig } })]),
      node(),
    ).filter(({ goal }) => 'problem' in goal);
    assert.ok(one && 'problem' in one.goal);
    assert.match(
      one.goal.problem,
      /^spec\.programs\[0\]\.xdp\.links\[0\]\.interfaceSelector: interfacesDiscoveryConfig\.allowedInterfaces\[1\] is not a regular expression: /,
    );
  });

  const on = (name: string, more: object = {}): object => ({
    interfaceSelector: { interfaces: [name] },
    ...more,
  });

  test('equal links are one; two of other priorities at one place are two, and the first keeps its name', () => {
    const both = wantedOf(
      application('x', [xdp(on('eth0'), on('eth0'), on('eth0', { priority: 5 }))]),
      node(),
    );
    const [first, second, ...more] = both;
    assert.deepEqual(more, []);
    assert.ok(first && second);
    assert.equal(second.id, `${first.id}-2`);
    const [alone] = wantedOf(application('x', [xdp(on('eth0', { priority: 5 }))]), node());
    assert.equal(alone?.id, first.id);
  });

  test('the same program twice, in two entries, is two programs', () => {
    const two = wantedOf(application('x', [xdp(on('eth0')), xdp(on('eth0'))]), node());
    assert.equal(new Set(two.map(({ id }) => id)).size, 2);
  });

  const labelled = (name: string, label: string): Parent => {
    const own = application(name, [xdp(on('eth0'), on('eth1')), xdp()]);
    return {
      ...own,
      object: { ...own.object, metadata: { ...own.object.metadata, labels: { app: label } } },
    };
  };
  const sharing = (labels: object): Parent =>
    application('sharing', [xdp(on('eth2'))], { mapOwnerSelector: { matchLabels: labels } });

  for (const [what, labels, says] of [
    [
      'none',
      { app: 'none' },
      /^spec\.mapOwnerSelector selects no other ClusterBpfApplication that selects this node/,
    ],
    [
      'several',
      { app: 'two' },
      /selects 2 objects but must select exactly one: ClusterBpfApplication\/b, ClusterBpfApplication\/c/,
    ],
  ] as const) {
    test(`the owner of maps: ${what} is not found`, () => {
      const parents = [labelled('a', 'one'), labelled('b', 'two'), labelled('c', 'two'), sharing(labels)];
      const wanted = parents.flatMap((parent) => wantedOf(parent, node()));
      const found = mapOwnerOf(wanted.at(-1) as Wanted, wanted, () => true);
      assert.ok('condition' in found);
      assert.match(found.condition.message, says);
    });
  }

  test('the owner of maps is an application, by its labels or by those of its State', () => {
    for (const labels of [{ app: 'one' }, { 'bpfman.io/ownedByProgram': 'a' }]) {
      const parents = [labelled('a', 'one'), labelled('b', 'two'), sharing(labels)];
      const wanted = parents.flatMap((parent) => wantedOf(parent, node()));
      const found = mapOwnerOf(wanted.at(-1) as Wanted, wanted, () => true);
      assert.ok('owner' in found && found.owner?.startsWith('a-xdp-'));
    }
  });
});

suite('State objects', () => {
  const parent = sample('clusterbpfapplication-sample');
  const wanted = wantedOf(parent, node());
  const reported = (
    type: Parameters<typeof nodeCondition>[0],
    change: Partial<Reported> = {},
    at: readonly Wanted[] = wanted,
  ): Reported[] =>
    at.map((one) => ({
      wanted: one,
      condition: nodeCondition(type, `${type}.`),
      ...{ programId: undefined, isKept: false, isDisplaced: false, lost: [], trouble: undefined, ...change },
    }));

  test('a node that is not selected has none of its links, and is a success', () => {
    const state = stateOf(parent, reported('NotSelected'), 'n1');
    assert.equal(state.appLoadStatus, 'NotSelected');
    assert.equal(state.condition.type, 'Success');
    assert.deepEqual(state.programs?.[0], {
      ...{ name: 'kprobe_test', type: 'KProbe', programLinkStatus: 'Success', kprobe: { links: [] } },
    });
  });

  for (const [what, of, load, condition, links, link] of [
    ['pending', reported('None'), 'NotLoaded', 'Pending', 'Pending', 'NotAttached'],
    ['loaded', reported('Loaded', { programId: 7 }), 'LoadSuccess', 'Success', 'Success', 'Attached'],
    ['refused', reported('NotLoaded', { trouble: 'load' }), 'LoadError', 'Error', 'Error', 'NotAttached'],
    [
      'not attached',
      reported('NotLoaded', { trouble: 'attach' }),
      'LoadSuccess',
      'Error',
      'Error',
      'AttachError',
    ],
    [
      'kept as it was',
      reported('NotLoaded', { trouble: 'load', isKept: true, programId: 7 }),
      ...(['LoadError', 'Error', 'Error', 'Attached'] as const),
    ],
  ] as const) {
    test(`${what}: ${load}, ${condition}, ${link}`, () => {
      const state = stateOf(parent, of, 'n1');
      const [program] = state.programs ?? [];
      assert.deepEqual(
        [
          state.appLoadStatus,
          state.condition.type,
          program?.programLinkStatus,
          program?.kprobe?.links[0]?.linkStatus,
        ],
        [load, condition, links, link],
      );
    });
  }

  test('remembers each reported failure after a restart, with many failures too', () => {
    const links = Array.from({ length: 30 }, (_, at) => ({
      interfaceSelector: { interfaces: [`eth${at}`] },
    }));
    const all = wantedOf(application('many', [{ name: 'f', type: 'XDP', xdp: { links } }]), node()).flatMap(
      (one, at) => {
        const condition = nodeCondition('NotLoaded', at === 0 ? 'There is no eth.' : `There is no eth${at}.`);
        return reported('NotLoaded', { trouble: 'attach', condition }, [one]);
      },
    );
    assert.equal(all.length, 30);
    const [object] = objectsOf(all, 'n1');
    assert.ok(object);
    const status = object.statusAfter(undefined);
    const said = (one: Reported): unknown =>
      object.conditionIn(status, one)?.map(({ type, message }) => [type, message]);
    for (const one of all) assert.deepEqual(said(one), [['NotLoaded', one.condition.message]]);
    // A text that is part of another one, or is said of another link, is another failure.
    const [first, second] = all;
    assert.ok(first && second);
    assert.notDeepEqual(said({ ...second, condition: first.condition }), said(first));
    const after = object.statusAfter(status);
    assert.equal(after, status);
  });

  test('a link whose place is not known has no entry', () => {
    const away = { ...node(), primaryInterface: () => undefined };
    const [bad] = wantedOf(sample('xdp-pass-private-all-nodes'), away).filter(
      ({ goal }) => 'problem' in goal,
    );
    assert.ok(bad);
    const state = stateOf(
      sample('xdp-pass-private-all-nodes'),
      reported('NotLoaded', { trouble: 'place' }, [bad]),
      'n1',
    );
    assert.deepEqual(
      state.programs?.map(({ programLinkStatus, xdp }) => [programLinkStatus, xdp]),
      [['UpdateAttachInfoError', { links: [] }]],
    );
  });
});
