// Queue files that are torn, corrupted, cut or strange: never a crash, what can be read is delivered, the rest counted.
import assert from 'node:assert/strict';
import {
  appendFileSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import type { Delivery } from './delivery.ts';
import { RECORD_HEADER_BYTES, RecordEncoder } from './record.ts';
import { headerBytes } from './segment-header.ts';
import { balanced, closedPort, inBalance, lineOf, openQuick, Receiver } from './receiver.fixture.ts';
import { TemporaryDirectory } from '../../../lib/testing/temporary-directory.fixture.ts';

const COUNT = 40;
const ids = Array.from({ length: COUNT }, (_, index) => `a${String(index).padStart(2, '0')}`);
const recordBytes = RECORD_HEADER_BYTES + 3 + lineOf('a00').length;

/** Queue files with all of `ids`, as a process left them. Killed means: without a seal, as after kill -9. */
async function leave(directory: TemporaryDirectory, callback: string, killed: boolean): Promise<string> {
  {
    await using delivery = openQuick(directory.path);
    for (const id of ids) assert.ok(delivery.enqueue(callback, id, lineOf(id)));
  }
  const [name] = readdirSync(directory.path).filter((file) => file.endsWith('.alerts'));
  assert.ok(name);
  const path = directory.at(name);
  if (killed) patch(path, 28, Buffer.alloc(12));
  return path;
}

function patch(path: string, at: number, bytes: Uint8Array): void {
  const content = readFileSync(path);
  content.set(bytes, at);
  writeFileSync(path, content);
}

async function deliverRest(
  directory: TemporaryDirectory,
  port: number,
): Promise<{ delivery: Delivery; got: string[] }> {
  const delivery = openQuick(directory.path);
  await using receiver = await Receiver.start({ port });
  await until(() => delivery.stats.depth === 0);
  assert.deepEqual(balanced(delivery), inBalance);
  for (const { id, line } of receiver.received) assert.equal(line, lineOf(id), 'nothing damaged is sent');
  await delivery[Symbol.asyncDispose]();
  return { delivery, got: receiver.taken };
}

const corruptFiles = (directory: TemporaryDirectory): number =>
  readdirSync(directory.path).filter((name) => name.endsWith('.corrupt')).length;

suite('damaged queue files', { timeout: 300_000 }, () => {
  for (const killed of [true, false]) {
    const how = killed ? 'after a kill' : 'after a clean end';

    test(`${how}: as it was left`, async () => {
      using directory = new TemporaryDirectory();
      const port = await closedPort();
      await leave(directory, `http://127.0.0.1:${port}/`, killed);
      const { delivery, got } = await deliverRest(directory, port);
      assert.deepEqual(got, ids);
      assert.equal(delivery.stats.damagedFiles + delivery.stats.tornBytes, 0);
    });

    test(`${how}: a damaged byte costs one alert, and the file is kept`, async () => {
      using directory = new TemporaryDirectory();
      const port = await closedPort();
      const url = `http://127.0.0.1:${port}/`;
      const path = await leave(directory, url, killed);
      patch(path, headerBytes(url) + 7 * recordBytes + 100, Buffer.from('?'));
      const { delivery, got } = await deliverRest(directory, port);
      assert.deepEqual(
        got,
        ids.filter((id) => id !== 'a07'),
      );
      assert.equal(delivery.stats.damagedFiles, 1);
      // How many there were is known where the file was complete.
      assert.equal(delivery.stats.dropped.damaged, killed ? 0 : 1);
      assert.equal(corruptFiles(directory), 1);
    });

    test(`${how}: a cursor that cannot be read delivers again and loses nothing`, async () => {
      using directory = new TemporaryDirectory();
      const port = await closedPort();
      const path = await leave(directory, `http://127.0.0.1:${port}/`, killed);
      patch(path, 16, Buffer.from([1, 2, 3, 4, 5]));
      const { got } = await deliverRest(directory, port);
      assert.deepEqual(got, ids);
    });
  }

  test('a torn end is cut off, wherever it is', async () => {
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    for (const cutBytes of [1, 500, recordBytes - 1]) {
      using directory = new TemporaryDirectory();
      const path = await leave(directory, url, true);
      truncateSync(path, headerBytes(url) + COUNT * recordBytes - cutBytes);
      const { delivery, got } = await deliverRest(directory, port);
      assert.deepEqual(got, ids.slice(0, -1));
      assert.equal(delivery.stats.tornBytes, recordBytes - cutBytes);
      assert.equal(delivery.stats.damagedFiles, 0);
    }
  });

  test('a sealed file that the disk has cut is counted', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    const path = await leave(directory, url, false);
    truncateSync(path, headerBytes(url) + 10 * recordBytes);
    const { delivery, got } = await deliverRest(directory, port);
    assert.deepEqual(got, ids.slice(0, 10));
    assert.equal(delivery.stats.dropped.damaged, COUNT - 10);
  });

  test('zeros at the end, as some file systems leave them', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const path = await leave(directory, `http://127.0.0.1:${port}/`, true);
    appendFileSync(path, Buffer.alloc(100_000));
    const { delivery, got } = await deliverRest(directory, port);
    assert.deepEqual(got, ids);
    assert.equal(delivery.stats.tornBytes, 100_000);
  });

  test('strange files are left or set aside', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    const path = await leave(directory, url, true);
    const name = (key: string, sequence: number): string =>
      directory.at(`${key.repeat(32)}-${String(sequence).padStart(12, '0')}.alerts`);
    writeFileSync(name('0', 1), '');
    writeFileSync(name('1', 1), 'x');
    writeFileSync(name('2', 1), Buffer.alloc(5000));
    // Another callback's file under this name.
    writeFileSync(name('3', 1), readFileSync(path));
    symlinkSync('/etc/passwd', name('4', 1));
    symlinkSync('/nowhere', name('6', 1));
    mkdirSync(name('5', 1));
    writeFileSync(directory.at('README'), 'not ours');
    const { delivery, got } = await deliverRest(directory, port);
    assert.deepEqual(got, ids);
    assert.equal(delivery.stats.damagedFiles, 6);
    assert.equal(corruptFiles(directory), 6);
  });

  test('damaged files are kept in a bounded number', async () => {
    using directory = new TemporaryDirectory();
    for (let index = 0; index < 30; index++) {
      writeFileSync(directory.at(`${'a'.repeat(32)}-${String(index).padStart(12, '0')}.alerts`), 'x');
    }
    await using delivery = openQuick(directory.path);
    assert.equal(delivery.stats.damagedFiles, 30);
    assert.equal(corruptFiles(directory), 8);
  });

  test('files that somebody removes while it runs', async () => {
    using directory = new TemporaryDirectory();
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    await leave(directory, url, true);
    await using delivery = openQuick(directory.path);
    for (let index = 0; index < 300; index++) delivery.enqueue(url, `b${index}`, lineOf('b'));
    for (const name of readdirSync(directory.path)) {
      if (name.endsWith('.alerts')) rmSync(directory.at(name));
    }
    await using _receiver = await Receiver.start({ port });
    await until(() => delivery.stats.depth === 0);
    assert.deepEqual(balanced(delivery), inBalance);
    assert.ok(delivery.enqueue(url, 'after', '{}'));
    await until(() => delivery.stats.depth === 0);
  });

  test('any damage: no crash, nothing wrong is sent, what is whole comes in order', async () => {
    const port = await closedPort();
    const url = `http://127.0.0.1:${port}/`;
    const start = headerBytes(url);
    const end = start + COUNT * recordBytes;
    const damage = fc.record({
      killed: fc.boolean(),
      patches: fc.array(
        fc.record({ at: fc.nat(end - 1), bytes: fc.uint8Array({ minLength: 1, maxLength: 3000 }) }),
        { maxLength: 5 },
      ),
      cutAt: fc.option(fc.nat(end)),
    });
    await fc.assert(
      fc.asyncProperty(damage, async ({ killed, patches, cutAt }) => {
        using directory = new TemporaryDirectory();
        const path = await leave(directory, url, killed);
        const before = readFileSync(path);
        for (const { at, bytes } of patches) patch(path, at, bytes.subarray(0, end - at));
        if (cutAt !== null) truncateSync(path, cutAt);
        const after = readFileSync(path);
        const { got } = await deliverRest(directory, port);
        const headerWhole = after.subarray(0, start).equals(before.subarray(0, start));
        const whole = ids.filter((_, index) => {
          const at = start + index * recordBytes;
          return after.subarray(at, at + recordBytes).equals(before.subarray(at, at + recordBytes));
        });
        if (headerWhole) assert.deepEqual(got, whole);
        else assert.deepEqual(got, got.toSorted(), 'in order');
      }),
      { numRuns: 60 },
    );
  });
});

test('a record that a process wrote into its arguments is not taken for one', () => {
  const { buffer, sizeBytes } = new RecordEncoder().encode('forged', '{}', 0) ?? assert.fail();
  const line = JSON.stringify({ arguments: buffer.subarray(0, sizeBytes).toString('latin1') });
  assert.equal(line.includes('\0'), false, 'the mark begins with a byte that JSON escapes');
});
