// Fault 10 of Kive: callbacks hold up the reader, are not tried again, and take the line away from the log.
import assert from 'node:assert/strict';
import { after, before, beforeEach, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { accept, answerWith, Receiver } from '../../../guards/file-access/delivery/receiver.fixture.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import type { LabContainer } from '../lab.ts';
import { labObstacle } from '../obstacle.ts';

const path = '/etc/shadow';
const otherPath = '/root/other';
const matchAny = [{ pod: 'web' }];

suite('10: a receiver that', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab;
  let container: LabContainer;
  let receiver: Receiver;
  before(async () => {
    guarded = await GuardedLab.start('--allow-callback', '127.0.0.1');
    ({ container } = await guarded.run({ name: 'web' }));
  });
  after(async () => {
    await receiver?.[Symbol.asyncDispose]();
    await guarded?.[Symbol.asyncDispose]();
  });
  beforeEach(async () => {
    await receiver?.[Symbol.asyncDispose]();
    receiver = await Receiver.start();
  });

  /** Reads the file `count` times; each line of stdout, and which read it was. */
  async function linesOf(count: number): Promise<string[]> {
    const reads = Array.from({ length: count }, (_, index) => `/bin/head -n ${index + 1} ${path}`);
    const alerts = await guarded.alertsOf(async () => await guarded.sh(container, reads.join('\n')));
    assert.deepEqual(
      alerts.map(({ process }) => process.arguments),
      reads.map((read) => read.replace('/bin/head ', '')),
      'all at stdout, once and in order',
    );
    return alerts.map((alert) => JSON.stringify(alert));
  }

  /** The received objects, each id once. */
  const taken = (): string[] =>
    receiver.firsts.map((id) =>
      JSON.stringify(JSON.parse(receiver.received.find((received) => received.id === id)?.line ?? '')),
    );

  async function untilTaken(lines: readonly string[]): Promise<void> {
    await until(`${lines.length} alerts at the receiver`, () => receiver.firsts.length >= lines.length);
    assert.deepEqual(taken(), lines);
  }

  test('does not answer holds up neither the log nor another receiver, and gets all in order when it does', async () => {
    await using other = await Receiver.start();
    const { promise: released, resolve: release } = Promise.withResolvers<void>();
    receiver.manners = (received, response, request) =>
      void released.then(() => accept(received, response, request));
    await guarded.setPolicy('slow', [
      { path, matchAny, callback: receiver.url('/slow') },
      { path: otherPath, create: true, matchAny, callback: other.url() },
    ]);
    await guarded.dataCount('slow', 2);
    const lines = await linesOf(5);
    await guarded.sh(container, `cat ${otherPath}`);
    await until('the other receiver', () => other.taken.length === 1);
    assert.deepEqual([receiver.received.length, receiver.taken.length], [1, 0], 'one at a time');
    release();
    await untilTaken(lines);
    assert.equal(new Set(receiver.taken).size, 5);
    await guarded.deletePolicy('slow');
  });

  test('fails gets the same alert again, with the same id, before the next one', async () => {
    let requests = 0;
    receiver.manners = (...args) => (++requests <= 2 ? answerWith(500) : accept)(...args);
    await guarded.setPolicy('fails', [{ path, matchAny, callback: receiver.url() }]);
    await guarded.dataCount('fails', 1);
    const lines = await linesOf(3);
    await untilTaken(lines);
    const [first, second, third] = receiver.firsts;
    assert.deepEqual(
      receiver.received.map(({ id }) => id),
      [first, first, first, second, third],
    );
    await guarded.deletePolicy('fails');
  });

  test('may not be called is not, which is counted; the line is logged all the same', async () => {
    const callback = 'http://169.254.169.254/latest/meta-data/';
    await guarded.setPolicy('refused', [{ path, matchAny, callback }]);
    await guarded.dataCount('refused', 1);
    const [line] = await linesOf(1);
    assert.ok(line?.includes(callback));
    await until('the refusal to be told', () =>
      guarded.standalone.stderr.includes('"why":"169.254.169.254 is link-local'),
    );
    assert.equal(await guarded.metric('file_access_callbacks_refused_total'), 1);
    await guarded.deletePolicy('refused');
  });

  test('is down gets all when it is up, also when rampart was killed meanwhile', async () => {
    const { port } = receiver;
    await guarded.setPolicy('down', [{ path, matchAny, callback: receiver.url() }]);
    await guarded.dataCount('down', 1);
    await receiver[Symbol.asyncDispose]();
    const lines = await linesOf(3);
    const holders = (): string =>
      guarded.standalone.kubectl(
        ...['get', 'leases', '-n', 'rampart-system', '-o', 'jsonpath={.items[*].spec.holderIdentity}'],
      ).stdout;
    const known = holders();
    await guarded.standalone.stop('SIGKILL');
    receiver = await until('the port', () => Receiver.start({ port }));
    await guarded.startRampart();
    await untilTaken(lines);
    await guarded.dataCount('down', 1);
    await guarded.deletePolicy('down');
    // It continues with its own leases, so that no process waits for their end.
    assert.equal(holders(), known);
    // Holders of the leases of this kernel, of the operator, and of the agent.
    assert.match(known, /^\S+ \S+ \S+$/);
  });
});
