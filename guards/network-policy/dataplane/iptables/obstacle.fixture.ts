import { execFileSync } from 'node:child_process';

import { namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import type { Variant } from './variant.ts';

export const variants: readonly Variant[] = ['nft', 'legacy'];

/** Why these kinds of iptables cannot run here; undefined if they can. */
export function iptablesObstacle(...kinds: readonly Variant[]): string | undefined {
  const programs = (kinds.length === 0 ? variants : kinds).flatMap((variant) => [
    `iptables-${variant}`,
    `ip6tables-${variant}`,
  ]);
  for (const program of [...programs, 'ipset']) {
    try {
      execFileSync(program, ['--version'], { stdio: 'ignore' });
    } catch {
      return `missing packages: apt-get install iptables ipset (${program})`;
    }
  }
  return namespaceObstacle();
}
