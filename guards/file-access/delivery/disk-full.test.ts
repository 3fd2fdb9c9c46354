// A file system without space: refused and counted, nothing half written, and on it goes when there is space.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { SmallDisk, smallDiskSkip } from '../../../lib/testing/small-disk.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { balanced, closedPort, inBalance, lineOf, openQuick, Receiver } from './receiver.fixture.ts';

suite('a full disk', { skip: smallDiskSkip(), timeout: 300_000 }, () => {
  test('refused and counted; what was taken stays whole, also for the next process', async () => {
    using disk = new SmallDisk(300);
    const port = await closedPort();
    const urls = ['a', 'b'].map((name) => `http://127.0.0.1:${port}/${name}`);
    const taken: string[] = [];
    const offer = (enqueue: (url: string, id: string, line: string) => boolean, prefix: string): number => {
      let count = 0;
      for (let index = 0; index < 400; index++) {
        const id = `${prefix}${String(index).padStart(4, '0')}`;
        if (!enqueue(urls[index % 2] ?? '', id, lineOf(id))) continue;
        taken.push(id);
        count++;
      }
      return count;
    };
    {
      await using delivery = openQuick(disk.at('queue'));
      const enqueue = delivery.enqueue.bind(delivery);
      const first = offer(enqueue, 'a');
      assert.ok(first > 200 && first < 400, `${first} of 400 fit`);
      disk.fill();
      assert.equal(
        delivery.enqueue('http://127.0.0.1:9/another', 'x', '{}'),
        false,
        'no file for another callback',
      );
      assert.equal(offer(enqueue, 'b'), 0);
      assert.equal(delivery.stats.refused.disk, 800 - first + 1);
      assert.deepEqual(balanced(delivery), inBalance);
    }
    await using delivery = openQuick(disk.at('queue'));
    assert.equal(delivery.stats.recovered, taken.length);
    assert.equal(delivery.stats.tornBytes, 0);
    disk.free();
    await using receiver = await Receiver.start({ port });
    // Delivering makes space, which new alerts take.
    await until(() => delivery.stats.depth === 0);
    offer(delivery.enqueue.bind(delivery), 'c');
    await until(() => delivery.stats.depth === 0);
    for (const path of ['/a', '/b']) {
      const arrived = receiver.received.filter((received) => received.path === path).map(({ id }) => id);
      assert.deepEqual(arrived, arrived.toSorted());
    }
    assert.deepEqual(receiver.firsts.toSorted(), taken.toSorted());
    for (const { id, line } of receiver.received) assert.equal(line, lineOf(id));
  });

  test('it starts and delivers on a disk that is full', async () => {
    using disk = new SmallDisk(256);
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    let count = 0;
    {
      await using delivery = openQuick(disk.at('queue'));
      while (delivery.enqueue(url, `a${count}`, lineOf('a'))) count++;
    }
    disk.fill();
    await using delivery = openQuick(disk.at('queue'));
    await using receiver = await Receiver.start({ port });
    await until(() => delivery.stats.depth === 0);
    assert.equal(receiver.taken.length, count);
    assert.equal(delivery.stats.cursorErrors, 0);
  });
});
