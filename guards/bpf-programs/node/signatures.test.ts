// Images of a real registry, with real signatures.
import assert from 'node:assert/strict';
import { generateKeyPairSync, type KeyObject } from 'node:crypto';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, afterEach, before, suite, test } from 'node:test';

import { stringify } from 'yaml';

import { type Pushed, RegistryFixture } from '../../../lib/oci/registry.fixture.ts';
import type { Registry } from '../../../lib/oci/registry.ts';
import { signAs, type Signing } from '../../../lib/oci/signatures/signing.fixture.ts';
import { SigstoreFixture } from '../../../lib/oci/signatures/sigstore.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { bytecodeImage, countObject } from '../image.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { openBytecodeRegistry } from './bytecode-registry.ts';
import { BytecodeVerification } from './bytecode-verification.ts';
import { imagePuller } from './image-bytecode.ts';
import { BpfCluster } from './node.fixture.ts';

const alice = generateKeyPairSync('ec', { namedCurve: 'P-256' });
const eve = generateKeyPairSync('ed25519');
const pubKey = (key: KeyObject): object => ({
  ...{ kind: 'pubKey', owner: 'alice', key: key.export({ type: 'spki', format: 'pem' }) },
});
const byAlice = { apiVersion: 'v1', allOf: [pubKey(alice.publicKey)] };

