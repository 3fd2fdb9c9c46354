import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { createSocket } from 'node:dgram';
import { suite, test } from 'node:test';

import { NetworkNamespace, namespaceObstacle } from '../../../test/network-policy/namespaces.fixture.ts';
import { scaled } from '../../../lib/testing/depth.fixture.ts';
import { errorCodes } from '../../../lib/errors/errors.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { parseIpPacket } from './ip-packet.ts';
import { type LoggedPacket, openNflog } from './nflog.ts';

const group = 4711;

function logging(): NetworkNamespace {
  const namespace = new NetworkNamespace();
  namespace.ip('link set lo up');
  namespace.nft(`
    add table inet test
    add chain inet test output { type filter hook output priority 0; policy accept; }
    add rule inet test output udp dport 9 log prefix "mine " group ${group} drop
  `);
  return namespace;
}

async function sendDatagrams(namespace: NetworkNamespace, address: string, count: number): Promise<void> {
  const socket = await namespace.runTick(() => {
    const made = createSocket(address.includes(':') ? 'udp6' : 'udp4');
    made.bind(1234);
    return made;
  });
  try {
    for (let sent = 0; sent < count; sent++) {
      // The rule drops it, which sendto(2) reports as EPERM.
      await new Promise<void>((resolve) => socket.send('?', 9, address, () => resolve()));
    }
  } finally {
    socket.close();
  }
}

suite('NFLOG', { skip: namespaceObstacle() ?? false }, () => {
  test('a packet comes with the prefix of its rule, its hook and who sent it to whom', async () => {
    using namespace = logging();
    const seen: (Omit<LoggedPacket, 'payload'> & ReturnType<typeof parseIpPacket>)[] = [];
    using log = namespace.run(() =>
      openNflog({
        group,
        onPacket: ({ payload, ...packet }) => seen.push({ ...packet, ...parseIpPacket(payload)! }),
        onError: (error) => assert.fail(String(error)),
      }),
    );
    await sendDatagrams(namespace, '127.0.0.1', 1);
    await sendDatagrams(namespace, '::1', 1);
    await until('two packets', () => seen.length === 2);
    const ports = { protocol: 17, sourcePort: 1234, destinationPort: 9 };
    assert.deepEqual(seen, [
      { prefix: 'mine ', hook: 3, family: 4, source: 0x7f000001n, destination: 0x7f000001n, ...ports },
      { prefix: 'mine ', hook: 3, family: 6, source: 1n, destination: 1n, ...ports },
    ]);
    assert.deepEqual(log.totals, { packets: 2, lost: 0, overruns: 0 });
  });

  test('one reader has a group; after it the next may', () => {
    using namespace = logging();
    const open = () =>
      namespace.run(() => openNflog({ group, onPacket: () => undefined, onError: () => undefined }));
    const first = open();
    assert.throws(open, { code: errorCodes.LIMIT, message: /cannot read NFLOG group 4711: another/ });
    assert.equal(first.isOpen, true);
    first[Symbol.dispose]();
    assert.equal(first.isOpen, false);
    open()[Symbol.dispose]();
  });

  test('packets that found no room are counted, and reading goes on', async () => {
    using namespace = logging();
    let [packets, lost] = [0, 0];
    using log = namespace.run(() =>
      openNflog({
        group,
        receiveBytes: 64 * 1024,
        onPacket: () => packets++,
        onLost: (count) => (lost += count),
        onError: (error) => assert.fail(String(error)),
      }),
    );
    // The socket is not read while these are sent: all of them in one turn of the event loop.
    const count = scaled(30_000, 5_000);
    namespace.nft(`
      add rule inet test output udp dport 10 log prefix "many " group ${group} drop
    `);
    const flood = `exec 3> /dev/udp/127.0.0.1/10; for ((i = 0; i < ${count}; i++)); do echo >&3; done 2> /dev/null`;
    namespace.run(() => spawnSync('bash', ['-c', flood]));
    await until('the first', () => packets > 0);
    // The next packet reports how many were lost, unless the queue is still full and it is lost itself: then
    // another one has to.
    let [more, before] = [0, 0];
    await until('all that there were', async () => {
      if (more > 0 && packets + lost === count + more) return true;
      if (packets === before) {
        await sendDatagrams(namespace, '127.0.0.1', 1);
        more++;
      }
      before = packets;
      return false;
    });
    assert.ok(lost > 0, 'the queue had room for all');
    assert.equal(log.totals.lost, lost);
    assert.notEqual(log.totals.overruns, 0);
  });

  test('an error of a reader is reported, and reading continues', async () => {
    using namespace = logging();
    const errors: unknown[] = [];
    let calls = 0;
    using _log = namespace.run(() =>
      openNflog({
        group,
        onPacket: () => {
          calls++;
          throw new Error('no');
        },
        onError: (error) => errors.push(error),
      }),
    );
    await sendDatagrams(namespace, '127.0.0.1', 2);
    await until('both', () => calls === 2);
    assert.equal(errors.length, 2);
  });
});

suite('IP packets', () => {
  const hex = (text: string): Buffer => Buffer.from(text.replaceAll(/\s/g, ''), 'hex');
  const ipv6 = (next: string, rest: string): Buffer =>
    hex(`60000000 0000 ${next} 40 ${'00'.repeat(15)}01 ${'00'.repeat(15)}02 ${rest}`);

  test('ports behind extension headers', () => {
    assert.deepEqual(parseIpPacket(ipv6('00', '3c00000000000000 0600000000000000 04d2 0050')), {
      family: 6,
      source: 1n,
      destination: 2n,
      protocol: 6,
      sourcePort: 1234,
      destinationPort: 80,
    });
  });

  test('no ports in later fragments, in protocols without them, and where they were cut off', () => {
    const ports = (bytes: Buffer) => {
      const { protocol, sourcePort, destinationPort } = parseIpPacket(bytes)!;
      return [protocol, sourcePort, destinationPort];
    };
    const ipv4 = (offset: string, protocol: string, rest: string): Buffer =>
      hex(`45000000 0000${offset} 40${protocol}0000 7f000001 7f000002 ${rest}`);
    assert.deepEqual(ports(ipv4('0000', '11', '04d20009')), [17, 1234, 9]);
    assert.deepEqual(ports(ipv4('0001', '11', '04d20009')), [17, undefined, undefined]);
    assert.deepEqual(ports(ipv4('0000', '01', '08000000')), [1, undefined, undefined]);
    assert.deepEqual(ports(ipv4('0000', '06', '04d2')), [6, undefined, undefined]);
    assert.deepEqual(ports(ipv6('2c', '1100000100000000 04d20009')), [17, 1234, 9]);
    assert.deepEqual(ports(ipv6('2c', '1100000800000000 04d20009')), [17, undefined, undefined]);
    assert.equal(parseIpPacket(hex('4500')), undefined);
    assert.equal(parseIpPacket(Buffer.alloc(0)), undefined);
  });

  test('no bytes make it throw', () => {
    for (let length = 0; length < 64; length++) {
      for (const first of [0x40, 0x4f, 0x60]) {
        parseIpPacket(Buffer.concat([Buffer.of(first), Buffer.alloc(length, 0x2c)]));
      }
    }
  });
});
