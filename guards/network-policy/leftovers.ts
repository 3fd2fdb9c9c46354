/** The guard's leftovers: rules stay in the kernel while the agent is away. */
import type { CleanSwitchedOff } from '../../guard/guard.ts';
import { defineLeftovers } from '../../guard/leftovers.ts';
import { effectiveCapabilities } from '../../lib/ebpf/features/capabilities.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import type { NetworkPolicyOptions } from './options.ts';

export const networkPolicyLeftovers = defineLeftovers<NetworkPolicyOptions>({
  cleanNode: async (_options, { signal }) => await clean(signal),
});

export const cleanSwitchedOff: CleanSwitchedOff<NetworkPolicyOptions> = async ({ keepsRules }, signal) => {
  // Without the capability, this process could not remove anything. Rules of other network namespaces are not seen.
  if (keepsRules || !effectiveCapabilities().includes('CAP_NET_ADMIN')) return [];
  const { mayHaveRules } = await import('./node/traces.ts');
  if (!mayHaveRules()) return [];
  const { isEnforced } = await import('./node/presence.ts');
  return (await isEnforced()) ? [] : await clean(signal);
};

async function clean(signal: AbortSignal): Promise<readonly string[]> {
  const { cleanNode } = await import('./commands/cleanup.ts');
  const cleaned = await cleanNode(signal);
  const failed = cleaned.filter(
    ({ error }) =>
      error !== undefined && !(error instanceof RampartError && error.code === errorCodes.UNSUPPORTED),
  );
  if (failed.length > 0) throw failed[0]?.error;
  return cleaned.flatMap(({ removed }) => removed.map((line) => line.trim()));
}
