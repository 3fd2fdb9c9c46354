import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';
import { gzipSync } from 'node:zlib';

import { deepTest } from '../../../lib/testing/depth.fixture.ts';
import { type Secret, secrets } from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { layerMediaType, tar, tarGzip, type TarEntry } from './archive.fixture.ts';
import { RegistryFixture, registryUser } from '../../../lib/oci/registry.fixture.ts';
import { bytecodeImage, countObject } from '../image.fixture.ts';
import { parentOf } from '../engine/parent.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { BpfCluster } from './node.fixture.ts';
import { MAX_OBJECT_BYTES } from './bytecode-file.ts';
import { openBytecodeRegistry } from './bytecode-registry.ts';
import { imagePuller } from './image-bytecode.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { patience } from '../../../lib/testing/until.fixture.ts';

const MIB = 1 << 20;

const xdp = (url: string, image: object = {}, more: object = {}): object => ({
  nodeselector: {},
  bpffunctionname: 'xdp_count',
  bytecode: { image: { url, ...image } },
  interfaceselector: { interfaces: ['eth0'] },
  priority: 50,
  ...more,
});

/** Images come from a registry on loopback, to one node. */
async function useRegistry(
  cluster: BpfCluster,
  stack: AsyncDisposableStack,
  registry: RegistryFixture,
): Promise<void> {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-bpf-images-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  const client = stack.use(
    await openBytecodeRegistry(
      directory,
      { bpfInsecureRegistry: [registry.host] },
      createLogger({ level: 'silent' }),
    ),
  );
  cluster.pull = imagePuller({ registry: client, client: cluster.client });
  await cluster.addNode('n1');
}

function pullSecret(namespace: string, name: string, host: string): Secret {
  const { username, password } = registryUser;
  const config = JSON.stringify({ auths: { [host]: { username, password } } });
  return {
    metadata: { namespace, name },
    type: 'kubernetes.io/dockerconfigjson',
    data: { '.dockerconfigjson': Buffer.from(config).toString('base64') },
  };
}

