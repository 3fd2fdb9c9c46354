/**
 * Takes all of this guard off a node.
 *
 * @module
 */
import type { Dataplane } from './node/dataplane.ts';

/** Each backend by its name; what this machine lacks it cannot have left. */
const backends: Readonly<Record<string, () => Promise<Dataplane>>> = {
  nftables: async () => (await import('./node/nftables/dataplane.ts')).openNftablesDataplane(),
};

export interface Cleaned {
  readonly backend: string;
  /** A line for each thing that was there. */
  readonly removed: readonly string[];
  /** Why it could not be looked for, or not be removed. */
  readonly error?: unknown;
}

/** In the network namespace of the calling thread. One backend that fails keeps no other from it. */
export async function cleanNode(signal?: AbortSignal): Promise<Cleaned[]> {
  const cleaned: Cleaned[] = [];
  for (const [backend, open] of Object.entries(backends)) {
    try {
      using dataplane = await open();
      cleaned.push({ backend, removed: await dataplane.remove(signal) });
    } catch (error) {
      cleaned.push({ backend, removed: [], error });
    }
  }
  await cleanCutTable(cleaned);
  return cleaned;
}

/** What `--network-policy-established cut` has made, whichever backend there is. */
async function cleanCutTable(cleaned: Cleaned[]): Promise<void> {
  const backend = 'connections that were cut';
  try {
    const { Nftables } = await import('../../shared/netlink/nftables.ts');
    const { cutTableName, removeCutTable } = await import('./node/established/cut-table.ts');
    using nft = new Nftables();
    cleaned.push({ backend, removed: removeCutTable(nft) ? [`table ${cutTableName}`] : [] });
  } catch (error) {
    cleaned.push({ backend, removed: [], error });
  }
}
