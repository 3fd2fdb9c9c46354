import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { parseAllDocuments } from 'yaml';

import { namespaces } from '../../lib/kube/object/object.ts';
import { parentKinds } from './api.ts';
import { parentKind } from './parent-kind.fixture.ts';
import { BpfCluster } from './node/node.fixture.ts';
import { type Sample, samples } from './samples.fixture.ts';

const image = { image: { url: 'registry.example/count:v1' } };
const eth0 = { interfaces: ['eth0'] };
const xdp = { nodeselector: {}, bpffunctionname: 'f', bytecode: image, interfaceselector: eth0, priority: 1 };
const tc = { ...xdp, direction: 'ingress' };
const kprobe = { nodeselector: {}, bpffunctionname: 'f', bytecode: image, func_name: 'do_exit' };
const uprobe = {
  nodeselector: {},
  bpffunctionname: 'f',
  bytecode: image,
  func_name: 'malloc',
  target: 'libc',
};
const tracepoint = { nodeselector: {}, bpffunctionname: 'f', bytecode: image, names: ['a/b'] };
const app = (...programs: object[]): object => ({ nodeselector: {}, bytecode: image, programs });
const containers = { pods: {} };
const without = (spec: object, field: string): object => {
  const { [field]: _left, ...rest } = spec as Record<string, unknown>;
  return rest;
};

