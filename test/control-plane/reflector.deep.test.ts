// Caches that follow the embedded server, which is killed again and again, and then through a network that does its worst.
import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { describe, test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';

import { Http, RestartedServer } from '../../apps/apiserver/rampart-process.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { anonymous } from '../../lib/kube/access/credentials.ts';
import { type Fault, startFaultProxy } from '../../lib/kube/client/fault-proxy.fixture.ts';
import { configMaps } from '../../lib/kube/object/object.ts';
import { Random, scaled, seed } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { change, converged, Followed, served, widgetDefinition, widgets } from './reflected.fixture.ts';

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions';
const KILLS = scaled(10, 3);
const FAULTS = scaled(300, 40);
const unlimited = { perSecond: 1e6, burst: 1e6 };

/** Several writers until they are stopped; a server that is gone stops none. */
function writing(http: () => Http, random: Random): { changes(): number; stop(): Promise<number> } {
  const stopping = new AbortController();
  let changes = 0;
  const writers = Array.from({ length: 6 }, async () => {
    while (!stopping.signal.aborted) {
      try {
        await change(http(), random);
        changes++;
      } catch {
        await delay(5);
      }
      await delay(random.below(4));
    }
  });
  return {
    changes: () => changes,
    async stop() {
      stopping.abort();
      await Promise.all(writers);
      return changes;
    },
  };
}

function followAll(client: KubeClient, signal: AbortSignal): Followed[] {
  return [
    new Followed(client, configMaps, { pageSize: 7 }, signal),
    new Followed(client, configMaps, { labelSelector: 'half=a' }, signal),
    new Followed(client, widgets, { namespace: 'default', pageSize: 0 }, signal),
    new Followed(client, widgets, { labelSelector: 'half in (b)', pageSize: 3 }, signal),
  ];
}

function randomFault(random: Random, watch: boolean): Fault {
  const afterBytes = random.below(3000);
  return random.pick<Fault>([
    { kind: 'status', code: random.pick([500, 502, 503, 504, 429, 403, 404]) },
    { kind: 'refuse' },
    { kind: 'silent' },
    { kind: 'stall', afterBytes },
    { kind: 'reset', afterBytes },
    { kind: 'truncate', afterBytes },
    { kind: 'gone', afterLines: random.below(4) },
    {
      kind: 'garbage',
      afterLines: random.below(3),
      text: '{"type":"ADDED"}',
      contentType: 'application/json',
    },
    watch ? { kind: 'replay', every: 1 + random.below(3), reversed: random.chance(0.5) } : { kind: 'refuse' },
    { kind: 'bookmarks' },
  ]);
}

/** A port for a unix socket. */
async function forwarder(socketPath: string): Promise<{ url: string } & AsyncDisposable> {
  const sockets = new Set<{ destroy(): void }>();
  const server = createServer((incoming) => {
    const outgoing = connect(socketPath);
    for (const [one, other] of [
      [incoming, outgoing],
      [outgoing, incoming],
    ] as const) {
      sockets.add(one);
      one.pipe(other);
      one.on('error', () => other.destroy());
      one.on('close', () => {
        other.destroy();
        sockets.delete(one);
      });
    }
  });
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
      server.close();
      await once(server, 'close');
    },
  };
}

describe(`reflectors on the embedded server (RAMPART_TEST_SEED=${seed})`, () => {
  test(`${KILLS} times kill -9: the caches come to what the server has, and no object goes back`, async (t) => {
    const random = new Random(seed);
    using directory = new TemporaryDirectory();
    await using server = new RestartedServer('--data', directory.at('data'), '--listen');
    const kubeconfig = await server.start('127.0.0.1:0');
    const stopping = new AbortController();
    using http = Http.of(kubeconfig);
    using client = new KubeClient(findClusterAccess({ path: kubeconfig }), unlimited);
    let all: Followed[] = [];
    let changes = 0;
    try {
      await http.json(definitions, { method: 'POST', body: widgetDefinition });
      await served(http, widgets);
      all = followAll(client, stopping.signal);
      for (let kill = 0; kill < KILLS; kill++) {
        const writers = writing(() => http, random);
        await until(() => writers.changes() > 10);
        await delay(random.below(250));
        await server.kill();
        // Down for a moment, with requests in vain.
        await delay(random.below(150));
        await server.start(http.server.host);
        await delay(random.below(200));
        changes += await writers.stop();
        await converged(http, all);
      }
      t.diagnostic(`${changes} changes, ${KILLS} kills`);
    } finally {
      stopping.abort();
      await Promise.all(all.map(({ reflecting }) => reflecting));
    }
  });

  test(`${FAULTS} faults on the way, and kill -9 at times`, async (t) => {
    const random = new Random(seed + 1);
    using directory = new TemporaryDirectory();
    const socket = directory.at('api.sock');
    await using server = new RestartedServer('--data', directory.at('data'), '--socket', socket);
    await server.start();
    await using port = await forwarder(socket);
    let left = FAULTS;
    await using proxy = await startFaultProxy(port.url, ({ watch }) => {
      // Some answers have to be right for state to move on at all.
      if (left <= 0 || random.chance(0.3)) return undefined;
      left--;
      return randomFault(random, watch);
    });
    using http = Http.onSocket(socket);
    const access = { server: new URL(proxy.url), credentials: anonymous, namespace: 'default' };
    using client = new KubeClient(access, { ...unlimited, maxRetries: 1 });
    const stopping = new AbortController();
    let all: Followed[] = [];
    try {
      await http.json(definitions, { method: 'POST', body: widgetDefinition });
      await served(http, widgets);
      all = followAll(client, stopping.signal);
      const writers = writing(() => http, random);
      for (let round = 0; left > 0; round++) {
        await delay(300);
        // A watch that is well would last for minutes.
        proxy.breakConnections();
        left--;
        if (round % 5 === 2 && round < 15) {
          await server.kill();
          await server.start();
        }
      }
      const changes = await writers.stop();
      await converged(http, all);
      t.diagnostic(`${changes} changes; faults: ${JSON.stringify(proxy.faults)}`);
    } finally {
      stopping.abort();
      await Promise.all(all.map(({ reflecting }) => reflecting));
    }
  });
});
