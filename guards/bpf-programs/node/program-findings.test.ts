import assert from 'node:assert/strict';
import { after, afterEach, before, suite, test } from 'node:test';

import { assertFinding } from '../../../guard/stream/finding-schema.fixture.ts';
import { readFinding } from '../../../guard/stream/read-finding.ts';
import { events } from '../../../lib/kube/events/event-object.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { programFindings } from '../findings/program-finding.ts';
import { FixtureKernel } from '../program-host.fixture.ts';
import { BpfCluster } from './node.fixture.ts';

const xdp = (path: string): object => ({
  ...{ nodeselector: {}, bpffunctionname: 'count', bytecode: { path }, priority: 50 },
  interfaceselector: { interfaces: ['eth0'] },
});

suite('findings of programs', () => {
  let cluster: BpfCluster;
  before(async () => void (cluster = await BpfCluster.start()));
  afterEach(() => cluster.clear());
  after(() => cluster[Symbol.asyncDispose]());

  /** `not-loaded high XdpProgram/count: reason` */
  const said = (): string[] =>
    cluster.lines.map((line) => {
      assertFinding(line);
      const { head, keys } = readFinding(line) ?? assert.fail(line);
      return `${head.verdict} ${head.severity} ${head.policy?.kind}/${head.policy?.name}: ${String(keys['reason'])}`;
    });
  const why = 'XdpProgram/count: count of sha256:[0-9a-f]+: ';

  test('one that does not run, why, and that it runs again: once each, also over a restart', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    kernel.refused.set('xdp', 'The verifier says no.');
    using _operator = cluster.operator();
    const first = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError');
    const [line, ...more] = said();
    assert.deepEqual(more, []);
    assert.match(line ?? '', new RegExp(`^not-loaded high ${why}The verifier says no\\.$`));
    const finding = readFinding(cluster.lines[0] ?? '') ?? assert.fail();
    const [object] = await cluster.objects();
    assert.deepEqual(finding.head.node, { name: 'n1' });
    assert.deepEqual(finding.head.object, { kind: 'BpfProgram', namespace: '', name: object?.metadata.name });
    assert.match(
      finding.head.message,
      /^A program of XdpProgram\/count does not run on node n1: count of \S+: The verifier says no\.$/,
    );
    assert.match(
      programFindings.view(finding)?.pretty({ colour: false, nowMs: Date.now() }) ?? '',
      /   not-loaded +n1:eth0 +count of \S+: The verifier says no\.  XdpProgram\/count$/,
    );
    await until('the event', async () => {
      const { items } = await cluster.client.list(events);
      return items.some(
        ({ reason, regarding, note }) =>
          reason === 'NotLoaded' && regarding?.name === 'count' && note === finding.head.message,
      );
    });
    first[Symbol.dispose]();

    using _second = cluster.agent('n1', kernel);
    const passes = kernel.applied;
    await until('a pass of the second', () => kernel.applied > passes);
    kernel.refused.clear();
    // Refusals of the verifier are remembered until the object changes.
    await cluster.change('XdpProgram', 'count', { priority: 51 });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    assert.deepEqual(said().slice(1), ['running info XdpProgram/count: ']);
  });

  test('one that another is in the place of, and what was repaired', async () => {
    await cluster.addNode('n1');
    const kernel = new FixtureKernel();
    using _operator = cluster.operator();
    using _agent = cluster.agent('n1', kernel);
    await cluster.create('XdpProgram', 'count', xdp(cluster.object));
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    assert.deepEqual(said(), []);
    kernel.drift = [
      { what: 'xdp on eth0: its link was removed.', owners: ['XdpProgram/count', 'XdpProgram/gone'] },
    ];
    await until('the repair', () => said().length > 0);
    assert.deepEqual(said(), ['repaired medium XdpProgram/count: xdp on eth0: its link was removed.']);
    kernel.displaced.add('eth0');
    await cluster.change('XdpProgram', 'count', { priority: 51 });
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileError');
    assert.match(said()[1] ?? '', new RegExp(`^displaced medium ${why}Another program has eth0\\.`));
    kernel.displaced.clear();
    await cluster.untilCondition('XdpProgram', 'count', 'ReconcileSuccess');
    assert.deepEqual(said().slice(2), ['running info XdpProgram/count: ']);
  });
});
