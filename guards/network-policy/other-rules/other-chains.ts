/**
 * The chains in this kernel, whichever program made them: those of nftables, which include those of iptables-nft,
 * and those of legacy iptables.
 */
import { readFileSync } from 'node:fs';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { IptablesKernel } from '../dataplane/iptables/kernel.ts';
import { declaredChains, filterTable, ownChains } from '../dataplane/iptables/listing.ts';
import { builtinChains, families } from '../dataplane/iptables/names.ts';
import { installedIptables, type Variant } from '../dataplane/iptables/variant.ts';
import type { KeptNamespace } from '../dataplane/namespace.ts';
import { ownTables } from '../dataplane/nftables/names.ts';
import { Nftables } from '../dataplane/nftables/nftables.ts';

export interface KernelChain {
  /** Whether `nft` lists the chain, or `iptables-save` of this variant. */
  readonly by: 'nft' | Variant;
  /** `ip`, `ip6`, `inet`, `bridge`, ... */
  readonly family: string;
  readonly table: string;
  readonly name: string;
  /** Set for a chain that the kernel itself sends packets to. */
  readonly base?: {
    readonly hook: string;
    readonly priority: number;
    readonly policy: string;
    /** Whether a rule in the chain may let the first packet of a connection pass. */
    readonly mayAccept: boolean;
  };
}

export interface KernelChains {
  /** All chains except Rampart's. */
  readonly chains: readonly KernelChain[];
  /** Parts that could not be read, and why. */
  readonly unread: readonly string[];
}

/** @throws the reason of `signal`. */
export async function readChains(namespace: KeptNamespace, signal?: AbortSignal): Promise<KernelChains> {
  const unread: string[] = [];
  const chains: KernelChain[] = [];
  const variants = new Set<Variant>(hasLegacyTables(namespace) ? ['legacy'] : []);
  try {
    using nft = namespace.run(() => new Nftables());
    chains.push(...nftChains(nft));
  } catch (error) {
    if (!(error instanceof RampartError)) throw error;
    if (error.code === errorCodes.UNSUPPORTED) variants.add('nft');
    else unread.push(`nftables: ${error.message}`);
  }
  if (variants.size > 0) {
    const installed = await installedIptables(namespace, signal);
    for (const variant of variants) {
      const iptables = installed.find((one) => one.variant === variant);
      try {
        if (iptables !== undefined) chains.push(...(await iptablesChains(iptables, namespace, signal)));
        else if (variant === 'legacy') unread.push('legacy iptables: iptables-legacy-save is not installed');
      } catch (error) {
        if (!(error instanceof RampartError)) throw error;
        unread.push(`${variant === 'legacy' ? 'legacy ' : ''}iptables: ${error.message}`);
      }
    }
  }
  return { chains, unread };
}

/** Reads /proc, since iptables-legacy would load its modules. */
function hasLegacyTables(namespace: KeptNamespace): boolean {
  return namespace.run(() =>
    ['ip', 'ip6'].some((family) => {
      try {
        return readFileSync(`/proc/thread-self/net/${family}_tables_names`, 'utf8').trim() !== '';
      } catch (error) {
        // The file is missing if the module is not loaded; only root may be allowed to read it.
        return (error as NodeJS.ErrnoException).code === 'EACCES';
      }
    }),
  );
}

/** libnftables-json(5) */
interface NftObject {
  readonly chain?: {
    readonly family: string;
    readonly table: string;
    readonly name: string;
    readonly hook?: string;
    readonly prio?: number;
    readonly policy?: string;
  };
  readonly rule?: { readonly expr?: readonly Readonly<Record<string, unknown>>[] };
}

function nftChains(nft: Nftables): KernelChain[] {
  const list = (what: string): readonly NftObject[] =>
    (JSON.parse(nft.list(what, { json: true })) as { readonly nftables: readonly NftObject[] }).nftables;
  const all = list('list chains').flatMap(({ chain }) => (chain === undefined ? [] : [chain]));
  const own = new Map<string, ReadonlySet<string>>();
  for (const [table, of] of Map.groupBy(all, ({ family, table: name }) => `${family} ${name}`))
    own.set(
      table,
      ownOf(
        table,
        of.map(({ name }) => name),
      ),
    );
  return all
    .filter(({ family, table, name }) => own.get(`${family} ${table}`)?.has(name) !== true)
    .map(({ family, table, name, hook, prio = 0, policy = 'accept' }): KernelChain => {
      const chain = { by: 'nft', family, table, name } as const;
      if (hook === undefined) return chain;
      const mayAccept =
        policy !== 'drop' ||
        list(`list chain ${family} ${table} ${name}`).some(({ rule }) => rule !== undefined && lets(rule));
      return { ...chain, base: { hook, priority: prio, policy, mayAccept } };
    });
}

function ownOf(table: string, names: readonly string[]): ReadonlySet<string> {
  if (ownTables.includes(table)) return new Set(names);
  if (!/^ip6? filter$/.test(table)) return new Set();
  return ownChains(names.map((name) => `:${name} \n`).join(''));
}

/** Targets of iptables that do not accept a packet. */
const harmless: readonly unknown[] = ['REJECT', 'LOG', 'NFLOG'];

function lets({ expr = [] }: NonNullable<NftObject['rule']>): boolean {
  for (const statement of expr) {
    const [[kind, value] = ['', undefined]] = Object.entries(statement);
    if (kind === 'match' && isOfEstablished(value)) return false;
    if (['accept', 'jump', 'goto', 'queue', 'vmap'].includes(kind)) return true;
    if (kind !== 'xt') continue;
    const { type, name } = (value ?? {}) as { readonly type?: string; readonly name?: string };
    // Older versions of nft do not print the target.
    if (type === undefined || (type === 'target' && !harmless.includes(name))) return true;
  }
  return false;
}

function isOfEstablished(match: unknown): boolean {
  const { left, right } = match as {
    readonly left?: { readonly ct?: { readonly key?: string } };
    readonly right?: unknown;
  };
  return (
    left?.ct?.key === 'state' &&
    !JSON.stringify(right).includes('"new"') &&
    !JSON.stringify(right).includes('"untracked"')
  );
}

async function iptablesChains(
  iptables: Awaited<ReturnType<typeof installedIptables>>[number],
  namespace: KeptNamespace,
  signal: AbortSignal | undefined,
): Promise<KernelChain[]> {
  const kernel = new IptablesKernel(iptables, namespace);
  const found: KernelChain[] = [];
  for (const family of families) {
    const table = filterTable(await kernel.save(family, [], signal));
    const own = ownChains(table);
    for (const name of declaredChains(table)) {
      if (own.has(name)) continue;
      const chain = { by: iptables.variant, family: family === 4 ? 'ip' : 'ip6', table: 'filter', name };
      const hook = builtinChains.find((builtin) => builtin === name)?.toLowerCase();
      const policy = new RegExp(`^:${name} (ACCEPT|DROP)`, 'm').exec(table)?.[1];
      if (hook === undefined || policy === undefined) found.push(chain);
      else {
        const rules = [...table.matchAll(new RegExp(`^-A ${name} (.*)$`, 'gm'))];
        const mayAccept = rules.some(([, rule = '']) => !/-j (?:DROP|REJECT|LOG|NFLOG)\b/.test(rule));
        const base = { hook, priority: 0, policy: policy.toLowerCase(), mayAccept };
        found.push({ ...chain, base });
      }
    }
  }
  return found;
}
