// The rules of a guard that is switched off would go on refusing what they did: a process that runs without it takes them away.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { suite, test } from 'node:test';

import type { Dataplane } from '../../guards/network-policy/dataplane/dataplane.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';
import { announceEnforcer } from '../../guards/network-policy/node/presence.ts';
import { nodeRules } from '../../guards/network-policy/dataplane/rules.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from './namespaces.fixture.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');

const backends: readonly (readonly [string, string | undefined, () => Dataplane])[] = [
  ['nftables', namespaceObstacle(), openNftablesDataplane],
  ['iptables', iptablesObstacle('legacy'), () => openIptablesDataplane({ variant: 'legacy' })],
];

const pod = { name: 'x/a', addresses: { 4: '10.1.0.10', 6: 'fd00:1::10' } };
const closed = nodeRules([pod], [{ policy: 'x/in', direction: 'ingress', selects: ['x/a'], allows: [] }]);

/** It ends only after it has looked for what guards have left. */
const lookedFor = /container runtime/;
const removed = /network-policy is switched off: removed what it had left/;

/** Standalone's output from its start until the awaited line, and on to its end. */
async function start(
  namespace: NetworkNamespace,
  awaited: RegExp,
  ...args: readonly string[]
): Promise<string> {
  const data = mkdtempSync(join(tmpdir(), 'rampart-off-'));
  const child = namespace.run(() =>
    spawn(rampart, ['standalone', `--data=${data}`, '--cri-socket=/nonexistent', ...args], {
      stdio: ['ignore', 'ignore', 'pipe'],
    }),
  );
  const exited = once(child, 'exit');
  const said: string[] = [];
  try {
    for await (const line of createInterface(child.stderr)) {
      said.push(line);
      if (awaited.test(line)) child.kill('SIGTERM');
    }
    return said.join('\n');
  } finally {
    child.kill('SIGKILL');
    await exited;
    rmSync(data, { recursive: true });
  }
}

for (const [name, obstacle, open] of sampled(backends, 1)) {
  suite(`network-policy switched off, after ${name}`, { skip: obstacle ?? false }, () => {
    const withRules = async (namespace: NetworkNamespace): Promise<Dataplane> => {
      // For the API of standalone.
      namespace.ip('link set lo up');
      const dataplane = namespace.run(open);
      await dataplane.sync(closed);
      return dataplane;
    };

    test('its rules are removed at the next start, and the log says so', async () => {
      using namespace = new NetworkNamespace();
      using dataplane = await withRules(namespace);
      assert.match(await start(namespace, removed, '--guards=file-access'), removed);
      assert.deepEqual(await dataplane.remove(), []);
    });

    test('they stay on request, and where another process enforces policies', async () => {
      using namespace = new NetworkNamespace();
      using dataplane = await withRules(namespace);
      const keep = '--network-policy-keep-rules';
      const said = await start(namespace, lookedFor, '--guards=file-access', keep);
      assert.doesNotMatch(said, /switched off/);
      assert.deepEqual(await dataplane.verify(), []);
      await using _other = await namespace.runTick(announceEnforcer);
      assert.doesNotMatch(await start(namespace, lookedFor, '--guards=file-access'), /switched off/);
      assert.deepEqual(await dataplane.verify(), []);
    });

    test('they stay where the guard runs, also after it has ended', async () => {
      using namespace = new NetworkNamespace();
      using dataplane = await withRules(namespace);
      const chosen = ['--guards=network-policy,file-access', '--network-policy-default=deny'];
      assert.doesNotMatch(await start(namespace, lookedFor, ...chosen), /switched off/);
      assert.notDeepEqual(await dataplane.remove(), []);
    });
  });
}
