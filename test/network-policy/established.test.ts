// Connections that a change of the policies no longer allows: they go on, or are ended, and only they.
import assert from 'node:assert/strict';
import { createSocket } from 'node:dgram';
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { suite, test } from 'node:test';

import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { Conntrack } from '../../guards/network-policy/node/conntrack/conntrack.ts';
import { allFlows } from '../../guards/network-policy/node/conntrack/tracked-pair.fixture.ts';
import { parseAddress } from '../../guards/network-policy/engine/addresses.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { iptablesObstacle } from '../../guards/network-policy/dataplane/iptables/obstacle.fixture.ts';
import type { Host } from './network.fixture.ts';
import { namespaceObstacle } from './namespaces.fixture.ts';
import { PacketCounter } from './packet-counter.fixture.ts';
import { nodeName, PolicyNode } from './policy-node.fixture.ts';
import { reaches } from './probe.fixture.ts';

const UDP = 17;

/** A TCP connection from a host, and what came of it. */
class Connection implements Disposable {
  readonly socket: Socket;
  received = 0;
  error: NodeJS.ErrnoException | undefined;
  closed = false;

  private constructor(socket: Socket) {
    this.socket = socket
      .on('data', (data: Buffer) => (this.received += data.length))
      .on('error', (error) => (this.error = error))
      .on('close', () => (this.closed = true));
  }

  static async open(from: Host, host: string, port = 80): Promise<Connection> {
    const [connection, connected] = await from.namespace.runTick(() => {
      const socket = connect({ host, port });
      return [new Connection(socket), once(socket, 'connect')] as const;
    });
    await connected;
    return connection;
  }

  /** Whether the echo of what is sent comes back, before the connection is closed. */
  async echoes(): Promise<boolean> {
    const before = this.received;
    this.socket.write('!');
    await until('an answer, or the end', () => this.received > before || this.closed);
    return this.received > before;
  }

  [Symbol.dispose](): void {
    this.socket.destroy();
  }
}

/** Sends without being asked, every few milliseconds. */
async function startTalker(host: Host, port: number): Promise<Disposable> {
  const sockets = new Set<Socket>();
  const server = createServer((socket) => {
    sockets.add(socket);
    const timer = setInterval(() => socket.write('x'), 5);
    socket.on('error', () => undefined).on('close', () => clearInterval(timer));
  });
  const listening = once(server, 'listening');
  await host.namespace.runTick(() => server.listen(port));
  await listening;
  return {
    [Symbol.dispose]: () => {
      for (const socket of sockets) socket.destroy();
      server.close();
    },
  };
}

const onlyB = {
  podSelector: { matchLabels: { pod: 'a' } },
  ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { pod: 'b' } } }] }],
};

