/** Runs `rampart network takeover`. */
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import { KeptNamespace } from '../node/namespace.ts';
import { removeKubeRouterRules } from '../node/kube-router.ts';
import type { TakeoverOptions } from './command.ts';

/** Works in the network namespace of the calling thread. @throws {RampartError} `PRIVILEGE` unless root. */
export async function runTakeover({ dryRun }: TakeoverOptions): Promise<void> {
  requireRoot('cannot take over this node', "only root may change rules in the node's network", 'Use sudo');
  using namespace = new KeptNamespace();
  const { signal } = stopSignal();
  const found = await removeKubeRouterRules(namespace, { isDry: dryRun === true, signal });
  const { stdout } = process;
  if (found.length === 0) stdout.write('no rules of kube-router here\n');
  else {
    const done = dryRun === true ? 'would remove' : 'removed';
    stdout.write(`kube-router: ${done}\n${found.map((line) => `  ${line}\n`).join('')}`);
  }
}
