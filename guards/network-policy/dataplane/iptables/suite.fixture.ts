/**
 * The dataplane of iptables as the suite of all dataplanes takes it, for each of the two kinds of iptables.
 */
import { execFileSync } from 'node:child_process';

import type { Host } from '../../../../test/network-policy/network.fixture.ts';
import { scaled } from '../../../../lib/testing/depth.fixture.ts';
import { dataplaneSuite } from '../dataplane.suite.fixture.ts';
import { openIptablesDataplane } from './dataplane.ts';
import { podChain } from './names.ts';
import { iptablesObstacle } from './obstacle.fixture.ts';
import { targetSet } from './policy.ts';
import type { Variant } from './variant.ts';

const families = ['iptables', 'ip6tables'] as const;

function run(host: Host, program: string, args: readonly string[], input = ''): string {
  return host.namespace.run(() =>
    execFileSync(program, args, { encoding: 'utf8', input, stdio: ['pipe', 'pipe', 'pipe'] }),
  );
}

const ours = /\bKUBE-(?:(?:POD-FW|NWPLCY|SRC|DST)-|ROUTER-(?:INPUT|FORWARD|OUTPUT)\b)/;

export function iptablesSuite(variant: Variant): void {
  const tool = (name: (typeof families)[number], word = ''): string => `${name}-${variant}${word}`;
  /** Rules of other programs come first, then ours. */
  const listing = (node: Host): string => {
    const lines = [
      ...families.flatMap((name) => run(node, tool(name, '-save'), []).split('\n')),
      ...run(node, 'ipset', ['save']).split('\n'),
    ]
      // The time, and counts of chains.
      .filter((line) => line !== '' && !line.startsWith('#'))
      .map((line) => line.replace(/ \[\d+:\d+\]$/, ''));
    const own = lines.filter((line) => ours.test(line));
    return [...lines.filter((line) => !ours.test(line)), ...own].join('\n');
  };
  const six = (text: string): string => text.replaceAll(/\bs4\b/g, 's6');

  dataplaneSuite(
    {
      name: `iptables-${variant}`,
      open: (options) => openIptablesDataplane({ ...options, variant }),
      listing,
      minParts: 3,
      // Each starts programs; every sixth takes over what an older version had.
      restarts: scaled(60, 7),
      addForeign: (node) => {
        run(
          node,
          'ipset',
          ['restore'],
          'create s4 hash:net family inet timeout 0\nadd s4 192.0.2.0/24 timeout 0\ncreate s6 hash:ip family inet6\nadd s6 2001:db8::1\n',
        );
        const rules = `*filter
:FORWARD ACCEPT [0:0]
:KUBE-FORWARD - [0:0]
:KUBE-ROUTER-SERVICES - [0:0]
-A FORWARD -m comment --comment "kubernetes forwarding rules" -j KUBE-FORWARD
-A FORWARD -m set --match-set s4 src -j DROP
-A KUBE-FORWARD -m mark --mark 0x4000/0x4000 -j ACCEPT
-A INPUT -j KUBE-ROUTER-SERVICES
COMMIT
*mangle
-A PREROUTING -p tcp -m tcp --dport 80 -j MARK --set-xmark 0x10000/0x10000
COMMIT
`;
        run(node, tool('iptables', '-restore'), ['--noflush', '--wait'], rules);
        run(node, tool('ip6tables', '-restore'), ['--noflush', '--wait'], six(rules));
      },
      addNodePort: (node, nodePort, address, number) => {
        const rules = `*nat
-A PREROUTING -d 10.7.0.1/32 -p tcp -m tcp --dport ${nodePort} -j DNAT --to-destination ${address}:${number}
-A POSTROUTING -m conntrack --ctstate DNAT -j MASQUERADE
COMMIT
`;
        run(node, tool('iptables', '-restore'), ['--noflush', '--wait'], rules);
      },
      makeOld: (node) => {
        for (const name of families) {
          const rules = run(node, tool(name, '-save'), ['-t', 'filter']);
          run(node, tool(name, '-restore'), ['--wait'], rules.replaceAll('10/min', '11/min'));
        }
        const [, set = ''] =
          /^create ((?:inet6:)?KUBE-SRC-\S+) hash:net/m.exec(run(node, 'ipset', ['save'])) ?? [];
        const old = run(node, 'ipset', ['save', set])
          .replaceAll(set, 'old')
          .replace(/ maxelem.*/, ' timeout 0');
        run(node, 'ipset', ['restore'], `${old}swap old ${set}\ndestroy old\n`);
      },
      damages: [
        {
          name: 'all rules are gone',
          do: (node) => {
            for (const name of families) run(node, tool(name), ['-w', '-F']);
          },
          found: /^chain INPUT missing\n[^]*^chain KUBE-POD-FW-\w+ \(x\/a\) changed$/m,
        },
        {
          name: "a pod's chain is empty",
          do: (node) => void run(node, tool('iptables'), ['-w', '-F', podChain('x/a')]),
          found: /^chain KUBE-POD-FW-\w+ \(x\/a\) changed$/,
        },
        {
          name: 'the address of a pod is gone from a set',
          do: (node) => void run(node, 'ipset', ['del', targetSet('ingress', 'x/in-x.a', 4), '10.1.0.10']),
          found: /^set KUBE-DST-\w+ changed$/,
        },
        {
          name: 'the way into our chains is gone, and a rule of somebody else accepts all before it',
          do: (node) => {
            run(node, tool('iptables'), ['-w', '-D', 'FORWARD', '1']);
            run(node, tool('ip6tables'), ['-w', '-I', 'FORWARD', '-j', 'ACCEPT']);
          },
          found: /^chain FORWARD (?:missing|changed)\nchain FORWARD changed$/,
        },
        {
          name: 'a rule, a chain and an address were added',
          do: (node) => {
            run(node, tool('iptables'), ['-w', '-N', 'KUBE-POD-FW-0MINE']);
            run(node, tool('iptables'), ['-w', '-I', 'KUBE-ROUTER-FORWARD', '-j', 'KUBE-POD-FW-0MINE']);
            run(node, 'ipset', ['add', targetSet('ingress', 'x/in-x.a', 4), '10.1.0.12']);
          },
          found:
            /^chain KUBE-ROUTER-FORWARD changed\nchain KUBE-POD-FW-0MINE added\nset KUBE-DST-\w+ changed$/,
        },
      ],
    },
    iptablesObstacle(variant),
  );
}