suite('the kinds of bpfman.io/v1alpha1', () => {
  let cluster: BpfCluster;
  before(async () => {
    cluster = await BpfCluster.start();
  });
  after(() => cluster[Symbol.asyncDispose]());

  const create = async (object: Sample): Promise<void> => {
    const made = await cluster.client.create(
      parentKind(object.kind).type,
      object as unknown as Parameters<typeof cluster.client.create<never>>[1],
      { fieldValidation: 'Strict' },
    );
    assert.ok(made, `${object.kind} ${object.metadata.name}`);
  };

  test('there are 16 kinds that people write, of which 6 are namespaced; and 2 of v0.6', () => {
    const old = parentKinds.filter(({ api }) => api === 'v0.5');
    assert.equal(old.length, 16);
    assert.equal(old.filter(({ scope }) => scope === 'Namespaced').length, 6);
    assert.deepEqual(
      parentKinds.filter(({ api }) => api === 'v0.6').map(({ kind, scope }) => [kind, scope]),
      [
        ['ClusterBpfApplication', 'Cluster'],
        ['BpfApplication', 'Namespaced'],
      ],
    );
  });

  test('reads every sample of bpfman-operator unchanged', async () => {
    assert.equal(new Set(samples.map(({ kind, metadata: { name } }) => `${kind}/${name}`)).size, 24);
    for (const sample of samples) await create(sample);
  });

  test('the guide has an example of each kind, all of them are taken', async () => {
    const guide = readFileSync(join(import.meta.dirname, '../../docs/bpf-programs.md'), 'utf8');
    const examples = [...guide.matchAll(/^(?:```yaml|.*<<'YAML')\n([^]*?)^(?:```|YAML)$/gm)]
      .flatMap(([, text = '']) => parseAllDocuments(text).map((document) => document.toJS() as Sample))
      .filter(({ apiVersion }) => apiVersion.startsWith('bpfman.io/'));
    const otherNames = new Set(['BpfApplicationProgram', 'BpfNsApplicationProgram']);
    assert.deepEqual(
      new Set(examples.map(({ kind }) => kind)),
      new Set(parentKinds.map(({ type }) => type.kind).filter((kind) => !otherNames.has(kind))),
    );
    await cluster.client.create(namespaces, { metadata: { name: 'shop' } });
    // That of v0.6 is another kind of the same name.
    const isOther = ({ kind, metadata }: Sample): boolean =>
      kind === 'BpfApplication' && metadata.namespace !== undefined;
    for (const example of examples.filter((one) => !isOther(one))) await create(example);
  });

  test('fields with a default may be left out', async () => {
    const made = await cluster.create('TcProgram', 'defaults', tc);
    assert.deepEqual(made.spec['proceedon'], ['pipe', 'dispatcher_return']);
    assert.equal(made.spec.bytecode.image?.imagepullpolicy, 'IfNotPresent');
    const other = await cluster.create('XdpProgram', 'defaults', { ...xdp, containers });
    assert.deepEqual(other.spec['proceedon'], ['pass', 'dispatcher_return']);
    assert.equal((other.spec['containers'] as { namespace: string }).namespace, '');
    const third = await cluster.create('KprobeProgram', 'defaults', kprobe);
    assert.deepEqual([third.spec['offset'], third.spec['retprobe']], [0, false]);
  });

  const refused: readonly [string, string, object, RegExp][] = [
    [
      'neither image nor path',
      'XdpProgram',
      { ...xdp, bytecode: {} },
      /spec\.bytecode: .*exactly one of image and path is required/,
    ],
    [
      'image and path',
      'XdpProgram',
      { ...xdp, bytecode: { ...image, path: '/x.o' } },
      /exactly one of image and path/,
    ],
    ['a relative path', 'XdpProgram', { ...xdp, bytecode: { path: 'x.o' } }, /path must be absolute/],
    ['no nodeselector', 'XdpProgram', without(xdp, 'nodeselector'), /spec\.nodeselector: Required/],
    ['no function', 'XdpProgram', without(xdp, 'bpffunctionname'), /spec\.bpffunctionname: Required/],
    ['no priority', 'XdpProgram', without(xdp, 'priority'), /spec\.priority: Required/],
    ['a priority above 1000', 'XdpProgram', { ...xdp, priority: 1001 }, /less than or equal to 1000/],
    [
      'no interface',
      'XdpProgram',
      { ...xdp, interfaceselector: { interfaces: [] } },
      /spec\.interfaceselector\.interfaces.*at least 1/,
    ],
    [
      'no selector of interfaces',
      'XdpProgram',
      { ...xdp, interfaceselector: {} },
      /exactly one of interfaces and primarynodeinterface/,
    ],
    [
      'both selectors',
      'XdpProgram',
      { ...xdp, interfaceselector: { ...eth0, primarynodeinterface: true } },
      /exactly one of interfaces/,
    ],
    [
      'a primary interface that is none',
      'XdpProgram',
      { ...xdp, interfaceselector: { primarynodeinterface: false } },
      /only true is accepted/,
    ],
    [
      'a long name of an interface',
      'XdpProgram',
      { ...xdp, interfaceselector: { interfaces: ['a'.repeat(16)] } },
      /may not be more than 15|15 characters/,
    ],
    [
      'an action of TC for XDP',
      'XdpProgram',
      { ...xdp, proceedon: ['pipe'] },
      /spec\.proceedon\[0\]: Unsupported value/,
    ],
    ['no direction', 'TcProgram', xdp, /spec\.direction: Required/],
    [
      'an offset of a kretprobe',
      'KprobeProgram',
      { ...kprobe, offset: 4, retprobe: true },
      /offset cannot be set for kretprobes/,
    ],
    [
      'a negative offset',
      'KprobeProgram',
      { ...kprobe, offset: -4 },
      /spec\.offset.*greater than or equal to 0/,
    ],
    ['no tracepoint', 'TracepointProgram', { ...tracepoint, names: [] }, /spec\.names.*at least 1/],
    [
      'half a tracepoint',
      'TracepointProgram',
      { ...tracepoint, names: ['sys_enter_openat'] },
      /spec\.names\[0\]/,
    ],
    [
      'a uprobe without a place',
      'UprobeProgram',
      without(uprobe, 'func_name'),
      /func_name or an offset is required/,
    ],
    ['no target', 'UprobeProgram', without(uprobe, 'target'), /spec\.target: Required/],
    [
      'containers without pods',
      'XdpProgram',
      { ...xdp, containers: { namespace: 'acme' } },
      /spec\.containers\.pods: Required/,
    ],
    ...(
      [
        ['not base64', 'globaldata that is not base64', /spec\.globaldata\.limit.* must be of type byte/],
        ['', 'empty globaldata', /spec\.globaldata\.limit.* must be of type byte/],
        [[], 'globaldata without bytes', /spec\.globaldata\.limit.* at least 1 items/],
        [[1, 256], 'globaldata with an item that is no byte', /spec\.globaldata\.limit\[1\].* 255/],
        [['1'], 'globaldata with an item that is no number', /spec\.globaldata\.limit\[0\].* integer/],
        [7, 'globaldata that is a number', /spec\.globaldata\.limit.* must be of type byte/],
        [{}, 'globaldata that is an object', /spec\.globaldata\.limit.* must be of type byte/],
      ] as const
    ).map(([limit, what, pattern]): [string, string, object, RegExp] => [
      what,
      'XdpProgram',
      { ...xdp, globaldata: { limit } },
      pattern,
    ]),
    ['no programs', 'BpfApplication', app(), /spec\.programs.*at least 1/],
    ['a type without its member', 'BpfApplication', app({ type: 'XDP' }), /xdp is required when type is XDP/],
    [
      'a member of another type',
      'BpfApplication',
      app({ type: 'Kprobe', kretprobe: kprobe }),
      /kprobe is required when type is Kprobe/,
    ],
    [
      'an offset of a Kretprobe',
      'BpfApplication',
      app({ type: 'Kretprobe', kretprobe: { ...without(kprobe, 'nodeselector'), offset: 1 } }),
      /offset cannot be set for kretprobes/,
    ],
    [
      'a type that is not there',
      'BpfApplication',
      app({ type: 'LSM' }),
      /spec\.programs\[0\]\.type: Unsupported value/,
    ],
    [
      'a file of the node in a namespaced kind',
      'XdpNsProgram',
      { ...xdp, containers, bytecode: { path: '/x.o' } },
      /path is a file of the node/,
    ],
    ['no containers in a namespaced kind', 'XdpNsProgram', xdp, /spec\.containers: Required/],
    [
      'a kprobe in a namespaced application',
      'BpfNsApplication',
      app({ type: 'Kprobe' }),
      /spec\.programs\[0\]\.type: Unsupported value/,
    ],
  ];
  for (const [what, kind, spec, pattern] of refused) {
    test(`${what} is refused, and the field is named`, async () => {
      const namespace = parentKind(kind).type.namespaced ? 'acme' : undefined;
      await assert.rejects(cluster.create(kind, 'refused', spec, namespace), pattern);
    });
  }

  test('globaldata are base64 or lists of bytes, also in server-side apply', async () => {
    for (const limit of [[0, 16, 0, 255], 'ABAAAA==']) {
      const { type } = parentKind('XdpProgram');
      const spec = { ...xdp, globaldata: { limit } };
      const applied = await cluster.client.apply(
        type,
        { metadata: { name: 'global' }, spec } as unknown as Parameters<
          typeof cluster.client.apply<never>
        >[1],
        { fieldManager: 'test', force: true },
      );
      assert.deepEqual((applied as { spec: object }).spec, {
        ...(applied as { spec: object }).spec,
        globaldata: { limit },
      });
    }
  });

  test('a namespaced kind has no field for another namespace', async () => {
    const { type } = parentKind('XdpNsProgram');
    const spec = { ...xdp, containers: { pods: {}, namespace: 'other' } };
    const object = { metadata: { name: 'crossing', namespace: 'acme' }, spec };
    await assert.rejects(
      cluster.client.create(type, object as unknown as Parameters<typeof cluster.client.create<never>>[1], {
        fieldValidation: 'Strict',
      }),
      /unknown field "spec\.containers\.namespace"/,
    );
  });
});
