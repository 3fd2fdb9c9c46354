import assert from 'node:assert/strict';
import { getEventListeners } from 'node:events';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { Code, ConnectError } from '@connectrpc/connect';

import { errorCodes, RampartError } from '../errors/errors.ts';
import { openCri } from './cri.ts';
import { fakeId, FakeRuntime } from './runtime.fixture.ts';

const never = (): Promise<never> => new Promise(() => undefined);

/** The promise's error, which has to be ours and of this code. */
async function failure(code: string, promise: Promise<unknown>): Promise<RampartError> {
  const error = await promise.then(
    (value) => assert.fail(`expected ${code}, got ${JSON.stringify(value)}`),
    (reason: unknown) => reason,
  );
  assert.ok(error instanceof RampartError, String(error));
  assert.equal(error.code, code, error.message);
  return error;
}

suite('client of the container runtime: failures', () => {
  test('no answer in time: the socket, the call and the time are named', async () => {
    await using runtime = await new FakeRuntime().start({ Version: never });
    using cri = openCri({ socketPath: `unix://${runtime.socketPath}` });
    const error = await failure(errorCodes.RUNTIME_UNREACHABLE, cri.version({ timeoutMs: 50 }));
    assert.ok(error.message.includes(runtime.socketPath), error.message);
    assert.match(error.message, /Version failed: no response within 50 ms\. /);
    assert.deepEqual(cri.stats(), { calls: { Version: 1 }, failures: { Version: 1 } });
  });

  test('an aborted call rejects with the reason and does not count as a failure', async () => {
    await using runtime = await new FakeRuntime().start({ Version: never });
    using cri = openCri({ socketPath: runtime.socketPath });
    const abort = new AbortController();
    const reason = new Error('enough');
    const answer = cri.version({ signal: abort.signal });
    setImmediate(() => abort.abort(reason));
    await assert.rejects(answer, reason);
    await assert.rejects(cri.version({ signal: abort.signal }), reason);
    assert.deepEqual(cri.stats().failures, {});
  });

  test('a refusal has the message of the runtime', async () => {
    await using runtime = await new FakeRuntime().start({
      ListContainers: () => {
        throw new ConnectError('database is locked', Code.Internal);
      },
      PodSandboxStatus: () => {
        throw new ConnectError('no such sandbox', Code.NotFound);
      },
      ContainerStatus: () => {
        throw new ConnectError('no such container', Code.NotFound);
      },
    });
    using cri = openCri({ socketPath: runtime.socketPath });
    const error = await failure(errorCodes.RUNTIME, cri.containers());
    assert.match(error.message, /ListContainers failed: database is locked\. Check the log/);
    assert.equal(await cri.podNetwork('gone'), undefined);
    assert.equal(await cri.containerPid('gone'), undefined);
    await failure(errorCodes.NOT_FOUND, cri.call('ContainerStatus', { containerId: 'gone' }));
    await failure(errorCodes.UNSUPPORTED, cri.version());
  });

  test('no socket, a socket without a listener, a file that is not a socket', async () => {
    await using runtime = new FakeRuntime();
    using absent = openCri({ socketPath: runtime.socketPath });
    assert.match(
      (await failure(errorCodes.RUNTIME_UNREACHABLE, absent.version())).message,
      /the socket does not exist/,
    );
    const file = join(runtime.directory, 'file');
    writeFileSync(file, '');
    using other = openCri({ socketPath: file });
    assert.match(
      (await failure(errorCodes.RUNTIME_UNREACHABLE, other.version())).message,
      /nothing listens there/,
    );
  });

  test('a runtime that restarts is connected to again', async () => {
    await using runtime = new FakeRuntime();
    const answer = (runtimeVersion: string) => ({ Version: () => ({ runtimeName: 'fake', runtimeVersion }) });
    await runtime.start(answer('1'));
    using cri = openCri({ socketPath: runtime.socketPath });
    assert.deepEqual(await cri.version(), { name: 'fake', version: '1' });
    await runtime.stop();
    await failure(errorCodes.RUNTIME_UNREACHABLE, cri.version());
    await runtime.start(answer('2'));
    assert.deepEqual(await cri.version(), { name: 'fake', version: '2' });
  });

  test('an answer of many frames, and one that breaks off', async () => {
    const containers = Array.from({ length: 5_000 }, (_, number) => ({
      id: fakeId(number),
      metadata: { name: `c${number}`, attempt: number },
      labels: { number: String(number), text: 'x'.repeat(number % 100) },
    }));
    await using runtime = await new FakeRuntime().start({
      ListContainers: () => ({ containers }),
      GetContainerEvents: async function* () {
        yield { containerId: fakeId(1) };
        yield { containerId: fakeId(2) };
        await never();
      },
    });
    using cri = openCri({ socketPath: runtime.socketPath });
    const listed = await cri.containers();
    assert.deepEqual(
      listed.map(({ id, name, attempt, labels }) => ({ id, metadata: { name, attempt }, labels })),
      containers,
    );
    const seen: string[] = [];
    const read = async (): Promise<void> => {
      const events = cri.connection.stream('GetContainerEvents', {}, new AbortController().signal);
      for await (const { containerId } of events) {
        seen.push(containerId);
        if (seen.length === 2) await runtime.stop();
      }
    };
    await failure(errorCodes.RUNTIME_UNREACHABLE, read());
    assert.deepEqual(seen, [fakeId(1), fakeId(2)]);
  });

  test('disposed: calls under way and later ones say so', async () => {
    await using runtime = await new FakeRuntime().start({ Version: never });
    const cri = openCri({ socketPath: runtime.socketPath });
    const answer = failure(errorCodes.DISPOSED, cri.version());
    setTimeout(() => cri[Symbol.dispose](), 20);
    await answer;
    await failure(errorCodes.DISPOSED, cri.version());
  });

  test('calls leave nothing at a signal that lives long', async () => {
    await using runtime = await new FakeRuntime().start({ Version: () => ({}) });
    const { signal } = new AbortController();
    {
      using cri = openCri({ socketPath: runtime.socketPath, signal });
      for (let call = 0; call < 20; call += 1) await cri.version({ signal });
      assert.equal(getEventListeners(signal, 'abort').length, 1);
    }
    assert.equal(getEventListeners(signal, 'abort').length, 0);
  });
});

