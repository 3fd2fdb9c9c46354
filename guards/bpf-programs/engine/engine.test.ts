import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { labelValue, labelValueProblems } from '../../../lib/kube/selectors/label-names.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { ParentObject } from '../api.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { samples } from '../samples.fixture.ts';
import { labels, nodeObjectName, sanitized } from './names.ts';
import { type Parent, parentOf, readGlobalData } from './parent.ts';
import type { NodeView, SelectedContainer } from './node-view.ts';
import { tcMask, xdpMask } from './proceed-on.ts';
import { type Wanted, wantedOf } from './wanted.ts';

/** With what the API server fills in. */
function parent(kind: string, spec: object, name = 'p', namespace = 'acme'): Parent {
  const metadata = { name, namespace, uid: `uid-${kind}-${name}`, generation: 1 };
  return parentOf(parentKind(kind), { metadata, spec } as unknown as ParentObject);
}

const container = (change: Partial<SelectedContainer> = {}): SelectedContainer => ({
  namespace: 'acme',
  podName: 'web',
  name: 'app',
  place: { pid: 7, containerId: 'containerd://1', cgroupPath: undefined },
  network: 1n,
  hostNetwork: false,
  ...change,
});

const node = (containers: readonly SelectedContainer[] = []): NodeView => ({
  name: 'n1',
  primaryInterface: () => ({ name: 'ens3', why: 'ens3 has the default route' }),
  networks: () => [],
  interfacesIn: () => [],
  select: () => containers,
});

const common = {
  nodeselector: {},
  bytecode: { image: { url: 'registry.example/x' } },
  bpffunctionname: 'fn',
};
const defaults = { proceedon: ['pass', 'dispatcher_return'] };
const xdp = { ...common, ...defaults, interfaceselector: { interfaces: ['eth0'] }, priority: 5 };
const tc = { ...xdp, proceedon: ['pipe', 'dispatcher_return'], direction: 'egress' };
const probe = { ...common, func_name: 'try_to_wake_up', offset: 0, retprobe: false };
const uprobe = { ...common, func_name: 'malloc', target: '/usr/lib/libc_2.so', offset: 0, retprobe: false };
const app = (...programs: readonly object[]): object => ({ ...common, programs });

/** As the API server fills them in; actions of XDP or TC are the same here. */
function withDefaults(spec: object): object {
  const { programs, ...rest } = spec as { programs?: Readonly<Record<string, unknown>>[] };
  const members = programs?.map((one) =>
    Object.fromEntries(
      Object.entries(one).map(([name, member]) =>
        typeof member === 'object' ? [name, { proceedon: [], offset: 0, ...member }] : [name, member],
      ),
    ),
  );
  return { proceedon: [], offset: 0, ...rest, ...(members && { programs: members }) };
}

/** The visible parts of a node's object. */
const seen = ({ attachPoint, annotations, goal, specType, finalizer }: Wanted): unknown[] => [
  specType,
  attachPoint,
  Object.entries(annotations).filter(([key]) => key !== 'bpfman.io/bpfProgramAttachPoint'),
  'attach' in goal ? goal.attach.type : Object.keys(goal)[0],
  finalizer,
];

