/**
 * Rules that kube-router leaves in a kernel when it ends, each as its controller writes it for one pod and one policy: pkg/controllers/netpol
 * of v2.11, with `--netpol-default-deny`, and of v2.6, as k3s embeds it.
 */
import { execFileSync } from 'node:child_process';
import { hash } from 'node:crypto';

import type { NetworkNamespace } from '../../../test/network-policy/namespaces.fixture.ts';
import type { Variant } from '../dataplane/iptables/variant.ts';

export type KubeRouterVersion = '2.11' | '2.6';

/** `x/in` lets `x/b` and a block reach a port of `x/a`. */
const pod = { namespace: 'x', name: 'a' };
const policy = 'in';
/** Names of chains have the time of the sync in them, in ns since 1970. */
const syncVersion = '1700000000000000000';
const nodePorts = '30000:32767';
const families = {
  IPv4: {
    ...{ program: 'iptables', prefix: '', inet: 'inet', ip: 'ip', table: 'kube-router-filter-ipv4' },
    ...{ pod: '10.1.0.10', peer: '10.1.0.11', pods: '10.1.0.0/24', services: '10.96.0.0/12' },
    ...{ block: '10.2.0.0/16', except: '10.2.3.0/24' },
    ...{ icmp: '-p icmp -m icmp --icmp-type', nftIcmp: 'icmp', neighbours: [] },
  },
  IPv6: {
    ...{ program: 'ip6tables', prefix: 'inet6:', inet: 'inet6', ip: 'ip6', table: 'kube-router-filter-ipv6' },
    ...{ pod: 'fd00:1::10', peer: 'fd00:1::11', pods: 'fd00:1::/64', services: 'fd00:96::/112' },
    ...{ block: 'fd00:2::/32', except: 'fd00:2:3::/48' },
    ...{ icmp: '-p ipv6-icmp -m icmp6 --icmpv6-type', nftIcmp: 'icmpv6' },
    neighbours: ['neighbor-solicitation', 'neighbor-advertisement', 'echo-reply'],
  },
} as const;
type FamilyName = keyof typeof families;
const familyNames = Object.keys(families) as FamilyName[];
const nftNames: Readonly<Record<string, string>> = {
  'neighbor-solicitation': 'nd-neighbor-solicit',
  'neighbor-advertisement': 'nd-neighbor-advert',
};

/** The first 16 characters of a SHA-256 in base32. */
function hashOf(text: string): string {
  const digits = BigInt(`0x${hash('sha256', text).slice(0, 20)}`)
    .toString(32)
    .padStart(16, '0');
  const alphabet = 'ABCDEFGHIJKLMNOPQRSTUVWXYZ234567';
  return digits.replaceAll(/./g, (digit) => alphabet[Number.parseInt(digit, 32)] ?? '');
}

const podChain = `KUBE-POD-FW-${hashOf(`${pod.namespace}${pod.name}${syncVersion}`)}`;
const policyChain = (family: FamilyName): string =>
  `KUBE-NWPLCY-${hashOf(`${pod.namespace}${policy}${syncVersion}${family}`)}`;

/** Sets of the policy: its pods, its peers, its blocks. Their names are the same after each sync. */
export function kubeRouterSets(family: FamilyName): { target: string; peers: string; blocks: string } {
  const of = (rest: string): string => hashOf(`${pod.namespace}${policy}${rest}`);
  return {
    target: `KUBE-DST-${of(family)}`,
    peers: `KUBE-SRC-${of(`ingressrule0${family}pod`)}`,
    blocks: `KUBE-SRC-${of(`ingressrule0${family}ipblock`)}`,
  };
}

/** Such rules are found again by a hash of themselves in their comment. */
function positioned(chain: string, [matches = '', comment = '', rest = '']: readonly string[]): string {
  const words = `${matches} -m comment --comment`.trim().split(' ').join('');
  const uuid = hashOf(`${chain}${words}${comment}${rest.split(' ').join('')}`);
  return `-A ${chain} ${matches} -m comment --comment "${comment} - ${uuid}" ${rest}`;
}

