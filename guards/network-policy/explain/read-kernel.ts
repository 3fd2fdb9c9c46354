/** Reads the Rampart rules in this machine's kernel, whichever backend made them. */
import { KeptNamespace } from '../dataplane/namespace.ts';
import { Nftables } from '../dataplane/nftables/nftables.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import * as iptables from '../dataplane/iptables/decide.ts';
import { IptablesKernel } from '../dataplane/iptables/kernel.ts';
import { families } from '../dataplane/iptables/names.ts';
import { isEnforcing as isIptablesEnforcing } from '../dataplane/iptables/rules.ts';
import { installedIptables } from '../dataplane/iptables/variant.ts';
import type { KernelRuleset } from '../dataplane/kernel-packet.ts';
import * as nftables from '../dataplane/nftables/decide.ts';
import { isEnforcing, readTable } from '../dataplane/nftables/table.ts';

/**
 * Works in the current network namespace of the calling thread. If one backend has rules, others that are not
 * installed are assumed to have none.
 *
 * @returns one for each backend with rules; empty without any
 * @throws {RampartError} `PRIVILEGE` or `SYSTEM` if they cannot be read, `UNSUPPORTED` if the tools to read
 * them are not installed.
 */
export async function readKernel(signal?: AbortSignal): Promise<KernelRuleset[]> {
  using namespace = new KeptNamespace();
  const missing: string[] = [];
  const found = [...readNftables(missing), ...(await readIptables(namespace, missing, signal))];
  if (found.length > 0 || missing.length === 0) return found;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: 'cannot tell whether this kernel has Rampart rules',
    why: missing.join('; '),
    next: 'Install what is missing, or run the command where the agent of this node runs',
  });
}

function readNftables(missing: string[]): KernelRuleset[] {
  try {
    using nft = new Nftables();
    const table = isEnforcing(nft) ? readTable(nft) : undefined;
    if (table === undefined) return [];
    return [{ backend: 'nftables', decide: (...packet) => nftables.decideInKernel(table, ...packet) }];
  } catch (error) {
    if (!(error instanceof RampartError) || error.code !== errorCodes.UNSUPPORTED) throw error;
    missing.push(error.message);
    return [];
  }
}

async function readIptables(
  namespace: KeptNamespace,
  missing: string[],
  signal: AbortSignal | undefined,
): Promise<KernelRuleset[]> {
  const installed = await installedIptables(namespace, signal);
  if (installed.length === 0) missing.push('iptables-save is not installed');
  const found: KernelRuleset[] = [];
  for (const one of installed) {
    const kernel = new IptablesKernel(one, namespace);
    const rules = await kernel.readRules(signal);
    if (!families.some((family) => isIptablesEnforcing(rules[family]))) continue;
    // Without the sets that they match, the rules cannot be evaluated.
    const whole = { families: rules, sets: await kernel.readSets(signal) };
    const backend = `iptables (${one.variant})`;
    found.push({ backend, decide: (...packet) => iptables.decideInKernel(whole, ...packet) });
  }
  return found;
}
