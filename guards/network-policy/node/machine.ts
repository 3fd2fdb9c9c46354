/** Which requirements of network policies this machine meets, for `rampart doctor`. */
import { existsSync, readFileSync } from 'node:fs';
import { release } from 'node:os';
import { join } from 'node:path';

import { KeptNamespace } from '../dataplane/namespace.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { examineIptables } from '../dataplane/iptables/needs.ts';
import { installedIptables } from '../dataplane/iptables/variant.ts';
import { readOtherRules } from '../other-rules/other-rules.ts';
import { tryNftables } from '../dataplane/nftables/trial.ts';

/** One requirement that is available or not. */
export interface MachineFact {
  /** A stable word: `nftables`, `iptables`, `ipset`, `nfnetlink_log`, `conntrack`, `bridge-nf`. */
  readonly name: string;
  readonly available: boolean;
  /** Versions and settings; if it is not available: what is missing. */
  readonly detail: string;
}

export interface NetworkPolicyMachine {
  /** The choice of `--network-policy-backend auto`; null: neither works. */
  readonly backend: 'nftables' | 'iptables' | null;
  readonly facts: readonly MachineFact[];
  /** Rules of other programs that certainly or possibly refuse packets of pods. */
  readonly others: readonly string[];
}

/** Rules are tried in a separate network namespace, so nothing on this machine changes. */
export async function examineMachine(signal?: AbortSignal): Promise<NetworkPolicyMachine> {
  const facts: MachineFact[] = [];
  const others: string[] = [];
  try {
    using tried = KeptNamespace.create();
    using here = new KeptNamespace();
    facts.push(nftablesFact(tried), ...(await iptablesFacts(tried, here, signal)));
    const { enforcers, dropping, unread } = await readOtherRules(here, signal);
    others.push(
      ...enforcers,
      ...dropping.filter(({ hook }) => hook !== 'output').map(({ words }) => words),
      ...unread.map((why) => `not read: ${why}`),
    );
  } catch (error) {
    if (!(error instanceof RampartError) || error.code !== errorCodes.PRIVILEGE) throw error;
    const detail = `unknown to this process: ${error.message}`;
    for (const name of ['nftables', 'iptables', 'ipset']) facts.push({ name, available: false, detail });
  }
  facts.push(
    moduleFact('nfnetlink_log', 'reports of refused packets', '/proc/net/netfilter/nfnetlink_log'),
    moduleFact(
      'conntrack',
      'connection tracking',
      '/proc/sys/net/netfilter/nf_conntrack_max',
      'nf_conntrack',
    ),
    bridgeFact(),
  );
  const works = (name: string): boolean => facts.some((fact) => fact.name === name && fact.available);
  return { backend: works('nftables') ? 'nftables' : works('iptables') ? 'iptables' : null, facts, others };
}

function nftablesFact(tried: KeptNamespace): MachineFact {
  try {
    tried.run(tryNftables);
    return { name: 'nftables', available: true, detail: 'libnftables' };
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    return { name: 'nftables', available: false, detail: error.message };
  }
}

async function iptablesFacts(
  tried: KeptNamespace,
  here: KeptNamespace,
  signal: AbortSignal | undefined,
): Promise<MachineFact[]> {
  const installed = await installedIptables(here, signal);
  const { iptables, ipset, missing, withoutHopLimit } = await examineIptables(tried, signal, here);
  const kinds = installed.map(({ variant, version }) => {
    return `${variant} ${version}${variant === iptables?.variant && installed.length > 1 ? ' (in use)' : ''}`;
  });
  return [
    {
      name: 'iptables',
      available: iptables !== undefined && missing.length === 0,
      detail: [kinds.join(', '), ...missing, withoutHopLimit].filter(Boolean).join('; '),
    },
    {
      name: 'ipset',
      available: ipset !== undefined,
      detail: ipset ?? 'not installed: apt-get install ipset',
    },
  ];
}

function moduleFact(name: string, what: string, sign: string, module = name): MachineFact {
  if (existsSync(sign)) return { name, available: true, detail: what };
  if (canBeLoaded(module))
    return { name, available: true, detail: `${what}: the kernel loads the module on demand` };
  return {
    name,
    available: false,
    detail: `the module ${module} is neither loaded nor in /lib/modules`,
  };
}

function canBeLoaded(module: string): boolean {
  return ['modules.dep', 'modules.builtin'].some((list) => {
    const path = join('/lib/modules', release(), list);
    return existsSync(path) && new RegExp(`/${module}\\.ko`).test(readFileSync(path, 'utf8'));
  });
}

function bridgeFact(): MachineFact {
  const name = 'bridge-nf';
  const directory = '/proc/sys/net/bridge';
  if (!existsSync(directory)) {
    const exists = canBeLoaded('br_netfilter');
    const detail = exists
      ? 'the module br_netfilter is not loaded: where pods share a bridge, run modprobe br_netfilter'
      : 'the module br_netfilter does not exist: pods on the same bridge bypass all policies';
    return { name, available: exists, detail };
  }
  const settings = ['bridge-nf-call-iptables', 'bridge-nf-call-ip6tables'].map((setting) => {
    return `${setting} is ${readFileSync(join(directory, setting), 'utf8').trim()}`;
  });
  return {
    name,
    available: true,
    detail: `${settings.join(', ')}; the agent sets them where there is a bridge`,
  };
}
