import { suite } from 'node:test';

import {
  type Cases,
  app,
  egress,
  http,
  ingress,
  outside,
  pod,
  policy,
  testEach,
  xa,
  xb,
  ya,
  yb,
} from './meaning.fixture.ts';

const cases: Cases = {
  'absent from with a port': [
    ingress({ ports: [{ port: 80 }] }),
    [
      [true, outside, xa],
      [false, ya, xa, 81],
    ],
  ],
  'a name that no pod has allows nothing, never every port': [
    ingress({ from: [{ podSelector: {} }], ports: [{ port: 'metrics' }] }),
    [
      [false, xb, xa],
      [false, xb, xa, 9],
    ],
  ],
  'a name is that of the destination, by protocol': [
    [
      policy('x/p', {
        podSelector: {},
        ingress: [{ ports: [{ port: 'http' }, { port: 'dns', protocol: 'UDP' }] }],
      }),
    ],
    [
      [true, ya, xa],
      [false, ya, xa, 8080],
      [true, ya, xb, 8080],
      [false, ya, xb],
      [true, ya, xa, 53, 'UDP'],
      [false, ya, xa, 53],
    ],
  ],
  'a name with the wrong protocol allows nothing': [
    ingress({ ports: [{ port: 'dns' }] }),
    [
      [false, ya, xa, 53],
      [false, ya, xa, 53, 'UDP'],
    ],
  ],
  'a port without a protocol is TCP': [
    ingress({ ports: [{ port: 80 }] }),
    [
      [true, ya, xa],
      [false, ya, xa, 80, 'UDP'],
    ],
  ],
  'a protocol without a port is all of its ports': [
    ingress({ ports: [{ protocol: 'UDP' }] }),
    [
      [true, ya, xa, 1, 'UDP'],
      [true, ya, xa, 65_535, 'UDP'],
      [false, ya, xa],
    ],
  ],
  'endPort is within its range': [
    ingress({ ports: [{ port: 80, endPort: 82 }] }),
    [
      [false, ya, xa, 79],
      [true, ya, xa],
      [true, ya, xa, 82],
      [false, ya, xa, 83],
    ],
  ],
  'a rule for SCTP isolates, and is not one for TCP': [
    ingress({ ports: [{ port: 80, protocol: 'SCTP' }] }),
    [
      [false, ya, xa],
      [true, ya, xa, 80, 'SCTP'],
    ],
  ],
  'protocols without ports fit no port, and every rule without ports': [
    [...ingress({ ports: [{ protocol: 'UDP' }] }), policy('x/q', { podSelector: app('b'), ingress: [{}] })],
    [
      [false, ya, xa, 0, 'ICMP'],
      [true, ya, xb, 0, 'ICMP'],
    ],
  ],
  'egress to everyone with a name: pods that have it, each with its own number': [
    egress({ ports: [{ port: 'http' }] }),
    [
      [true, xa, xb, 8080],
      [false, xa, xb],
      [true, xa, ya],
      [false, xa, yb],
      [false, xa, outside],
    ],
  ],
  'egress to a block with a name: pods within it': [
    egress({ to: [{ ipBlock: { cidr: '10.0.0.2/31' } }], ports: [{ port: 'http' }] }),
    [
      [true, xa, xb, 8080],
      [false, xa, xb],
      [true, xa, ya],
      [false, xa, '10.0.0.5'],
      [false, 'fd00::1', 'fd00::2', 8080],
    ],
    [pod('y/c', '10.0.0.5', { ports: [http] })],
  ],
};

suite('on which ports', () => testEach(cases));
