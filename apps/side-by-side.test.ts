import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { errorCodes, RampartError } from '../shared/observe/errors.ts';
import { Health } from '../shared/observe/health.ts';
import { type Guard, runSideBySide } from './side-by-side.ts';

const refused = new RampartError(errorCodes.UNSUPPORTED, { what: 'cannot load', why: 'the kernel says no' });

const untilStopped: Guard = async (signal) => {
  const { promise, resolve } = Promise.withResolvers<void>();
  signal.addEventListener('abort', () => resolve(), { once: true });
  await promise;
};
const failing =
  (error: Error): Guard =>
  async () => {
    throw error;
  };

function scene() {
  const stop = new AbortController();
  const health = new Health();
  const log: string[] = [];
  const note = (about: unknown, text?: string): void => void log.push(text ?? String(about));
  const options = { signal: stop.signal, health, logger: { warn: note, error: note } as never };
  return { stop, health, log, options };
}

const turns = async (): Promise<void> => {
  for (let turn = 0; turn < 10; turn++) await Promise.resolve();
};

suite('guards side by side', () => {
  test('one that cannot work here takes no other with it, and the process is not ready', async () => {
    const { stop, health, log, options } = scene();
    const ended: string[] = [];
    const running = runSideBySide(
      {
        'the guard of files': failing(refused),
        'file integrity': async (signal) => {
          await untilStopped(signal);
          ended.push('file integrity');
        },
      },
      options,
    );
    await turns();
    assert.deepEqual(ended, []);
    assert.deepEqual(health.readiness(), {
      ok: false,
      text: '[-] the-guard-of-files: cannot load: the kernel says no\nnot ready\n',
    });
    assert.match(log[0] ?? '', /^the guard of files does not run, and what else guards goes on: cannot load/);
    stop.abort();
    await running;
    assert.deepEqual(ended, ['file integrity']);
    assert.equal(health.readiness().ok, true);
  });

  test('when none is left, the last error is thrown', async () => {
    const { options } = scene();
    await assert.rejects(runSideBySide({ a: failing(refused), b: failing(refused) }, options), refused);
    await assert.rejects(runSideBySide({ a: failing(refused) }, options), refused);
  });

  test('a fault of ours ends all', async () => {
    const { options } = scene();
    const fault = new TypeError('x is undefined');
    await assert.rejects(runSideBySide({ a: untilStopped, b: failing(fault) }, options), fault);
  });

  test('one that ends by itself ends all', async () => {
    const { log, options } = scene();
    await runSideBySide({ a: untilStopped, b: async () => undefined }, options);
    assert.deepEqual(log, ['b has ended; stopping']);
  });

  test('what is thrown while all stop is no failure', async () => {
    const { stop, options } = scene();
    const running = runSideBySide(
      {
        a: async (signal) => {
          await untilStopped(signal);
          throw new Error('aborted');
        },
      },
      options,
    );
    stop.abort();
    await running;
  });
});