suite('lists the programs that a node runs for an object', () => {
  const of = (kind: string): string => `bpfman.io.${kind}controller`;
  const rows: readonly [string, object, unknown[]][] = [
    [
      'XdpProgram',
      xdp,
      ['xdp', 'eth0', [[`${of('xdpprogram')}/interface`, 'eth0']], 'xdp', `${of('xdpprogram')}/finalizer`],
    ],
    [
      'TcProgram',
      tc,
      ['tc', 'eth0-egress', [[`${of('tcprogram')}/interface`, 'eth0']], 'tc', `${of('tcprogram')}/finalizer`],
    ],
    [
      'TcxProgram',
      tc,
      [
        'tcx',
        'eth0-egress',
        [[`${of('tcxprogram')}/interface`, 'eth0']],
        'tcx',
        `${of('tcxprogram')}/finalizer`,
      ],
    ],
    [
      'XdpProgram',
      { ...xdp, interfaceselector: { primarynodeinterface: true } },
      ['xdp', 'ens3', [[`${of('xdpprogram')}/interface`, 'ens3']], 'xdp', `${of('xdpprogram')}/finalizer`],
    ],
    [
      'KprobeProgram',
      probe,
      [
        'kprobe',
        'try-to-wake-up',
        [[`${of('kprobeprogram')}/function`, 'try_to_wake_up']],
        'kprobe',
        `${of('kprobeprogram')}/finalizer`,
      ],
    ],
    [
      'KprobeProgram',
      { ...probe, retprobe: true },
      [
        'kprobe',
        'try-to-wake-up',
        [[`${of('kprobeprogram')}/function`, 'try_to_wake_up']],
        'kretprobe',
        `${of('kprobeprogram')}/finalizer`,
      ],
    ],
    [
      'FentryProgram',
      probe,
      [
        'fentry',
        'try-to-wake-up',
        [[`${of('fentryprogram')}/function`, 'try_to_wake_up']],
        'fentry',
        `${of('fentryprogram')}/finalizer`,
      ],
    ],
    [
      'FexitProgram',
      probe,
      [
        'fexit',
        'try-to-wake-up',
        [[`${of('fexitprogram')}/function`, 'try_to_wake_up']],
        'fexit',
        `${of('fexitprogram')}/finalizer`,
      ],
    ],
    [
      'TracepointProgram',
      { ...common, names: ['syscalls/sys_enter_kill'] },
      [
        'tracepoint',
        'syscalls-sys-enter-kill',
        [[`${of('tracepointprogram')}/tracepoint`, 'syscalls/sys_enter_kill']],
        'tracepoint',
        `${of('tracepointprogram')}/finalizer`,
      ],
    ],
    [
      'UprobeProgram',
      uprobe,
      [
        'uprobe',
        'usr-lib-libc-2.so-malloc',
        [[`${of('uprobeprogram')}/target`, '/usr/lib/libc_2.so']],
        'uprobe',
        `${of('uprobeprogram')}/finalizer`,
      ],
    ],
    [
      'UprobeProgram',
      { ...uprobe, retprobe: true },
      [
        'uprobe',
        'usr-lib-libc-2.so-malloc',
        [[`${of('uprobeprogram')}/target`, '/usr/lib/libc_2.so']],
        'uretprobe',
        `${of('uprobeprogram')}/finalizer`,
      ],
    ],
    [
      'BpfApplication',
      app({ type: 'Kretprobe', kretprobe: probe }),
      [
        'application',
        'try-to-wake-up',
        [[`${of('kprobeprogram')}/function`, 'try_to_wake_up']],
        'kretprobe',
        `${of('bpfapplication')}/finalizer`,
      ],
    ],
    [
      'BpfApplication',
      app({ type: 'Uretprobe', uretprobe: uprobe }),
      [
        'application',
        'usr-lib-libc-2.so-malloc',
        [[`${of('uprobeprogram')}/target`, '/usr/lib/libc_2.so']],
        'uretprobe',
        `${of('bpfapplication')}/finalizer`,
      ],
    ],
  ];
  for (const [kind, spec, expected] of rows) {
    test(`${kind} ${JSON.stringify(expected[1])} ${String(expected[3])}`, () => {
      const wanted = wantedOf(parent(kind, spec), node());
      assert.deepEqual(wanted.map(seen), [expected]);
      const [one] = wanted;
      const begin = parentKind(kind).single === undefined ? `p-${String(expected[3])}` : 'p';
      assert.match(one?.name ?? '', new RegExp(`^${begin}-[0-9a-f]{8}$`));
      assert.equal(one?.id, one?.name);
    });
  }

  test('an object of a namespace is attached in containers alone', () => {
    const spec = { ...xdp, containers: { pods: {} } };
    const [one, ...more] = wantedOf(parent('XdpNsProgram', spec), node([container()]));
    assert.equal(more.length, 0);
    assert.equal(one?.attachPoint, 'eth0-web-app');
    assert.equal(one?.id, `acme/${one?.name}`);
    assert.equal(one?.annotations['bpfman.io.xdpnsprogramcontroller/containerpid'], '7');
    const [without] = wantedOf(parent('XdpNsProgram', xdp), node([container()]));
    assert.deepEqual(without?.goal, { problem: 'spec.containers is required in XdpNsProgram.' });
    const [none] = wantedOf(parent('XdpNsProgram', spec), node());
    assert.equal(none?.attachPoint, 'eth0-no-containers-on-node');
  });

  test('two interfaces, two tracepoints and two pods of one name are two each, and a name given twice is one', () => {
    const count = (kind: string, spec: object, containers: readonly SelectedContainer[] = []): number =>
      new Set(wantedOf(parent(kind, spec), node(containers)).map(({ id }) => id)).size;
    assert.equal(count('XdpProgram', { ...xdp, interfaceselector: { interfaces: ['a', 'b', 'a'] } }), 2);
    assert.equal(count('TracepointProgram', { ...common, names: ['a/b_c', 'a/b-c', 'a/b_c'] }), 2);
    const pods = [container(), container({ namespace: 'other', network: 2n })];
    assert.equal(count('XdpProgram', { ...xdp, containers: { pods: {}, namespace: '' } }, pods), 2);
  });

  test('programs of one type and function in an application are all there, each with its own id', () => {
    const programs = ['a', 'b', 'c'].map((name) => ({
      type: 'XDP',
      xdp: { ...xdp, interfaceselector: { interfaces: [name] } },
    }));
    const wanted = wantedOf(parent('BpfApplication', app(...programs)), node());
    assert.deepEqual(
      wanted.map((one) => one.labels[labels.appProgramId]),
      ['xdp-fn', 'xdp-fn-2', 'xdp-fn-3'],
    );
  });

  test('the ids of programs in an application are those of bpfman', () => {
    const programs = [
      { type: 'XDP', xdp },
      { type: 'TC', tc },
      { type: 'TCX', tcx: tc },
      { type: 'Kprobe', kprobe: probe },
      { type: 'Kretprobe', kretprobe: probe },
      { type: 'Uprobe', uprobe },
      { type: 'Fentry', fentry: probe },
      { type: 'Tracepoint', tracepoint: { ...common, names: ['a/b'] } },
    ];
    assert.deepEqual(
      parent('BpfApplication', app(...programs)).members.map(({ appProgramId }) => appProgramId),
      [
        ...['xdp-fn', 'tc-egress-fn', 'tcx-egress-fn', 'kprobe-try-to-wake-up-fn'],
        ...['kretprobe-try-to-wake-up-fn', 'uprobe-malloc-fn', 'fentry-try-to-wake-up-fn', 'tracepoint-fn'],
      ],
    );
  });

  test('names and labels of all samples are ones that the API takes', () => {
    for (const { kind, metadata, spec } of samples) {
      const { name, namespace } = metadata;
      const written = withDefaults(spec);
      for (const one of wantedOf(parent(kind, written, name, namespace), node([container()]))) {
        for (const value of Object.values(one.labels)) assert.deepEqual(labelValueProblems(value), []);
        assert.match(one.name, /^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$/);
      }
    }
  });
});

