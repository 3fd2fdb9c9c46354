// With a socket as systemd has one.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';

import { ServiceManager } from './manager.fixture.ts';
import { reportToServiceManager, type ServiceState } from './notify.ts';

const well: ServiceState = { notUp: () => undefined, remark: () => undefined, isAlive: () => true };

function environment(manager: ServiceManager, more: NodeJS.ProcessEnv = {}): NodeJS.ProcessEnv {
  return { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '4000', WATCHDOG_PID: `${process.pid}`, ...more };
}

suite('reports to a service manager', () => {
  for (const [kind, path] of [
    ['a path', undefined],
    ['an abstract name', `@rampart-test-${process.pid}`],
  ] as const) {
    test(`reports what it waits for, that it is up and alive, a problem, and the end: by ${kind}`, async () => {
      using manager = new ServiceManager(path);
      let notUp: string | undefined = 'pods: not listed yet';
      let problem: string | undefined;
      let isAlive = true;
      const stop = new AbortController();
      const env = environment(manager, { OTHER: 'stays' });
      const reporting = reportToServiceManager(
        { notUp: () => notUp, remark: () => problem, isAlive: () => isAlive },
        { signal: stop.signal, env },
      );
      assert.deepEqual(env, { OTHER: 'stays' });
      await manager.reported('STATUS=Waiting for pods: not listed yet');
      notUp = 'rules: none yet';
      await manager.reported('STATUS=Waiting for rules: none yet');
      assert.ok(!manager.lines.includes('READY=1') && !manager.lines.includes('WATCHDOG=1'));
      notUp = undefined;
      await manager.reported('READY=1');
      await manager.reported('WATCHDOG=1');
      await manager.reported('WATCHDOG=1');
      problem = 'runtime: no answer';
      await manager.reported('STATUS=runtime: no answer');
      isAlive = false;
      problem = 'sensor: stuck';
      await manager.reported('STATUS=sensor: stuck');
      const { length } = manager.lines;
      problem = 'sensor: still stuck';
      await manager.reported('STATUS=sensor: still stuck');
      assert.deepEqual(manager.lines.slice(length), ['STATUS=sensor: still stuck']);
      stop.abort();
      await reporting;
      await manager.reported('STOPPING=1');
    });
  }

  test('the watchdog of another process is not its own', async () => {
    using manager = new ServiceManager();
    const stop = new AbortController();
    const env = environment(manager, { WATCHDOG_PID: '1' });
    const reporting = reportToServiceManager(well, { signal: stop.signal, env });
    await manager.reported('STATUS=All parts are ready');
    stop.abort();
    await reporting;
    await manager.reported('STOPPING=1');
    assert.deepEqual(manager.lines, ['READY=1', 'STATUS=All parts are ready', 'STOPPING=1']);
  });

  test('a manager that does not read stops nothing, and gets all of it later', async () => {
    using manager = new ServiceManager();
    const stop = new AbortController();
    let asked = 0;
    // More than the socket holds: net.unix.max_dgram_qlen is 10 to 512 messages.
    const remark = (): string => `problem ${asked++}`;
    const reporting = reportToServiceManager(
      { ...well, remark },
      { signal: stop.signal, env: environment(manager, { WATCHDOG_USEC: '2' }) },
    );
    await manager.full();
    const waiting = asked;
    await manager.reported(`STATUS=problem ${waiting + 1}`);
    stop.abort();
    await reporting;
    const problems = manager.lines.filter((line) => line.startsWith('STATUS='));
    assert.deepEqual(
      problems,
      problems.map((_, at) => `STATUS=problem ${at}`),
    );
  });

  test('the end waits for a manager that is busy, but not for long', async () => {
    for (const reads of [true, false]) {
      using manager = new ServiceManager();
      const stop = new AbortController();
      const reporting = reportToServiceManager(well, { signal: stop.signal, env: environment(manager) });
      await manager.reported('READY=1');
      await manager.full();
      stop.abort();
      // Its first try finds no room.
      await turn();
      if (reads) await manager.reported('STOPPING=1');
      await reporting;
    }
  });

  test('nothing without a manager; one that is not there is named', async () => {
    const { signal } = new AbortController();
    await reportToServiceManager(well, { signal, env: {} });
    await assert.rejects(
      reportToServiceManager(well, { signal, env: { NOTIFY_SOCKET: '/nowhere/notify' } }),
      {
        message: /^cannot reach the service manager at NOTIFY_SOCKET=\/nowhere\/notify: .*ENOENT/,
      },
    );
  });
});
