// One outage of each kind, in one cluster: the API server, the receiver of alerts and the agent are killed and come back. The deep tests
// beside it repeat each of them.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { Receiver } from '../../../guards/file-access/delivery/receiver.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import { accessOf, LabCluster, pathIn, readNumbered } from './lab-cluster.fixture.ts';

const secret = '/secret.txt';
const labels = { app: 'web' };
const matchAny = [{ matchLabels: labels }];

suite('outages', { skip: sensorSkip || labObstacle() }, () => {
  test('API server, receiver and agent are killed: alerts go on and arrive, and all is put in order', async () => {
    await using stack = new AsyncDisposableStack();
    let receiver = await Receiver.start();
    stack.defer(() => receiver[Symbol.asyncDispose]());
    const { port } = receiver;
    const callback = receiver.url();
    const cluster = stack.use(await LabCluster.start());
    const node = await cluster.addNode('n1');
    const { agent } = node;
    const { container } = await node.run({ name: 'web', labels });
    const setPolicy = (version: string): Promise<unknown> =>
      cluster.setPolicy('p', [{ path: secret, create: true, callback, metadata: { version }, matchAny }]);
    await setPolicy('first');
    await cluster.dataCount('p', 1);
    await until('all watched', async () => (await agent.metric('file_access_watched')) === 2);
    let made = 0;
    /** Reads between two markers: then the set of its alerts is complete. */
    const raises = async (): Promise<string[]> => {
      await node.mark();
      readNumbered(pathIn(container, secret), ++made);
      await node.mark();
      const reported = agent.reported.filter(({ alert }) => accessOf(alert) === String(made));
      return reported.map(({ alert }) => alert['custom-metadata']['version'] ?? '');
    };
    assert.deepEqual(await raises(), ['first']);
    await until('the first alert to arrive', () => receiver.taken.length === 1);

    await cluster.killApi();
    await receiver[Symbol.asyncDispose]();
    assert.deepEqual(await raises(), ['first']);
    await cluster.startApi();
    await setPolicy('second');
    await until('the edit', async () => (await raises()).join() === 'second');

    await agent.kill();
    // Without a guard, it raises no alert.
    readNumbered(pathIn(container, secret), ++made);
    const unguarded = made;
    agent.start();
    await node.markUntilReported();
    await until('to be guarded again', async () => (await raises()).join() === 'second');

    // The port may be the local end of another connection for a moment.
    receiver = await until('the port', () => Receiver.start({ port }));
    const reportedLines = (): string[] =>
      agent.reported.filter(({ alert }) => alert['kive-policy-name'] === 'p').map(({ line }) => line);
    await until('all alerts to arrive', () => receiver.firsts.length === reportedLines().length - 1);
    const arrived = receiver.firsts.map((id) => receiver.received.find((one) => one.id === id)?.line);
    assert.deepEqual(arrived, reportedLines().slice(1));
    assert.ok(!agent.reported.some(({ alert }) => accessOf(alert) === String(unguarded)));
    await cluster.deletePolicy('p');
    assert.deepEqual(await raises(), []);
    assert.equal(agent.run, 2);
    assert.equal(await agent.stop(), 0);
  });
});
