/** The dataplanes that are measured, each in a network of its own. */
import { execFileSync } from 'node:child_process';

import { KeptNamespace } from '../../guards/network-policy/dataplane/namespace.ts';
import type { Dataplane } from '../../guards/network-policy/dataplane/dataplane.ts';
import { openIptablesDataplane } from '../../guards/network-policy/dataplane/iptables/dataplane.ts';
import { openNftablesDataplane } from '../../guards/network-policy/dataplane/nftables/dataplane.ts';

export const backends = ['nftables', 'iptables-nft', 'iptables-legacy'] as const;
/** With their packages. */
export const backendPrograms = {
  'iptables-nft': 'iptables',
  'iptables-legacy': 'iptables',
  ipset: 'ipset',
} as const;
export type Backend = (typeof backends)[number];

/** Works in the network namespace that the calling thread has now. */
export function openDataplane(backend: Backend): Dataplane {
  if (backend === 'nftables') return openNftablesDataplane();
  return openIptablesDataplane({ variant: backend === 'iptables-nft' ? 'nft' : 'legacy' });
}

/** The programs' own input for the rules in a namespace: text for each, in the order of loading. */
export function dump(
  backend: Backend,
  namespace: KeptNamespace,
): readonly (readonly [program: string, args: readonly string[], text: string])[] {
  const read = (program: string, ...args: readonly string[]): string =>
    namespace.run(() => execFileSync(program, args, { encoding: 'utf8', maxBuffer: 2 ** 29 }));
  if (backend === 'nftables') {
    return [['nft', ['-f', '-'], read('nft', '-s', 'list', 'ruleset')]];
  }
  return [
    ['ipset', ['restore'], read('ipset', 'save')],
    [`${backend}-restore`, ['--noflush', '--wait'], read(`${backend}-save`)],
    [
      `${backend.replace('iptables', 'ip6tables')}-restore`,
      ['--noflush', '--wait'],
      read(`${backend.replace('iptables', 'ip6tables')}-save`),
    ],
  ];
}

/** How long the programs take for it, in a new namespace. */
export function loadMs(dumped: ReturnType<typeof dump>): number {
  using namespace = KeptNamespace.create();
  const beganMs = performance.now();
  for (const [program, args, input] of dumped) {
    namespace.run(() => execFileSync(program, args, { input, stdio: ['pipe', 'ignore', 'inherit'] }));
  }
  return performance.now() - beganMs;
}
