import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { existsSync, writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { until } from '../../../../lib/testing/until.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { NodeCounts } from '../metrics.ts';
import { FlowLog } from './flow-log.ts';

const eventsSwitch = '/proc/sys/net/netfilter/nf_conntrack_events';

function tracking(): NetworkNamespace {
  const namespace = new NetworkNamespace();
  namespace.ip('link set lo up');
  namespace.nft(`
    add table inet test
    add chain inet test input { type filter hook input priority 0; policy accept; }
    add rule inet test input ct state invalid drop
  `);
  return namespace;
}

suite('the log of connections', { skip: namespaceObstacle() ?? false }, () => {
  test('missing events of the kernel are reported once, also if they stop later', async (context) => {
    using namespace = tracking();
    if (!namespace.run(() => existsSync(eventsSwitch))) return context.skip('this kernel has no switch');
    const switchEvents = (value: '0' | '1'): void => namespace.run(() => writeFileSync(eventsSwitch, value));
    const reported: string[] = [];
    const logger = {
      warn: (text: string) => void reported.push(text),
      info: (text: string) => void reported.push(text),
      error: (_: unknown, text: string) => void reported.push(text),
    };
    const engine = new PolicyEngine('node');
    engine.upsertPod({
      metadata: { namespace: 'x', name: 'a' },
      spec: { nodeName: 'node' },
      status: { podIP: '127.0.0.2' },
    });
    const lines: string[] = [];
    const counts = new NodeCounts();
    let nowMs = 5_000_000;
    using log = new FlowLog({
      context: { nodeName: 'node', logger: logger as never, sink: (line) => void lines.push(line) },
      objects: { policies: new Map(), pods: new Map(), namespaces: new Map() } as never,
      ...{ engine, counts, perSecond: 1, inNetwork: (work) => namespace.run(work) },
      clock: { monotonicMs: () => nowMs, wallMs: () => 0, schedule: () => () => undefined },
    });
    switchEvents('0');
    log.open();
    log.open();
    const warning =
      'allowed connections are not logged: cannot follow new connections: net.netfilter.nf_conntrack_events is 0';
    assert.equal(reported.length, 1);
    assert.ok(reported[0]?.startsWith(warning), reported[0]);
    assert.match(log.problem ?? '', /nf_conntrack_events is 0/);

    switchEvents('1');
    log.open();
    assert.deepEqual([log.problem, reported[1]], [undefined, 'logging allowed connections again']);
    const socket = await namespace.runTick(() => {
      const made = createSocket('udp4');
      made.bind(1234);
      return made;
    });
    for (const [to, port] of [
      ['127.0.0.1', 7],
      ['127.0.0.2', 8],
      ['127.0.0.2', 9],
    ] as const) {
      await new Promise<void>((resolve) => socket.send('?', port, to, () => resolve()));
    }
    socket.close();
    await until('both of the pod', () => counts.flowsLogged + counts.flowsNotLogged === 2);
    assert.deepEqual([counts.flowsLogged, lines.length], [1, 1]);

    switchEvents('0');
    log.open();
    assert.equal(log.problem, undefined);
    nowMs += 60_000;
    log.open();
    assert.match(log.problem ?? '', /nf_conntrack_events is 0/);
  });
});