/** The words of its comments; the older ones are longer. */
const comments = {
  '2.11': {
    common: 'common netpol rules',
    local: 'from local node',
    default: 'default egress',
    policy: 'x/in policy',
    peers: 'x/in ingress pods',
    blocks: 'x/in ingress cidr',
    log: 'x/a log-drop',
    reject: 'x/a reject',
    ok: 'set netpol-ok mark',
    in: 'x/a in',
    out: 'x/a out',
  },
  '2.6': {
    common: 'common bi-directional traffic policy rules',
    local: "rule to permit the traffic traffic to pods when source is the pod's local node",
    default: 'run through default egress network policy chain',
    policy: 'run through nw policy in',
    peers: 'rule to ACCEPT traffic from source pods to dest pods selected by policy name in namespace x',
    blocks:
      'rule to ACCEPT traffic from specified ipBlocks to dest pods selected by policy name: in namespace x',
    log: 'rule to log dropped traffic POD name:a namespace: x',
    reject: 'rule to REJECT traffic destined for POD name:a namespace: x',
    ok: 'set mark to ACCEPT traffic that comply to network policies',
    in: `rule to jump traffic destined to POD name:a namespace: x to chain ${podChain}`,
    out: `rule to jump traffic from POD name:a namespace: x to chain ${podChain}`,
  },
} as const;

function filterRules(family: FamilyName, version: KubeRouterVersion): string {
  const { prefix, pod: address, pods, services, icmp, neighbours } = families[family];
  const sets = kubeRouterSets(family);
  const chain = policyChain(family);
  const words = comments[version];
  const hasTail = version === '2.11';
  const note = (text: string): string => `-m comment --comment "${text}"`;
  const tail = (top: string): string[] => [
    ...(hasTail
      ? [
          `-A ${top} ${note('rule to explicitly handle traffic for network policies ACCEPT/REJECT decision')} -j KUBE-NWPLCY-TAIL`,
        ]
      : []),
    `-A ${top} ${note('rule to explicitly ACCEPT traffic that comply to network policies')} -m mark --mark 0x20000/0x20000 -j ACCEPT`,
  ];
  const allowed = (comment: string, from: string): string[] =>
    ['-j MARK --set-xmark 0x10000/0x10000', '-m mark --mark 0x10000/0x10000 -j RETURN'].map(
      (target) =>
        `-A ${chain} ${note(comment)} -m set --match-set ${prefix}${from} src -m set --match-set ${prefix}${sets.target} dst -p tcp -m tcp --dport 5432 ${target}`,
    );
  const unknown = `${prefix}kube-router-local-pods`;
  const tops = ['INPUT', 'FORWARD', 'OUTPUT'].map((hook) => [hook, `KUBE-ROUTER-${hook}`] as const);
  const chains = [
    ...['KUBE-NWPLCY-COMMON', 'KUBE-NWPLCY-DEFAULT', chain, podChain, ...tops.map(([, top]) => top)],
    ...(hasTail ? ['KUBE-NWPLCY-TAIL'] : []),
  ];
  const jump = (top: string, comment: string, matches: string): string =>
    `-A ${top} ${matches} ${note(comment)} -j ${podChain}`;
  const lines = [
    '*filter',
    ...chains.map((name) => `:${name} - [0:0]`),
    ...tops.map(([hook, top]) => positioned(hook, ['', 'kube-router netpol', `-j ${top}`])),
    `-A KUBE-NWPLCY-COMMON ${note('rule to drop invalid state for pod')} -m conntrack --ctstate INVALID -j DROP`,
    `-A KUBE-NWPLCY-COMMON ${note('rule for stateful firewall for pod')} -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT`,
    ...['echo-request', 'destination-unreachable', 'time-exceeded', ...neighbours].map(
      (type) =>
        `-A KUBE-NWPLCY-COMMON ${note(`allow icmp ${type.replaceAll('-', ' ')} messages`)} ${icmp} ${type} -j ACCEPT`,
    ),
    `-A KUBE-NWPLCY-DEFAULT ${note('rule to mark traffic matching a network policy')} -j MARK --set-xmark 0x10000/0x10000`,
    ...allowed(words.peers, sets.peers),
    ...allowed(words.blocks, sets.blocks),
    `-A ${podChain} ${note(words.common)} -j KUBE-NWPLCY-COMMON`,
    `-A ${podChain} -d ${address} ${note(words.local)} -m addrtype --src-type LOCAL -j ACCEPT`,
    `-A ${podChain} -s ${address} ${note(words.default)} -j KUBE-NWPLCY-DEFAULT`,
    `-A ${podChain} -d ${address} ${note(words.policy)} -j ${chain}`,
    `-A ${podChain} ${note(words.log)} -m mark ! --mark 0x10000/0x10000 -m limit --limit 10/minute --limit-burst 10 -j NFLOG --nflog-group 100`,
    `-A ${podChain} ${note(words.reject)} -m mark ! --mark 0x10000/0x10000 -j REJECT`,
    `-A ${podChain} -j MARK --set-mark 0/0x10000`,
    `-A ${podChain} ${note(words.ok)} -j MARK --set-mark 0x20000/0x20000`,
    positioned('KUBE-ROUTER-INPUT', [
      ...['', 'allow traffic to primary/secondary cluster IP range', `-d ${services} -j RETURN`],
    ]),
    ...['tcp', 'udp', ...(hasTail ? ['sctp'] : [])].map((protocol) =>
      positioned('KUBE-ROUTER-INPUT', [
        ...[`-p ${protocol}`, `allow LOCAL ${protocol.toUpperCase()} traffic to node ports`],
        `-m addrtype --dst-type LOCAL -m multiport --dports ${nodePorts} -j RETURN`,
      ]),
    ),
    jump('KUBE-ROUTER-FORWARD', words.in, `-d ${address}`),
    jump('KUBE-ROUTER-OUTPUT', words.in, `-d ${address}`),
    jump('KUBE-ROUTER-FORWARD', words.in, `-d ${address} -m physdev --physdev-is-bridged`),
    ...tops.map(([, top]) => jump(top, words.out, `-s ${address}`)),
    jump('KUBE-ROUTER-FORWARD', words.out, `-s ${address} -m physdev --physdev-is-bridged`),
    ...tops.flatMap(([, top]) => tail(top)),
    ...(hasTail
      ? [
          ...(['-s', '-d'] as const).map(
            (end) =>
              `-A KUBE-NWPLCY-TAIL ${end} ${pods} ${note('reject unprogrammed local pod (default-deny)')} -m set ! --match-set ${unknown} ${end === '-s' ? 'src' : 'dst'} -j REJECT`,
          ),
          `-A KUBE-NWPLCY-TAIL ${note('accept netpol-ok')} -m mark --mark 0x20000/0x20000 -j ACCEPT`,
          ...['-s', '-d'].map(
            (end) =>
              `-A KUBE-NWPLCY-TAIL ${end} ${pods} ${note('reject pre-netpol (default-deny)')} -j REJECT`,
          ),
        ]
      : []),
    'COMMIT',
  ];
  return `${lines.join('\n')}\n`;
}

