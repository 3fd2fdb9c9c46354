import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Guard } from '../../guard/guard.ts';
import { defineGuard } from '../../guard/guard.ts';
import { ServiceManager } from '../../lib/service/manager.fixture.ts';
import { Health } from '../../lib/telemetry/health.ts';
import { reportService } from './service.ts';

const gate: Guard = defineGuard({
  ...{ name: 'gate', summary: 'opens and closes', resources: [], rights: {}, parse: () => undefined },
  health: [
    { on: 'node', name: 'rules', what: 'the kernel has the rules' },
    { on: 'node', name: 'thread', what: 'its thread answers', alive: true },
    { on: 'cluster', name: 'lease', what: 'the holder of the lease is known' },
  ],
  node: async () => async () => undefined,
  cluster: async () => async () => undefined,
});

const logger = { error: (...reported: unknown[]): void => assert.fail(String(reported)) };

suite('the report to the service manager', () => {
  test('is ready once each part of each guard was, also those that begin later, and then tells what is wrong', async () => {
    using manager = new ServiceManager();
    const health = new Health();
    const stop = new AbortController();
    const env = { NOTIFY_SOCKET: manager.path, WATCHDOG_USEC: '4000' };
    const reporting = reportService({ guards: [gate], health, logger, signal: stop.signal, env });
    await manager.reported('STATUS=Waiting for gate-node: it has not begun yet');
    health.ready('gate-node', () => undefined);
    health.ready('gate', () => undefined);
    let problem: string | undefined = 'no answer';
    health.ready(
      'container-runtime',
      () => problem,
      () => 'no socket',
    );
    assert.equal(health.readiness().text.includes('gate-node-rules'), false);
    await manager.reported('STATUS=Waiting for gate-node-rules: it has not begun yet');
    let rules: string | undefined = 'nft:\n  no such table';
    let thread: string | undefined;
    health.ready('gate-node-rules', () => rules);
    health.alive('gate-node-thread', () => thread);
    await manager.reported('STATUS=Waiting for gate-node-rules: nft: no such table');
    rules = undefined;
    await manager.reported('STATUS=Waiting for gate-lease: it has not begun yet');
    health.ready('gate-lease', () => undefined);
    await manager.reported('READY=1');
    await manager.reported('STATUS=container-runtime: no answer');
    problem = undefined;
    await manager.reported('STATUS=All parts are ready; container-runtime: no socket');
    thread = 'stuck';
    await manager.reported('STATUS=gate-node-thread: stuck');
    const { length } = manager.lines;
    thread = 'still stuck';
    await manager.reported('STATUS=gate-node-thread: still stuck');
    assert.equal(manager.lines.indexOf('WATCHDOG=1', length), -1);
    stop.abort();
    await reporting;
    await manager.reported('STOPPING=1');
    assert.equal(manager.lines.filter((line) => line === 'READY=1').length, 1);
  });

  test('a manager that is not there is logged, and nothing else ends', async () => {
    const stop = new AbortController();
    const reported: unknown[] = [];
    const options = { guards: [], health: new Health(), signal: stop.signal };
    const reporting = reportService({
      ...options,
      logger: { error: (...one: unknown[]) => void reported.push(one) },
      env: { NOTIFY_SOCKET: '/nowhere/notify' },
    });
    stop.abort();
    await reporting;
    assert.match(JSON.stringify(reported), /is not told whether the guards are up and alive/);
  });
});
