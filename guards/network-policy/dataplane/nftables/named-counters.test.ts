import assert from 'node:assert/strict';
import { test } from 'node:test';

import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { readCounters } from './named-counters.ts';

test(
  'the counters of one table, of its family, and no other objects',
  { skip: namespaceObstacle() ?? false },
  () => {
    using namespace = new NetworkNamespace();
    using socket = namespace.run(() => new NetlinkSocket({ protocol: NETLINK_NETFILTER }));
    assert.deepEqual(readCounters(socket, 'inet', 'mine'), new Map());
    const many = Array.from({ length: 500 }, (_, at) => `add counter netdev mine many-${at}`);
    namespace.nft(`
    add table inet mine
    add counter inet mine seen { packets 3 bytes 5000000000 }
    add quota inet mine some { over 5 mbytes }
    add table inet other
    add counter inet other seen { packets 7 bytes 8 }
    add table netdev mine
    ${many.join('\n')}
  `);
    assert.deepEqual(
      readCounters(socket, 'inet', 'mine'),
      new Map([['seen', { packets: 3, bytes: 5_000_000_000 }]]),
    );
    assert.equal(readCounters(socket, 'netdev', 'mine').size, 500);
  },
);