suite('signatures of images', () => {
  let cluster: BpfCluster;
  let server: RegistryFixture;
  let registry: Registry;
  let directory: string;
  const stack = new AsyncDisposableStack();
  before(async () => {
    cluster = stack.use(await BpfCluster.start());
    server = stack.use(await RegistryFixture.start());
    directory = stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-bpf-signatures-'))).path;
    const options = { bpfInsecureRegistry: [server.host] };
    registry = stack.use(
      await openBytecodeRegistry(join(directory, 'images'), options, createLogger({ level: 'silent' })),
    );
  });
  afterEach(() => cluster.clear());
  after(() => stack.disposeAsync());

  let count = 0;
  async function push(...by: readonly Signing['by'][]): Promise<Pushed & { readonly repository: string }> {
    count += 1;
    const repository = `team/count-${count}`;
    const image = bytecodeImage(countObject, { xdp_count: 'xdp' });
    const pushed = await server.push(repository, 'v1', { ...image, annotations: { count: String(count) } });
    if (by.length > 0) await sign({ ...pushed, repository }, ...by);
    return { ...pushed, repository };
  }

  const sign = (pushed: Pushed & { readonly repository: string }, ...by: readonly Signing['by'][]) =>
    signAs(
      server,
      pushed,
      pushed.repository,
      by.map((one) => ({ by: one })),
    );

  /** Sets the requirements of the agents that are started next. */
  function require(configuration: object | undefined): void {
    const path = join(directory, `verification-${(count += 1)}.yml`);
    if (configuration !== undefined) writeFileSync(path, stringify(configuration));
    cluster.verification = configuration === undefined ? undefined : new BytecodeVerification(path);
    cluster.pull = imagePuller({ registry, client: cluster.client, verification: cluster.verification });
  }

  const bytecode = ({ reference }: Pushed, more: object = {}): object => ({
    bytecode: { image: { url: reference, imagepullpolicy: 'IfNotPresent', ...more } },
  });
  const create = (name: string, more: object): Promise<unknown> =>
    cluster.create('XdpProgram', name, {
      ...{ nodeselector: {}, bpffunctionname: 'xdp_count', priority: 50 },
      interfaceselector: { interfaces: ['eth0'] },
      ...more,
    });

  /** The condition that the node reports of a program, once it is of this type and says this. */
  async function untilReported(name: string, type: string, says: RegExp): Promise<void> {
    await cluster.untilObjects((objects) => {
      const own = objects.find(({ metadata }) => metadata.labels?.['bpfman.io/ownedByProgram'] === name);
      const [condition] = own?.status?.conditions ?? [];
      return condition?.type === type && says.test(condition.message);
    });
  }

  test('with a key: what is signed runs, what is not is refused until it is', async () => {
    await cluster.addNode('n1');
    require(byAlice);
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    const [signed, foreign, unsigned] = [
      await push(alice.privateKey),
      await push(eve.privateKey),
      await push(),
    ];
    await create('signed', bytecode(signed));
    await create('foreign', bytecode(foreign));
    await create('unsigned', bytecode(unsigned));
    await untilReported('signed', 'Loaded', new RegExp(signed.digest));
    await untilReported(
      'foreign',
      'BytecodeSelectorError',
      /^spec\.bytecode\.image: .*is not trusted: none of its 1 signatures matches: public key of alice/,
    );
    await untilReported(
      'unsigned',
      'BytecodeSelectorError',
      /is not trusted: it has no signatures .*Sign it with/,
    );
    assert.deepEqual(kernel.loads.length, 1);
    await sign(unsigned, alice.privateKey);
    await untilReported('unsigned', 'Loaded', new RegExp(unsigned.digest));
  });

  test('keyless, with a trust root beside the configuration', async () => {
    await cluster.addNode('n1');
    const sigstore = new SigstoreFixture();
    writeFileSync(join(directory, 'trusted_root.json'), JSON.stringify(sigstore.trustRoot));
    const dev = {
      kind: 'genericIssuer',
      issuer: 'https://issuer.example',
      subject: { equal: 'dev@team.example' },
    };
    require({ apiVersion: 'v1', sigstoreTrustConfig: 'trusted_root.json', anyOf: { signatures: [dev] } });
    const kernel = new FixtureKernel();
    using _agent = cluster.agent('n1', kernel);
    await create('dev', bytecode(await push((payload) => sigstore.sign(payload))));
    await create(
      'eve',
      bytecode(await push((payload) => sigstore.sign(payload, { subject: 'eve@x.example' }))),
    );
    await untilReported('dev', 'Loaded', /^xdp_count of /);
    await untilReported(
      'eve',
      'BytecodeSelectorError',
      /its subject is eve@x\.example, not dev@team\.example/,
    );
    assert.equal(kernel.loads.length, 1);
  });

  test('a refused image leaves what runs, and both are said: after an edit, and after a restart with a configuration', async () => {
    await cluster.addNode('n1');
    require(undefined);
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    let agent = cluster.agent('n1', kernel);
    const [first, second] = [await push(), await push()];
    await create('count', bytecode(first));
    await untilReported('count', 'Loaded', new RegExp(first.digest));
    agent[Symbol.dispose]();

    require(byAlice);
    agent = cluster.agent('n1', kernel);
    const keeps = `The last version that ran, ${first.digest}, keeps running as program 100`;
    const both = new RegExp(`${first.reference} .*it has no signatures[^]*${keeps}`);
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError', undefined, both);
    await cluster.change('XdpProgram', 'count', bytecode(second));
    const edited = new RegExp(`${second.reference} .*it has no signatures[^]*${keeps}`);
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError', undefined, edited);
    assert.deepEqual([kernel.programs.size, kernel.loads.length], [1, 1]);
    agent[Symbol.dispose]();

    // All images are in the cache: what may run is decided anew all the same.
    require({ ...byAlice, allowUnsigned: true });
    agent = cluster.agent('n1', kernel);
    await untilReported('count', 'Loaded', new RegExp(second.digest));
    await cluster.change('XdpProgram', 'count', bytecode(await push(eve.privateKey)));
    await untilReported('count', 'BytecodeSelectorError', /none of its 1 signatures matches/);
    assert.equal(kernel.loads.length, 2);
    agent[Symbol.dispose]();
  });

  test('the registry is down: the signatures that it had are verified', async () => {
    await cluster.addNode('n1');
    await using own = await RegistryFixture.start();
    const image = bytecodeImage(countObject, { xdp_count: 'xdp' });
    const signed = await own.push('team/count', 'v1', image);
    await signAs(own, signed, 'team/count', [{ by: alice.privateKey }]);
    const unsigned = await own.push('team/other', 'v1', { ...image, annotations: { other: 'yes' } });
    await using cache = await openBytecodeRegistry(
      join(directory, 'own'),
      { bpfInsecureRegistry: [own.host] },
      createLogger({ level: 'silent' }),
    );
    require(byAlice);
    const { client, verification } = cluster;
    cluster.pull = imagePuller({ registry: cache, client, verification });
    for (const { reference } of [signed, unsigned]) await cache.pull(reference);
    const kernel = new FixtureKernel();
    const agent = cluster.agent('n1', kernel);
    await create('signed', bytecode(signed));
    await untilReported('signed', 'Loaded', /^xdp_count of /);
    agent[Symbol.dispose]();
    await own.pause();
    const empty = new FixtureKernel();
    using _later = cluster.agent('n1', empty);
    await create('unsigned', bytecode(unsigned, { imagepullpolicy: 'Never' }));
    await untilReported('unsigned', 'BytecodeSelectorError', /cannot fetch|there is no connection/);
    await until(() => empty.loads.length === 1);
    await untilReported('signed', 'Loaded', /^xdp_count of /);
  });

  test('a file cannot be signed, so it is refused unless unsigned bytecode is allowed', async () => {
    await cluster.addNode('n1');
    require(byAlice);
    const kernel = new FixtureKernel();
    const agent = cluster.agent('n1', kernel);
    await create('file', { bytecode: { path: cluster.object } });
    await untilReported(
      'file',
      'BytecodeSelectorError',
      /^spec\.bytecode\.path: .* a file cannot have signatures/,
    );
    agent[Symbol.dispose]();
    require({ ...byAlice, allowUnsigned: true });
    using _later = cluster.agent('n1', kernel);
    await untilReported('file', 'Loaded', /^xdp_count of /);
  });

  const unusable: readonly (readonly [object, RegExp])[] = [
    [{ ...byAlice, allowUnsignd: true }, /unknown key "allowUnsignd" \(known: .*allowUnsigned/],
    [{ ...byAlice, allowUnsigned: 'yes' }, /allowUnsigned must be true or false/],
    [{ apiVersion: 'v1', allowUnsigned: true }, /it requires no signature/],
    [{ ...byAlice, sigstoreTrustConfig: 'no.json' }, /no\.json: it does not exist/],
  ];
  test('a configuration that cannot be used allows nothing, and its objects say why', async () => {
    const artifact = await registry.pull((await push(alice.privateKey)).reference);
    for (const [configuration, says] of unusable) {
      require(configuration);
      const { verification } = cluster;
      assert.ok(verification);
      await assert.rejects(verification.checkImage(registry, artifact, {}), says);
      assert.throws(() => verification.checkFile('/count.bpf.o'), says);
    }
    await cluster.addNode('n1');
    using _agent = cluster.agent('n1', new FixtureKernel());
    await create('count', bytecode(await push(alice.privateKey)));
    await untilReported('count', 'BytecodeSelectorError', /no\.json: it does not exist/);
  });
});
