// The status of an object whose new version cannot run while the last one does.
import assert from 'node:assert/strict';
import { rmSync, writeFileSync } from 'node:fs';
import { after, afterEach, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';

const image = { url: 'registry.example/team/count:v1', imagepullpolicy: 'IfNotPresent' };
const spec = {
  nodeselector: {},
  bpffunctionname: 'count',
  interfaceselector: { interfaces: ['eth0'] },
  priority: 50,
};

suite('versions that are kept', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  test('an edit that cannot be applied leaves what runs, says both, and a later agent says the same', async () => {
    cluster.pull = async ({ url }) => {
      if (url.endsWith('typo')) throw new Error('There is no such tag.');
      return {
        digest: url.endsWith('v1') ? 'sha256:1' : 'sha256:2',
        bytes: async () => new Uint8Array(1),
        types: { count: 'xdp' },
      };
    };
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    let agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', { ...spec, bytecode: { image } });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    const edits: readonly (readonly [object, RegExp])[] = [
      [{ bytecode: { image: { ...image, url: 'registry.example/typo' } } }, /There is no such tag\./],
      [{ bpffunctionname: 'counts' }, /the image has no program counts; it has count\./],
      [
        { mapownerselector: { matchLabels: { 'bpfman.io/ownedByProgram': 'nobody' } } },
        /spec\.mapownerselector selects no BpfProgram/,
      ],
      [{ nodeselector: { matchExpressions: [{ key: 'a', operator: 'Near' }] } }, /"Near" is not a valid/],
    ];
    const undo = {
      ...{ bytecode: { image }, bpffunctionname: 'count', mapownerselector: null },
      nodeselector: { matchExpressions: null },
    };
    for (const [edit, says] of edits) {
      await cluster.change('XdpProgram', 'count', edit);
      const both = new RegExp(
        `${says.source}.*The last version that ran, sha256:1, keeps running as program 100`,
        's',
      );
      await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError', undefined, both);
      if (says === edits[0]?.[1]) {
        agent[Symbol.dispose]();
        agent = cluster.agent('n1', kernel);
        const applied = kernel.applied;
        await until(() => kernel.applied > applied);
      }
      const [object] = await cluster.objects();
      assert.equal(object?.metadata.annotations?.['bpfman.io/ProgramId'], '100');
      assert.match(object?.status?.conditions?.[0]?.message ?? '', both);
      await cluster.change('XdpProgram', 'count', undo);
      await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    }
    assert.deepEqual(kernel.loads.length, 1);
    const verdicts = cluster.lines.map((line) => (JSON.parse(line) as { verdict: string }).verdict);
    assert.deepEqual(
      verdicts,
      edits.flatMap(() => ['outdated', 'running']),
    );
    agent[Symbol.dispose]();
  });

  test('where a program is attached is unknown for a while: it stays, unless its object no longer selects the node', async () => {
    cluster.containers.answer();
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', { ...spec, bytecode: { path: cluster.object } });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    const pods = { matchExpressions: [{ key: 'a', operator: 'Near' }] };
    await cluster.change('XdpProgram', 'count', { containers: { pods } });
    const both = /containers\.pods: "Near" is not a valid.*The last version that ran, .* as program 100/s;
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError', undefined, both);
    assert.equal(kernel.programs.size, 1);
    await cluster.change('XdpProgram', 'count', { nodeselector: { matchLabels: { tier: 'edge' } } });
    await until(() => kernel.programs.size === 0);
  });

  test('a deleted file is not a success; one that comes again is', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', { ...spec, bytecode: { path: cluster.object } });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    rmSync(cluster.object);
    // A change of another object wakes the node: files are looked at every few seconds.
    await cluster.create('XdpProgram', 'wakes', { ...spec, bytecode: { path: '/no/such/file.o' } });
    await cluster.untilCondition(
      'XdpProgram',
      'count',
      'ReconcileError',
      undefined,
      /ENOENT.*keeps running/s,
    );
    assert.equal(kernel.programs.size, 1);
    writeFileSync(cluster.object, 'not looked into');
    await cluster.change('XdpProgram', 'wakes', { priority: 7 });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    assert.equal(kernel.loads.length, 1);
  });
});
