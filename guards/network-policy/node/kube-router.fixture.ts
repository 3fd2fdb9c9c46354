/** Rules that kube-router leaves in a kernel when it ends, as it and k3s, which embeds it, write them. */
import { execFileSync } from 'node:child_process';

import type { NetworkNamespace } from '../../../test/network-policy/namespaces.fixture.ts';
import type { Variant } from './iptables/variant.ts';

/** A pod with a policy that allows nothing. 2.11 adds the chain `-TAIL`, and for its default deny the set of local pods. */
function filterRules(prefix: string, [address, block, everyone]: readonly [string, string, string]): string {
  return `*filter
:KUBE-NWPLCY-COMMON - [0:0]
:KUBE-NWPLCY-DEFAULT - [0:0]
:KUBE-NWPLCY-TAIL - [0:0]
:KUBE-NWPLCY-MT6TZ3ODCZBDHMLF - [0:0]
:KUBE-POD-FW-TSWMDTIX4JIUI2PX - [0:0]
:KUBE-ROUTER-FORWARD - [0:0]
:KUBE-ROUTER-INPUT - [0:0]
:KUBE-ROUTER-OUTPUT - [0:0]
-A INPUT -m comment --comment "kube-router netpol - 4IA2OSFRMVNDXBVV" -j KUBE-ROUTER-INPUT
-A FORWARD -m comment --comment "kube-router netpol - TEMCG2JMHZYE7H7T" -j KUBE-ROUTER-FORWARD
-A OUTPUT -m comment --comment "kube-router netpol - VEAAIY32XVBHCSCY" -j KUBE-ROUTER-OUTPUT
-A KUBE-NWPLCY-COMMON -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A KUBE-NWPLCY-DEFAULT -j MARK --set-xmark 0x10000/0x10000
-A KUBE-NWPLCY-MT6TZ3ODCZBDHMLF -m set --match-set ${prefix}KUBE-SRC-WGSIWLIOYKYJD7TV src -j MARK --set-xmark 0x10000/0x10000
-A KUBE-NWPLCY-TAIL -s ${block} -m set ! --match-set ${prefix}kube-router-local-pods src -j REJECT
-A KUBE-POD-FW-TSWMDTIX4JIUI2PX -j KUBE-NWPLCY-COMMON
-A KUBE-POD-FW-TSWMDTIX4JIUI2PX -d ${address} -j KUBE-NWPLCY-MT6TZ3ODCZBDHMLF
-A KUBE-POD-FW-TSWMDTIX4JIUI2PX -m mark ! --mark 0x10000/0x10000 -j REJECT
-A KUBE-POD-FW-TSWMDTIX4JIUI2PX -j MARK --set-xmark 0x20000/0x20000
-A KUBE-ROUTER-FORWARD -d ${address} -m comment --comment "rule to jump traffic destined to POD name:a namespace: x to chain KUBE-POD-FW-TSWMDTIX4JIUI2PX" -j KUBE-POD-FW-TSWMDTIX4JIUI2PX
-A KUBE-ROUTER-FORWARD -j KUBE-NWPLCY-TAIL
-A KUBE-ROUTER-FORWARD -m comment --comment "rule to explicitly ACCEPT traffic that comply to network policies" -m mark --mark 0x20000/0x20000 -j ACCEPT
-A KUBE-ROUTER-INPUT -d ${everyone} -m comment --comment "allow traffic to primary/secondary cluster IP range" -j RETURN
COMMIT
`;
}

const ends = {
  '': ['10.1.0.10/32', '10.1.0.0/24', '10.96.0.0/12'],
  'inet6:': ['fd00:1::10/128', 'fd00:1::/64', 'fd00:96::/112'],
} as const;

const sets = Object.keys(ends)
  .map((prefix) => {
    const family = prefix === '' ? 'inet' : 'inet6';
    return `create ${prefix}KUBE-SRC-WGSIWLIOYKYJD7TV hash:net family ${family} timeout 0
create ${prefix}KUBE-DST-3FU5WYPFZPMQHL6K hash:ip family ${family} timeout 0
create ${prefix}kube-router-local-pods hash:ip family ${family} timeout 0
`;
  })
  .join('');

/** Of its nftables backend, since 2.11. */
const tables = (['ip', 'ip6'] as const)
  .map((family) => {
    const table = `${family} kube-router-filter-ipv${family === 'ip' ? 4 : 6}`;
    const [address] = ends[family === 'ip' ? '' : 'inet6:'];
    return `
      add table ${table}
      add chain ${table} KUBE-POD-FW-TSWMDTIX4JIUI2PX
      add rule ${table} KUBE-POD-FW-TSWMDTIX4JIUI2PX meta mark and 0x10000 != 0x10000 counter reject
      add chain ${table} KUBE-ROUTER-FORWARD { type filter hook forward priority filter; }
      add rule ${table} KUBE-ROUTER-FORWARD ${family} daddr ${address} counter jump KUBE-POD-FW-TSWMDTIX4JIUI2PX`;
  })
  .join('\n');

export function addKubeRouterRules(
  namespace: NetworkNamespace,
  variants: readonly Variant[],
  backend: 'iptables' | 'both' = 'iptables',
): void {
  const run = (program: string, args: readonly string[], input: string): void =>
    namespace.run(() => void execFileSync(program, args, { input, stdio: ['pipe', 'pipe', 'pipe'] }));
  run('ipset', ['restore'], sets);
  for (const variant of variants) {
    for (const [prefix, addresses] of Object.entries(ends)) {
      const program = `${prefix === '' ? 'iptables' : 'ip6tables'}-${variant}-restore`;
      run(program, ['--noflush', '--wait'], filterRules(prefix, addresses));
    }
  }
  if (backend === 'both') namespace.nft(tables);
}
