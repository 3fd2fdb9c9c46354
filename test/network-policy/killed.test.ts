// An agent that is killed while it programs: what is in the kernel is the old state or the new, and nothing is open at any moment.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { suite, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Random, scaled, seed } from '../../shared/observe/depth.fixture.ts';
import { until } from '../../shared/observe/until.fixture.ts';
import { openNftablesDataplane } from '../../systems/network-policy/node/nftables/dataplane.ts';
import { nodeRules } from '../../systems/network-policy/node/rules.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { Network } from './network.fixture.ts';
import { reaches } from './probe.fixture.ts';

const churn = new URL('churn.fixture.ts', import.meta.url).pathname;

suite('an agent that is killed', { skip: namespaceObstacle() ?? false, timeout: 300_000 }, () => {
  test(`leaves a closed pod closed, whatever it was doing, over many kills (seed ${seed})`, async () => {
    await using network = await Network.create();
    const { node } = network;
    const random = new Random(seed);
    const target = network.host('x/a').addresses;
    const passed: string[] = [];
    let [allowed, kills] = [0, 0];
    network.watchUdp('x/a', () => passed.push('a datagram'));
    const start = async () => {
      const child = node.namespace.run(() =>
        spawn(process.execPath, [churn, String(random.below(1e6))], { stdio: ['ignore', 'pipe', 'inherit'] }),
      );
      await once(child.stdout, 'data');
      return child;
    };
    let child = await start();
    // From the first moment that it is closed: a new connection with each datagram, and over TCP beside them.
    const flood = network.spawn(
      network.host('y/b'),
      `while :; do echo x > /dev/udp/${target[4]}/80; done 2> /dev/null`,
    );
    const stop = new AbortController();
    const probing = (async () => {
      while (!stop.signal.aborted) {
        if (await reaches(network.host('y/c'), target[4])) passed.push('a connection');
        if (await reaches(network.host('y/c'), target[6], { port: 81 }))
          passed.push('a connection over IPv6');
        if (await reaches(network.host('z/a'), target[4])) allowed++;
        await delay(2);
      }
    })();
    try {
      for (; kills < scaled(50, 6); kills++) {
        await delay(random.below(40));
        const ended = once(child, 'exit');
        child.kill('SIGKILL');
        await ended;
        child = await start();
      }
    } finally {
      child.kill('SIGKILL');
      await until('some that are allowed', () => allowed > kills);
      stop.abort();
      await probing;
      flood.kill('SIGKILL');
    }
    assert.deepEqual(passed, []);

    // And the next one finds what it can take over.
    using dataplane = node.namespace.run(() => openNftablesDataplane());
    await dataplane.sync(nodeRules(network.pods, []));
    assert.deepEqual(await dataplane.verify(), []);
    assert.ok(await reaches(network.host('y/c'), target[4]));
  });
});