suite('established connections', { skip: namespaceObstacle() ?? false }, () => {
  test('cut: connections that are no longer allowed end, also if the server talks first, and all others continue', async () => {
    await using node = await PolicyNode.create();
    const { network } = node;
    const target = network.host('x/a').addresses;
    using _talker = await startTalker(network.host('x/a'), 8080);
    await node.start({ cutsEstablished: true });
    // Something is in the kernel from the beginning, so that connections are tracked.
    await node.apply('z/c', { podSelector: { matchLabels: { pod: 'c' } }, ingress: [{}] });
    await node.untilRules((rules) => rules.includes('z/c'));

    using c4 = await Connection.open(network.host('y/c'), target[4]);
    using c6 = await Connection.open(network.host('y/c'), target[6]);
    using talked = await Connection.open(network.host('z/c'), target[4], 8080);
    using b4 = await Connection.open(network.host('y/b'), target[4]);
    using own = await Connection.open(network.node, target[4]);
    using outward = await Connection.open(network.host('x/a'), network.host('y/c').addresses[4]);
    using elsewhere = await Connection.open(network.host('y/c'), network.host('z/c').addresses[4]);
    const stay = { b4, own, outward, elsewhere };
    for (const [name, one] of Object.entries({ c4, c6, ...stay })) assert.ok(await one.echoes(), name);
    await until('the talker is heard', () => talked.received > 3);

    await node.apply('x/only-b', onlyB);
    await until('the talker is cut', () => talked.closed);
    for (const [name, one] of Object.entries({ c4, c6 })) {
      assert.equal(await one.echoes(), false, name);
      assert.equal(one.error?.code, 'ECONNRESET', name);
    }
    for (const [name, one] of Object.entries(stay)) assert.ok(await one.echoes(), name);

    // An end that only listens hears of it too: the echo's side of a connection whose client was reset.
    await until('nobody waits for ever', () => network.connectionsOf('x/a') === 2);

    // The same ends may connect again as soon as they are allowed to.
    const { localPort = 0 } = c4.socket;
    await node.removePolicy('x/only-b');
    await node.untilRules((rules) => !rules.includes('x/only-b'));
    const again = await network.host('y/c').namespace.runTick(() => {
      const socket = connect({ host: target[4], port: 80, localPort });
      return [socket, once(socket, 'connect')] as const;
    });
    await again[1];
    let heard = 0;
    again[0].on('data', () => heard++);
    again[0].write('!');
    await until('an answer', () => heard > 0);
    again[0].destroy();
    for (const [name, one] of Object.entries(stay)) assert.ok(await one.echoes(), name);
  });

  deepTest(
    'cut: what a changed port no longer allows; a NodePort and a datagram are followed to the pod that they are for',
    async () => {
      await using node = await PolicyNode.create();
      const { network } = node;
      const target = network.host('x/a').addresses[4];
      network.node.namespace.nft(`
      add table ip service
      add chain ip service prerouting { type nat hook prerouting priority dstnat; }
      add rule ip service prerouting ip daddr 10.7.0.1 tcp dport 30080 dnat to ${target}:80
      add rule ip service prerouting ip daddr 10.7.0.1 tcp dport 30081 dnat to ${target}:81
    `);
      await node.apply('x/both', {
        ...onlyB,
        ingress: [{ ports: [{ port: 80 }, { port: 81 }, { protocol: 'UDP' }] }],
      });
      await node.start({ cutsEstablished: true });
      using at80 = await Connection.open(network.outside, '10.7.0.1', 30_080);
      using at81 = await Connection.open(network.outside, '10.7.0.1', 30_081);
      assert.ok((await at80.echoes()) && (await at81.echoes()));
      assert.ok(await reaches(network.host('y/c'), target, { protocol: 'UDP' }));
      using conntrack = network.node.namespace.run(() => new Conntrack());
      const datagrams = async () => (await allFlows(conntrack)).filter(({ protocol }) => protocol === UDP);
      assert.equal((await datagrams()).length, 1);
      await node.apply('x/one', {
        podSelector: { matchLabels: { pod: 'a' } },
        ingress: [{ ports: [{ port: 81 }] }],
      });
      await node.removePolicy('x/both');
      await node.untilRules((rules) => !rules.includes('x/both'));
      // Connections are cut once the rules are there.
      await until('what is no longer allowed is cut', async () => !(await at80.echoes()));
      assert.ok(await at81.echoes());
      await until('the datagrams are forgotten', async () => (await datagrams()).length === 0);
    },
  );

  deepTest(
    'cut, where the rules are those of iptables',
    { skip: iptablesObstacle('nft') ?? false },
    async () => {
      await using node = await PolicyNode.create({ open: () => openIptablesDataplane({ variant: 'nft' }) });
      const { network } = node;
      const target = network.host('x/a').addresses;
      await node.apply('z/c', { podSelector: { matchLabels: { pod: 'c' } }, ingress: [{}] });
      await node.start({ cutsEstablished: true });
      using refused = await Connection.open(network.host('y/c'), target[4]);
      using allowed = await Connection.open(network.host('y/b'), target[6]);
      assert.ok((await refused.echoes()) && (await allowed.echoes()));
      await node.apply('x/only-b', onlyB);
      await until('it is cut', async () => !(await refused.echoes()));
      assert.equal(refused.error?.code, 'ECONNRESET');
      assert.ok(await allowed.echoes());
    },
  );

  const backends = [
    ['nftables', undefined, undefined],
    ['iptables', () => openIptablesDataplane({ variant: 'nft' }), iptablesObstacle('nft')],
  ] as const;
  for (const [name, open, obstacle] of sampled(backends, 1)) {
    test(
      `${name}, keep: they go on, also over the first policy of a node`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ ...(open && { open }) });
        const { network } = node;
        const [pod, peer] = [network.host('x/a'), network.host('y/c')];
        using _talker = await startTalker(pod, 8080);
        await node.start();
        using four = await Connection.open(peer, pod.addresses[4]);
        using six = await Connection.open(network.outside, pod.addresses[6]);
        using outward = await Connection.open(pod, peer.addresses[4]);
        using talked = await Connection.open(peer, pod.addresses[4], 8080);
        for (const one of [four, six, outward]) assert.ok(await one.echoes());
        await node.apply('x/only-b', { ...onlyB, policyTypes: ['Ingress', 'Egress'] });
        for (const family of [4, 6] as const) {
          await until('the rules', async () => !(await reaches(peer, pod.addresses[family])));
        }
        for (const one of [four, six, outward]) assert.ok(await one.echoes());
        const { received } = talked;
        await until('the talker is heard', () => talked.received > received + 3);
      },
    );

    test(
      `${name}: a pod inherits no connection of the one that had its address`,
      { skip: obstacle ?? false },
      async () => {
        await using node = await PolicyNode.create({ ...(open && { open }) });
        const { network } = node;
        const [pod, peer] = [network.host('x/a'), network.host('y/c')];
        await node.apply('z/c', { podSelector: { matchLabels: { pod: 'c' } }, ingress: [{}] });
        await node.start();
        using stack = new DisposableStack();
        const opened: Connection[] = [];
        for (const family of [4, 6] as const) {
          for (const [from, to] of [
            [peer, pod],
            [network.outside, pod],
            [pod, peer],
          ] as const) {
            opened.push(stack.use(await Connection.open(from, to.addresses[family])));
          }
        }
        const elsewhere = stack.use(await Connection.open(peer, network.host('x/b').addresses[4]));
        const datagrams = stack.adopt(createSocket('udp4'), (socket) => socket.close());
        const answered = once(datagrams, 'message');
        await peer.namespace.runTick(() => datagrams.send('?', 80, pod.addresses[4]));
        await answered;
        for (const one of [...opened, elsewhere]) assert.ok(await one.echoes());

        await node.removePod(pod.name);
        await node.apply('x/closed', {
          podSelector: { matchLabels: { pod: 'new' } },
          policyTypes: ['Ingress', 'Egress'],
        });
        await node.createPod({ ...pod, name: 'x/new' }, nodeName);
        const values = [pod.addresses[4], pod.addresses[6]].map((address) => parseAddress(address)?.value);
        using conntrack = network.node.namespace.run(() => new Conntrack());
        await until('its connections are forgotten', async () =>
          (await allFlows(conntrack)).every(({ original }) => {
            return !values.includes(original.source) && !values.includes(original.destination);
          }),
        );
        // iptables has a transaction for each family.
        for (const family of [4, 6] as const) {
          await until('the new pod is isolated', async () => !(await reaches(peer, pod.addresses[family])));
        }
        const to80 = { to80: 'meta l4proto { tcp, udp } th dport 80' };
        using atPod = new PacketCounter(pod, to80);
        using atPeer = new PacketCounter(peer, to80);
        // The packet has arrived when it is sent: all of it is one kernel's.
        for (const { socket } of opened) socket.write('!');
        await new Promise((resolve) => datagrams.send('?', 80, pod.addresses[4], resolve));
        assert.deepEqual([atPod.count('to80'), atPeer.count('to80')], [0, 0]);
        assert.ok(await elsewhere.echoes());
      },
    );

    test(`${name}: nor of one of another node, which was allowed`, { skip: obstacle ?? false }, async () => {
      await using node = await PolicyNode.create({ ...(open && { open }) });
      const { network } = node;
      const [pod, peer] = [network.host('x/a'), network.outside];
      await node.createPod({ ...peer, name: 'y/remote' }, 'node-2');
      await node.apply('x/from-remote', {
        podSelector: { matchLabels: { pod: 'a' } },
        ingress: [{ from: [{ namespaceSelector: {}, podSelector: { matchLabels: { pod: 'remote' } } }] }],
      });
      await node.start();
      for (const family of [4, 6] as const) {
        const address = pod.addresses[family];
        await until('the rules', async () => !(await reaches(network.host('y/c'), address, { family })));
      }
      using stack = new DisposableStack();
      const opened: Connection[] = [];
      for (const family of [4, 6] as const)
        opened.push(stack.use(await Connection.open(peer, pod.addresses[family])));
      for (const one of opened) assert.ok(await one.echoes());
      await node.labelPod('y/remote', { more: 'yes' });
      await node.removePod('y/remote');
      const values = [peer.addresses[4], peer.addresses[6]].map((address) => parseAddress(address)?.value);
      using conntrack = network.node.namespace.run(() => new Conntrack());
      await until('its connections are forgotten', async () =>
        (await allFlows(conntrack)).every(({ original }) => !values.includes(original.source)),
      );
      await node.createPod({ ...peer, name: 'y/other' }, 'node-2');
      using atPod = new PacketCounter(pod, { to80: 'tcp dport 80' });
      for (const { socket } of opened) socket.write('!');
      assert.equal(atPod.count('to80'), 0);
    });
  }
});