suite('the pid in a verbose status', () => {
  const id = fakeId(1);
  const status = (state: number, info: Readonly<Record<string, string>>) => ({
    ContainerStatus: () => ({ status: { id, state }, info }),
  });

  test('the pid in the answers of containerd and of CRI-O', async () => {
    const containerd = JSON.stringify({
      sandboxID: fakeId(2),
      pid: 41,
      removing: false,
      snapshotter: 'overlayfs',
    });
    // CRI-O: server/container_status.go, the same key with other fields beside the pid.
    const crio = JSON.stringify({
      sandboxID: fakeId(2),
      pid: 42,
      runtimeSpec: { ociVersion: '1.0.2', process: { pid: 7 } },
      privileged: false,
    });
    for (const [info, pid] of [
      [containerd, 41],
      [crio, 42],
    ] as const) {
      await using runtime = await new FakeRuntime().start(status(1, { info }));
      using cri = openCri({ socketPath: runtime.socketPath });
      assert.equal(await cri.containerPid(id), pid);
    }
  });

  test('an invalid pid of a running container is refused', async () => {
    const malformed = [{}, { info: '' }, { info: '{' }, { info: 'null' }, { info: '[]' }].concat(
      [0, -1, 1.5, '7', true].map((pid) => ({ info: JSON.stringify({ pid }) })),
    );
    for (const info of malformed as Readonly<Record<string, string>>[]) {
      await using runtime = await new FakeRuntime().start(status(1, info));
      using cri = openCri({ socketPath: runtime.socketPath });
      const error = await failure(errorCodes.DECODE, cri.containerPid(id));
      assert.ok(error.message.includes(id) && error.message.includes(runtime.socketPath), error.message);
    }
    await using runtime = await new FakeRuntime().start(status(2, { info: '{"pid":0}' }));
    using cri = openCri({ socketPath: runtime.socketPath });
    assert.equal(await cri.containerPid(id), undefined);
  });
});
