import { confirmed } from '../../lib/cli/confirm.ts';

import type { Guard } from '../../guard/guard.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { printDocument } from '../../lib/cli/document.ts';
import { say, stopSignal } from '../../lib/cli/process.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import type { UninstallOptions } from './command.ts';
import { uninstall } from './uninstall.ts';

/** An overloaded API server throttles its clients itself. */
const rate = { perSecond: 200, burst: 400 } as const;

/** @returns the exit code. @throws {RampartError} `INPUT` if users' objects may not be deleted. */
export async function runUninstall(
  guards: readonly Guard[],
  { kubeconfig, context, output, yes = false, keepObjects = false }: UninstallOptions,
): Promise<0 | 1> {
  const access = clusterAccess({ kubeconfig, context });
  const { signal } = stopSignal();
  using client = new KubeClient(access, rate);
  const { removed, left, areNodesClean } = await uninstall({
    ...{ client, guards, keepObjects, say, signal },
    confirm: async (counts) => {
      if (!yes && counts.size > 0) await confirm(access.server.href, counts, signal);
    },
  });
  if (output !== 'pretty') {
    printDocument(output, 'rampart.dev/uninstall/v1', { removed, left, areNodesClean });
    return left.length === 0 ? 0 : 1;
  }
  process.stdout.write(removed.map((line) => `removed ${line}\n`).join(''));
  process.stdout.write(left.map((line) => `left: ${line}\n`).join(''));
  const unknown = areNodesClean ? '' : '; the nodes were not looked at, as there are no agents';
  process.stdout.write(left.length === 0 ? `nothing is left${unknown}\n` : '');
  return left.length === 0 ? 0 : 1;
}

async function confirm(
  server: string,
  counts: ReadonlyMap<string, number>,
  signal: AbortSignal,
): Promise<void> {
  const list = [...counts].map(([kind, count]) => `${count} ${kind}`).join(', ');
  if (await confirmed(`Delete these objects of ${server}: ${list}?`, signal)) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `nothing was removed from ${server}`,
    why: `this would delete ${list}`,
    next: "Use --yes to delete them, or --keep-objects to keep definitions and users' objects",
  });
}
