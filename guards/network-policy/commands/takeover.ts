/** Runs `rampart network takeover`. */
import { printDocument } from '../../../lib/cli/document.ts';
import { requireRoot, stopSignal } from '../../../lib/cli/process.ts';
import { KeptNamespace } from '../dataplane/namespace.ts';
import { removeKubeRouterRules } from '../other-rules/kube-router.ts';
import type { TakeoverOptions } from './command.ts';

/** Works in the network namespace of the calling thread. @throws {RampartError} `PRIVILEGE` unless root. */
export async function runTakeover({ dryRun, output }: TakeoverOptions): Promise<void> {
  requireRoot('cannot take over this node', "only root may change rules in the node's network", 'Use sudo');
  using namespace = new KeptNamespace();
  const { signal } = stopSignal();
  const found = await removeKubeRouterRules(namespace, { isDry: dryRun === true, signal });
  const { stdout } = process;
  if (output !== 'pretty')
    printDocument(output, 'rampart.dev/network-takeover/v1', { dryRun: dryRun === true, rules: found });
  else if (found.length === 0) stdout.write('no rules of kube-router here\n');
  else {
    const done = dryRun === true ? 'would remove' : 'removed';
    stdout.write(`kube-router: ${done}\n${found.map((line) => `  ${line}\n`).join('')}`);
  }
}
