import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { until } from '../../../lib/testing/until.fixture.ts';
import { followAttachmentChanges } from './attachment-changes.ts';
import { NetworkNamespace } from '../../../test/network-policy/namespaces.fixture.ts';

const obstacle =
  process.getuid?.() !== 0
    ? 'needs root'
    : spawnSync('tc', ['-V']).status !== 0
      ? 'ip and tc are not installed'
      : false;

suite('changes of interfaces and of what is attached to them', { skip: obstacle }, () => {
  test('reports interfaces that come, go or are renamed, and deleted qdiscs, but not changes of flags', async () => {
    using namespace = new NetworkNamespace();
    const run = (command: string): void =>
      namespace.run(() => {
        const [program = '', ...args] = command.split(' ');
        execFileSync(program, args);
      });
    let reported = 0;
    using _changes = namespace.run(() => followAttachmentChanges(() => reported++));
    const reports = async (command: string): Promise<void> => {
      const before = reported;
      run(command);
      await until(command, () => reported > before);
      // All that belongs to it.
      await delay(20);
    };
    await reports('ip link add one0 type veth peer name one1');
    await reports('ip link set one1 name other1');
    const before = reported;
    for (const flag of ['up', 'down', 'up']) run(`ip link set one0 ${flag}`);
    run('tc qdisc add dev one0 clsact');
    await reports('tc qdisc del dev one0 clsact');
    // Flags and new interfaces would have been reported before it.
    assert.ok(reported - before <= 2, `${reported - before} times`);
    await reports('ip link del one0');
  });
});