function ipsets(version: KubeRouterVersion): string {
  return familyNames
    .map((family) => {
      const { prefix, inet, pod: address, peer, block, except } = families[family];
      const { target, peers, blocks } = kubeRouterSets(family);
      const set = (name: string, kind: string, ...members: readonly string[]): string =>
        [
          `create ${prefix}${name} hash:${kind} family ${inet} hashsize 1024 maxelem 65536 timeout 0\n`,
          ...members.map((member) => `add ${prefix}${name} ${member}\n`),
        ].join('');
      return [
        set(target, 'ip', `${address} timeout 0`),
        set(peers, 'ip', `${peer} timeout 0`),
        set(blocks, 'net', `${block} timeout 0`, `${except} timeout 0 nomatch`),
        ...(version === '2.11' ? [set('kube-router-local-pods', 'ip', `${address} timeout 0`)] : []),
      ].join('');
    })
    .join('');
}

/** By its nftables backend, of 2.11: a table for each family. */
function nftRules(family: FamilyName): string {
  const { ip, table: name, pod: address, peer, pods, services, nftIcmp, neighbours } = families[family];
  const { target, peers } = kubeRouterSets(family);
  const chain = policyChain(family);
  const type = `${ip === 'ip' ? 'ipv4' : 'ipv6'}_addr`;
  const accept = 'meta mark and 0x20000 == 0x20000 counter accept comment "accept netpol-ok"';
  const tops = ['input', 'forward', 'output'].map((hook) => [hook, `KUBE-ROUTER-${hook.toUpperCase()}`]);
  const sets = { [target]: address, [peers]: peer, 'kube-router-local-pods': address };
  const rules: readonly (readonly [chain: string, ...rules: string[]])[] = [
    ['KUBE-NWPLCY-DEFAULT', 'counter meta mark set mark or 0x10000 comment "mark netpol match"'],
    [
      'KUBE-NWPLCY-COMMON',
      'ct state invalid counter drop comment "drop invalid state"',
      'ct state established,related counter accept comment "accept established/related"',
      ...['echo-request', 'destination-unreachable', 'time-exceeded', ...neighbours].map(
        (one) =>
          `${nftIcmp} type ${nftNames[one] ?? one} counter accept comment "allow icmp ${nftNames[one] ?? one} messages"`,
      ),
    ],
    [
      'KUBE-NWPLCY-TAIL',
      `${ip} saddr ${pods} ${ip} saddr != @kube-router-local-pods counter reject`,
      `${ip} daddr ${pods} ${ip} daddr != @kube-router-local-pods counter reject`,
      accept,
      `${ip} saddr ${pods} counter reject comment "reject pre-netpol (default-deny)"`,
      `${ip} daddr ${pods} counter reject comment "reject pre-netpol (default-deny)"`,
    ],
    [
      chain,
      `${ip} saddr @${peers} ${ip} daddr @${target} tcp dport 5432 counter meta mark set meta mark or 0x10000 return comment "x/in ingress pods"`,
    ],
    [
      podChain,
      'counter jump KUBE-NWPLCY-COMMON comment "common netpol rules"',
      `fib saddr type local ${ip} daddr ${address} counter accept comment "from local node"`,
      `${ip} daddr ${address} counter jump ${chain} comment "x/in policy"`,
      `${ip} saddr ${address} counter jump KUBE-NWPLCY-DEFAULT comment "default egress"`,
      'meta mark and 0x10000 == 0x0 limit rate 10/minute burst 10 packets log group 100 comment "x/a log-drop"',
      'meta mark and 0x10000 == 0x0 counter reject comment "x/a reject"',
      'meta mark set meta mark and 0xfffeffff comment "clear netpol mark"',
      'meta mark set meta mark or 0x20000 comment "set netpol-ok mark"',
    ],
    [
      'KUBE-ROUTER-INPUT',
      `${ip} daddr ${services} counter return comment "allow cluster IP range"`,
      ...['tcp', 'udp', 'sctp'].map(
        (one) =>
          `meta l4proto ${one} fib daddr type local ${one} dport ${nodePorts.replace(':', '-')} counter return comment "allow ${one} nodeport"`,
      ),
      `${ip} saddr ${address} counter jump ${podChain} comment "x/a out"`,
    ],
    ...['KUBE-ROUTER-FORWARD', 'KUBE-ROUTER-OUTPUT'].map(
      (top) =>
        [
          top,
          `${ip} daddr ${address} counter jump ${podChain} comment "x/a in"`,
          `${ip} saddr ${address} counter jump ${podChain} comment "x/a out"`,
        ] as const,
    ),
    ...tops.map(
      ([, top = '']) =>
        [top, 'counter jump KUBE-NWPLCY-TAIL comment "netpol accept/reject"', accept] as const,
    ),
  ];
  const table = `${ip} ${name}`;
  return [
    `add table ${table} { comment "rules for ${name}"; }`,
    ...tops.map(
      ([hook = '', top = '']) => `add chain ${table} ${top} { type filter hook ${hook} priority 0; }`,
    ),
    ...['KUBE-NWPLCY-DEFAULT', 'KUBE-NWPLCY-COMMON', 'KUBE-NWPLCY-TAIL', chain, podChain].map(
      (one) => `add chain ${table} ${one}`,
    ),
    ...Object.keys(sets).map((one) => `add set ${table} ${one} { type ${type}; }`),
    ...Object.entries(sets).map(([one, member]) => `add element ${table} ${one} { ${member} }`),
    ...rules.flatMap(([one, ...texts]) => texts.map((text) => `add rule ${table} ${one} ${text}`)),
  ].join('\n');
}

/** @param version - Default: 2.11. Its nftables backend is of 2.11 alone. */
export function addKubeRouterRules(
  namespace: NetworkNamespace,
  variants: readonly Variant[],
  backend: 'iptables' | 'both' = 'iptables',
  version: KubeRouterVersion = '2.11',
): void {
  const run = (program: string, args: readonly string[], input: string): void =>
    namespace.run(() => void execFileSync(program, args, { input, stdio: ['pipe', 'pipe', 'pipe'] }));
  run('ipset', ['restore', '-exist'], ipsets(version));
  for (const variant of variants) {
    for (const family of familyNames) {
      const program = `${families[family].program}-${variant}-restore`;
      run(program, ['--noflush', '--wait'], filterRules(family, version));
    }
  }
  if (backend === 'both') namespace.nft(familyNames.map(nftRules).join('\n'));
}
