/** Runs `rampart network cleanup`. */
import { errorCodes, messageOf, RampartError } from '../../../lib/errors/errors.ts';
import { printDocument } from '../../../lib/cli/document.ts';
import { describeFailure } from '../../../lib/cli/failure.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import type { CleanupOptions } from './command.ts';

/** @returns the exit code. @throws {RampartError} `PRIVILEGE` unless root. */
export async function runCleanup({ output }: CleanupOptions): Promise<0 | 1> {
  requireRoot('cannot clean up this node', "only root may change rules in the node's network", 'Use sudo');
  let failed = false;
  const cleaned = await cleanNode(stopSignal().signal);
  if (output !== 'pretty') {
    const parts = cleaned.map(({ backend: name, removed, error }) => ({
      ...{ name, removed, error: error === undefined ? null : messageOf(error) },
    }));
    printDocument(output, 'rampart.dev/network-cleanup/v1', { parts });
    return cleaned.some(({ error }) => error !== undefined && !isAbsent(error)) ? 1 : 0;
  }
  for (const { backend, removed, error } of cleaned) {
    if (isAbsent(error)) {
      process.stdout.write(`${backend}: not available on this machine\n`);
    } else if (error !== undefined) {
      failed = true;
      process.stderr.write(describeFailure(error).text);
    } else if (removed.length === 0) process.stdout.write(`${backend}: nothing to remove\n`);
    else process.stdout.write(`${backend}: removed\n${removed.map((line) => `  ${line}\n`).join('')}`);
  }
  return failed ? 1 : 0;
}

function isAbsent(error: unknown): boolean {
  return error instanceof RampartError && error.code === errorCodes.UNSUPPORTED;
}

/** The outcome of the clean-up of one part of this guard on a node. */
export interface Cleaned {
  readonly backend: string;
  /** One line for each object that was removed. */
  readonly removed: readonly string[];
  /** Why the part could not be inspected or removed. */
  readonly error?: unknown;
}

type Clean = (signal: AbortSignal | undefined) => Promise<readonly string[]>;

const parts: Readonly<Record<string, Clean>> = {
  nftables: async (signal) => {
    const { openNftablesDataplane } = await import('../dataplane/nftables/dataplane.ts');
    using dataplane = openNftablesDataplane();
    return await dataplane.remove(signal);
  },
  iptables: async (signal) => {
    const { KeptNamespace } = await import('../dataplane/namespace.ts');
    const { removeIptablesLeftovers } = await import('../dataplane/iptables/leftovers.ts');
    using namespace = new KeptNamespace();
    return await removeIptablesLeftovers(namespace, undefined, signal);
  },
  'sources of packets': async () => {
    const { Nftables } = await import('../dataplane/nftables/nftables.ts');
    const { sourceTableName } = await import('../dataplane/nftables/names.ts');
    const { removeSourceTable } = await import('../node/sources/source-table.ts');
    using nft = new Nftables();
    return removeSourceTable(nft) ? [`table ${sourceTableName}`] : [];
  },
  // Created if the option `--network-policy-established cut` was used, by both backends.
  'connections that were cut': async () => {
    const { Nftables } = await import('../dataplane/nftables/nftables.ts');
    const { cutTableName } = await import('../dataplane/nftables/names.ts');
    const { removeCutTable } = await import('../node/established/cut-table.ts');
    using nft = new Nftables();
    return removeCutTable(nft) ? [`table ${cutTableName}`] : [];
  },
};

/** Works in the network namespace of the calling thread. If a part fails, the others are still cleaned up. */
export async function cleanNode(signal?: AbortSignal): Promise<Cleaned[]> {
  const cleaned: Cleaned[] = [];
  for (const [backend, clean] of Object.entries(parts)) {
    try {
      cleaned.push({ backend, removed: await clean(signal) });
    } catch (error) {
      cleaned.push({ backend, removed: [], error });
    }
  }
  return cleaned;
}