suite('bytecode in images', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('reports faults of images, and runs the intact ones', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start());
    await useRegistry(cluster, stack, registry);
    const kernel = new FixtureKernel();
    stack.use(cluster.agent('n1', kernel));
    const elf = readFileSync(countObject);
    const foreign = Buffer.from(elf);
    foreign[5] = elf[5] === 1 ? 2 : 1;
    const programs = { 'io.ebpf.programs': '{"xdp_count":"xdp"}', 'io.ebpf.maps': '{"packets":"array"}' };
    const file = (content: Uint8Array, name = 'count.bpf.o'): TarEntry => ({ name, content });
    const rows: readonly [string, readonly TarEntry[], Record<string, string>, string, RegExp][] = [
      ['whole', [file(elf)], programs, 'Loaded', /runs as program/],
      [
        'older',
        [file(elf)],
        { 'io.ebpf.bpf_function_name': 'xdp_count', 'io.ebpf.filename': 'count.bpf.o' },
        'Loaded',
        /runs/,
      ],
      ['silent', [file(elf)], {}, 'Loaded', /runs/],
      [
        'lying',
        [file(elf)],
        { ...programs, 'io.ebpf.programs': '{"xdp_other":"xdp"}' },
        'BytecodeSelectorError',
        /^spec\.bpffunctionname: according to its labels, the image has no program xdp_count; it has xdp_other\.$/,
      ],
      [
        'broken',
        [file(elf)],
        { ...programs, 'io.ebpf.maps': '["packets"]' },
        'BytecodeSelectorError',
        /label io\.ebpf\.maps of .* is .*must be a JSON object/,
      ],
      [
        'foreign',
        [file(foreign)],
        programs,
        'BytecodeSelectorError',
        /it is big-endian, and this node is little-endian/,
      ],
      [
        'text',
        [file(Buffer.from('not an object file'.repeat(8)))],
        programs,
        'BytecodeSelectorError',
        /it is not an ELF file/,
      ],
      ['empty', [], programs, 'BytecodeSelectorError', /its layer contains no file/],
      [
        'two',
        [file(elf), file(elf, 'other.o')],
        programs,
        'BytecodeSelectorError',
        /several files, .*count\.bpf\.o, other\.o/,
      ],
      [
        'linked',
        [{ name: 'count.bpf.o', type: '2', link: '/etc/shadow' }],
        programs,
        'BytecodeSelectorError',
        /link/,
      ],
      ['leading-out', [file(elf, '../../count.bpf.o')], programs, 'BytecodeSelectorError', /\.\./],
      ['absolute', [file(elf, '/count.bpf.o')], programs, 'BytecodeSelectorError', /\/count\.bpf\.o/],
      [
        'hard-linked',
        [file(elf), { name: 'again.o', type: '1', link: 'count.bpf.o' }],
        programs,
        'BytecodeSelectorError',
        /link/,
      ],
      ['device', [{ name: 'count.bpf.o', type: '3' }], programs, 'BytecodeSelectorError', /device/],
      [
        'huge',
        [file(Buffer.alloc(MAX_OBJECT_BYTES + 1))],
        programs,
        'BytecodeSelectorError',
        /count\.bpf\.o has 16777217 bytes, and the limit is 16777216/,
      ],
      [
        'many',
        Array.from({ length: 5000 }, (_, at) => file(Buffer.alloc(0), `${at}.txt`)),
        programs,
        'BytecodeSelectorError',
        /files/,
      ],
    ];
    for (const [name, entries, labels] of rows) {
      const { reference } = await registry.push(`team/${name}`, 'v1', {
        layers: [{ mediaType: layerMediaType, bytes: tarGzip(entries) }],
        config: { architecture: 'amd64', os: 'linux', config: { Labels: labels } },
      });
      await cluster.create('XdpProgram', name, xdp(reference));
    }
    const layer = { mediaType: layerMediaType, bytes: tarGzip([file(elf)]) };
    const config = { architecture: 'amd64', os: 'linux', config: { Labels: programs } };
    const incompressible = { mediaType: layerMediaType, bytes: randomBytes(MAX_OBJECT_BYTES + 1) };
    const layered: readonly [string, readonly (typeof layer)[], RegExp][] = [
      ['no-layer', [], /it has 0 layers/],
      ['two-layers', [layer, layer], /it has 2 layers/],
      ['huge-layer', [incompressible], /layer.*16777217|16777216/s],
      ['no-archive', [{ ...layer, bytes: Buffer.from('no gzip, no tar') }], /no-archive/],
    ];
    for (const [name, layers] of layered) {
      const { reference } = await registry.push(`team/${name}`, 'v1', { layers, config });
      await cluster.create('XdpProgram', name, xdp(reference));
    }
    // An index: the image for this machine is used, and a missing one is reported.
    const own = process.arch === 'arm64' ? 'linux/arm64' : 'linux/amd64';
    const whole = await registry.push('team/arches', 'own', { layers: [layer], config });
    const other = await registry.push('team/arches', 'other', { layers: [], config });
    const both = await registry.pushIndex('team/arches', 'both', { 'linux/s390x': other, [own]: whole });
    const without = await registry.pushIndex('team/arches', 'without', { 'linux/s390x': other });
    await cluster.create('XdpProgram', 'both', xdp(both.reference));
    await cluster.create('XdpProgram', 'without', xdp(without.reference));
    await cluster.create('XdpProgram', 'missing', xdp(`${registry.host}/team/nothing:v1`));
    await cluster.create(
      'XdpProgram',
      'never',
      xdp(`${registry.host}/team/two:v2`, { imagepullpolicy: 'Never' }),
    );
    const all = [
      ...rows,
      ['missing', [], {}, 'BytecodeSelectorError', /team\/nothing:v1/] as const,
      ['never', [], {}, 'BytecodeSelectorError', /team\/two:v2/] as const,
      ...layered.map(([name, , says]) => [name, [], {}, 'BytecodeSelectorError', says] as const),
      ['both', [], {}, 'Loaded', new RegExp(whole.digest)] as const,
      ['without', [], {}, 'BytecodeSelectorError', new RegExp(own)] as const,
    ];
    const decided = await cluster.untilObjects(
      (objects) =>
        objects.length === all.length &&
        objects.every(({ status }) => (status?.conditions?.[0]?.type ?? 'None') !== 'None'),
    );
    for (const [name, , , type, pattern] of all) {
      const object = decided.find(({ metadata }) => metadata.labels?.['bpfman.io/ownedByProgram'] === name);
      const condition = object?.status?.conditions?.[0];
      assert.equal(condition?.type, type, `${name}: ${condition?.message}`);
      assert.match(condition.message, pattern, `${name}: ${condition.message}`);
    }
    assert.equal(kernel.programs.size, 4);
  });

  deepTest('layers that unpack to gibibytes cost their limit, and the object says it', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start());
    await useRegistry(cluster, stack, registry);
    stack.use(cluster.agent('n1', new FixtureKernel()));
    // gzip(1): what is behind the end of one member is the next. 4 MiB of them are 4 GiB of a file that says its size.
    const zeros = gzipSync(Buffer.alloc(64 * MIB));
    const file = tar([{ name: 'count.bpf.o', size: 4096 * MIB }]).subarray(0, 512);
    const members = [gzipSync(file), ...Array.from({ length: 64 }, () => zeros)];
    const bomb = { mediaType: layerMediaType, bytes: Buffer.concat(members) };
    const { reference } = await registry.push('team/bomb', 'v1', { layers: [bomb] });
    const names = Array.from({ length: 8 }, (_, at) => `bomb-${at}`);
    const peakMib = (): number => process.resourceUsage().maxRSS / 1024;
    const idle = peakMib();
    await Promise.all(names.map((name) => cluster.create('XdpProgram', name, xdp(reference))));
    const messages = new Map<string, string>();
    await cluster.untilObjects((objects) => {
      for (const { metadata, status } of objects) {
        const { type = 'None', message = '' } = status?.conditions?.[0] ?? {};
        if (type !== 'None') messages.set(metadata.name ?? '', `${type}: ${message}`);
      }
      return messages.size === names.length;
    });
    for (const message of messages.values())
      assert.match(
        message,
        /^BytecodeSelectorError: .*bomb.* is too large: decompressed, it exceeds \d+ bytes/,
      );
    // As much as the agent's pod may have in all is 512 MiB.
    assert.ok(peakMib() - idle < 200, `${peakMib() - idle} MiB more than before`);
  });

  test('a pull secret lets in, of its own namespace only for a namespaced program', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start({ password: true }));
    await useRegistry(cluster, stack, registry);
    const kernel = new FixtureKernel();
    stack.use(cluster.agent('n1', kernel));
    cluster.containers.answer();
    const { reference } = await registry.push(
      'team/count',
      'v1',
      bytecodeImage(countObject, { xdp_count: 'xdp' }),
    );
    await cluster.client.create(secrets, pullSecret('acme', 'registry', registry.host));
    const named = (namespace: string): object => ({ imagepullsecret: { name: 'registry', namespace } });
    await cluster.create('XdpProgram', 'open', xdp(reference));
    await cluster.create('XdpProgram', 'gone', xdp(reference, named('other')));
    await cluster.create('XdpProgram', 'known', xdp(reference, named('acme')));
    const messages = new Map<string, string>();
    await cluster.untilObjects((objects) => {
      for (const { metadata, status } of objects) {
        const { type = 'None', message = '' } = status?.conditions?.[0] ?? {};
        messages.set(metadata.labels?.['bpfman.io/ownedByProgram'] ?? '', `${type}: ${message}`);
      }
      return messages.size === 3 && [...messages.values()].every((one) => !one.startsWith('None'));
    });
    assert.match(messages.get('known') ?? '', /^Loaded/);
    assert.match(messages.get('gone') ?? '', /there is no Secret other\/registry/);
    assert.match(
      messages.get('open') ?? '',
      /^BytecodeSelectorError: .*(401|authentication|credentials|refused)/i,
    );

    const spec = xdp(reference, named('acme'), { containers: { pods: {} } });
    const foreign = await cluster.create('XdpNsProgram', 'foreign', spec, 'other');
    const parent = parentOf(parentKind('XdpNsProgram'), foreign);
    const { image } = parent.bytecode;
    assert.ok(image);
    await assert.rejects(
      cluster.pull(image, parent, patience()),
      /imagepullsecret\.namespace is acme: a XdpNsProgram may use only Secrets of its own namespace, which is other/,
    );
  });

  deepTest('a tag that moves is followed with Always, and a registry that is down ends nothing', async () => {
    await using stack = new AsyncDisposableStack();
    const registry = stack.use(await RegistryFixture.start());
    await useRegistry(cluster, stack, registry);
    const kernel = new FixtureKernel();
    const first = cluster.agent('n1', kernel);
    const { reference, digest } = await registry.push(
      'team/count',
      'v1',
      bytecodeImage(countObject, { xdp_count: 'xdp' }),
    );
    await cluster.create('XdpProgram', 'count', xdp(reference, { imagepullpolicy: 'Always' }));
    await cluster.untilObjects(([one]) => one?.status?.conditions?.[0]?.message.includes(digest) === true);
    first[Symbol.dispose]();
    const moved = await registry.push('team/count', 'v1', {
      ...bytecodeImage(countObject, { xdp_count: 'xdp' }),
      annotations: { moved: 'yes' },
    });
    assert.notEqual(moved.digest, digest);
    const second = cluster.agent('n1', kernel);
    await cluster.untilObjects(
      ([one]) => one?.status?.conditions?.[0]?.message.includes(moved.digest) === true,
    );
    second[Symbol.dispose]();
    await registry.pause();
    stack.use(cluster.agent('n1', kernel));
    const [object] = await cluster.untilObjects(
      ([one]) => one?.status?.conditions?.[0]?.message.includes('may not be the latest') === true,
    );
    assert.equal(object?.status?.conditions?.[0]?.type, 'Loaded');
    assert.equal(kernel.loads.length, 2);
  });
});
