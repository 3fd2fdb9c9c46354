// Receivers that accept no alerts for long, and the reports about them.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import type { CallbackState } from './options.ts';
import { answerWith, accept, openQuick, Receiver } from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

suite('a callback that takes no alerts', { timeout: 300_000 }, () => {
  test('404: reported once during the retries, and once when alerts are accepted', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = answerWith(404);
    await using delivery = openQuick(directory.path, { failingMs: 50 });
    const reported: CallbackState[] = [];
    using _listening = delivery.onLastingTrouble((state) => reported.push(state));
    const url = receiver.url('/hush');
    assert.equal(delivery.stateOf(url, ''), undefined);
    for (const id of ['a', 'b']) delivery.enqueue(url, id, '{}');
    await until(() => reported.length > 0 && delivery.stats.retried > 20);
    assert.equal(reported.length, 1);
    assert.equal(reported[0]?.problem, 'HTTP 404');
    assert.deepEqual([reported[0]?.isDecided, reported[0]?.aboutCredentials], [true, false]);
    assert.doesNotMatch(reported[0]?.name ?? '', /hush/);
    assert.deepEqual(delivery.stateOf(url, ''), reported[0]);
    receiver.manners = accept;
    await until(() => delivery.stats.depth === 0);
    assert.deepEqual(
      reported.map(({ problem }) => problem),
      ['HTTP 404', undefined],
    );
  });

  test('400: drops the alerts, and reports that', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = answerWith(400);
    await using delivery = openQuick(directory.path, { failingMs: 50 });
    delivery.enqueue(receiver.url(), 'a', '{}');
    await until(
      () =>
        delivery.stats.dropped.unwanted === 1 &&
        delivery.stateOf(receiver.url(), '')?.problem === 'HTTP 400, so the alerts are dropped',
    );
  });

  test('alerts that an earlier process has left: it is not known before they were tried for as long', async () => {
    using directory = new TemporaryDirectory();
    await using receiver = await Receiver.start();
    receiver.manners = answerWith(404);
    const url = receiver.url();
    {
      await using delivery = openQuick(directory.path);
      delivery.enqueue(url, 'a', '{}');
    }
    await using delivery = openQuick(directory.path, { failingMs: 1000 });
    await until(() => delivery.stats.retried > 0);
    const { problem, isDecided } = delivery.stateOf(url, '') ?? {};
    assert.deepEqual([problem, isDecided], [undefined, false]);
    await until(() => delivery.stateOf(url, '')?.problem === 'HTTP 404');
    assert.equal(delivery.stateOf(url, '')?.isDecided, true);
  });
});
