/**
 * The variant of iptables: the one that writes to nf_tables, or the legacy one. Both may be installed, and rules of both apply at the
 * same time; each one lists only its own.
 */
import type { KeptNamespace } from '../namespace.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { Family } from '../../engine/rules.ts';
import { filterTable, ownChains } from './listing.ts';
import { runProgram } from './run-program.ts';

export type Variant = 'nft' | 'legacy';

export interface Iptables {
  readonly variant: Variant;
  /** `1.8.9` */
  readonly version: string;
  readonly restore: Readonly<Record<Family, string>>;
  readonly save: Readonly<Record<Family, string>>;
}

const prefixes = { 4: 'iptables', 6: 'ip6tables' } as const;

/** The installed variants, first the one behind the plain name `iptables`. */
export async function installedIptables(
  namespace: KeptNamespace,
  signal?: AbortSignal,
  infixes: readonly string[] = ['', '-nft', '-legacy'],
): Promise<Iptables[]> {
  const found: Iptables[] = [];
  for (const each of await Promise.all(infixes.map((infix) => look(infix, namespace, signal)))) {
    if (each !== undefined && !found.some(({ variant }) => variant === each.variant)) found.push(each);
  }
  return found;
}

async function look(
  infix: string,
  namespace: KeptNamespace,
  signal: AbortSignal | undefined,
): Promise<Iptables | undefined> {
  const names = (word: string) => ({
    4: `${prefixes[4]}${infix}-${word}`,
    6: `${prefixes[6]}${infix}-${word}`,
  });
  const restore = names('restore');
  try {
    const said = await runProgram({ program: restore[4], args: ['--version'], namespace, signal });
    // `iptables-restore v1.8.9 (nf_tables)`; before 1.8 there was only the legacy variant, which does not print its name.
    const [, version, kind] = /v([\d.]+)(?: \((\w+)\))?/.exec(said.out) ?? [];
    if (version === undefined) return undefined;
    return { variant: kind === 'nf_tables' ? 'nft' : 'legacy', version, restore, save: names('save') };
  } catch (error) {
    if (error instanceof RampartError && error.code === errorCodes.UNSUPPORTED) return undefined;
    throw error;
  }
}

/** Chains that the kubelet creates so that others see which iptables this node uses (Kubernetes KEP-3178). */
const hint = /^:KUBE-(?:IPTABLES-HINT|KUBELET-CANARY) /m;

/**
 * The variant that this node uses, or the requested one. The node uses the variant with the kubelet's hint;
 * without a hint, the one with more rules of other programs; if that does not decide, the one behind the plain
 * name `iptables`.
 *
 * @throws {RampartError} `UNSUPPORTED` without any.
 */
export async function iptablesInUse(
  namespace: KeptNamespace,
  only: Variant | undefined,
  signal?: AbortSignal,
): Promise<Iptables> {
  const infixes = only === undefined ? undefined : [`-${only}`, ''];
  const installed = (await installedIptables(namespace, signal, infixes)).filter(
    ({ variant }) => only === undefined || variant === only,
  );
  const [first, ...others] = installed;
  if (first === undefined) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: 'cannot program iptables',
      why: `iptables-${only === undefined ? '' : `${only}-`}restore is not installed`,
      next: 'Install it: apt-get install iptables ipset',
    });
  }
  if (others.length === 0) return first;
  const seen = await Promise.all(
    installed.map(async (iptables) => {
      const listings = await Promise.all(
        ([4, 6] as const).map(async (family) => {
          const program = iptables.save[family];
          // A variant without its kernel part fails and has no rules.
          const { out } = await runProgram({ program, args: [], namespace, signal });
          return out;
        }),
      );
      return {
        iptables,
        isHinted: listings.some((text) => hint.test(text)),
        rules: listings.reduce((sum, text) => sum + rulesOfOthers(text), 0),
      };
    }),
  );
  const hinted = seen.find(({ isHinted }) => isHinted);
  if (hinted !== undefined) return hinted.iptables;
  return seen.reduce((best, next) => (next.rules > best.rules ? next : best)).iptables;
}

function rulesOfOthers(listing: string): number {
  const own = ownChains(filterTable(listing));
  let rules = 0;
  for (const [, chain = '', rule = ''] of listing.matchAll(/^-A (\S+)(.*)$/gm)) {
    if (!own.has(chain) && !own.has(/ -j (\S+)/.exec(rule)?.[1] ?? '')) rules++;
  }
  return rules;
}