suite('names', () => {
  test('any text becomes the value of a label, another text another one', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 300 }), fc.string({ maxLength: 300 }), (one, other) => {
        assert.deepEqual(labelValueProblems(labelValue(one)), []);
        if (one !== other) assert.notEqual(labelValue(one), labelValue(other));
      }),
    );
    assert.equal(labelValue('as-it.is_'.slice(0, -1)), 'as-it.is');
  });

  test('a long name is shortened, and stays the same', () => {
    const name = nodeObjectName(`${'a'.repeat(250)}.b`, ['x']);
    assert.ok(name.length <= 253);
    assert.equal(name, nodeObjectName(`${'a'.repeat(250)}.b`, ['x']));
    assert.notEqual(name, nodeObjectName(`${'a'.repeat(250)}.b`, ['y']));
  });

  test('targets become parts of names', () => {
    assert.equal(sanitized('/usr/Bin/a_b'), 'usr-bin-a-b');
  });
});

test('masks have the bits of the kernel, and bit 31 for the dispatcher', () => {
  assert.equal(xdpMask(['pass', 'dispatcher_return']), 0x8000_0004);
  assert.equal(xdpMask(['aborted', 'drop', 'tx', 'redirect']), 0b11011);
  assert.equal(tcMask(['pipe', 'dispatcher_return']), 0x8000_0010);
  assert.equal(tcMask(['unspec', 'ok', 'trap']), 1 | 2 | (1 << 9));
  assert.equal(xdpMask([]), 0);
});

test('global data are base64 or lists of bytes, and what is neither is named', () => {
  const bytes = (written: unknown): number[] | string => {
    const read = readGlobalData({ limit: written });
    return 'values' in read ? [...(read.values['limit'] ?? [])] : read.problem;
  };
  assert.deepEqual(bytes([1, 255]), [1, 255]);
  assert.deepEqual(bytes('AQID'), [1, 2, 3]);
  for (const [written, problem] of [
    [[1, -1], /^spec\.globaldata\.limit has -1 at index 1/],
    [[1.5], /has 1\.5 at index 0/],
    [['1'], /has "1" at index 0/],
    ['not base64', /is not base64/],
    ['', /is empty/],
    [[], /is empty/],
    [7, /is neither base64 nor a list/],
    [null, /is neither/],
  ] as const) {
    assert.match(String(bytes(written)), problem);
  }
  fc.assert(
    fc.property(fc.uint8Array({ minLength: 1, maxLength: 64 }), (value) => {
      assert.deepEqual(bytes([...value]), [...value]);
      assert.deepEqual(bytes(Buffer.from(value).toString('base64')), [...value]);
    }),
  );
});
