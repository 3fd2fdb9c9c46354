/** `rampart ui-server`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import type { Guard } from '../../guard/guard.ts';
import { addClusterOptions } from '../../lib/cli/cluster-options.ts';
import { failAsService } from '../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../lib/cli/help.ts';

export interface UiServerCommandOptions {
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly listen: string;
}

export function uiServerCommand(guards: readonly Guard[]): Command {
  const command = new Command('ui-server')
    .summary('serve the page of `rampart ui` to users of a cluster')
    .description(
      'Serves the page to users of the cluster, until stopped: whoever has a bearer token that its API server knows sees what they ' +
        'may read. Needs an ingress before it, for TLS, or `kubectl port-forward`.\n' +
        'Finds the cluster as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod.',
    )
    .option('--listen <address>', 'host:port to serve the page on, without TLS', '127.0.0.1:8080');
  addClusterOptions(command).action(async (options: UiServerCommandOptions) => {
    failAsService();
    const { runUiServer } = await import('./run.ts');
    await runUiServer(guards, options);
  });
  return addHelp(command, {
    examples: ['rampart ui-server --listen 0.0.0.0:8080'],
    exitCodes: serviceExitCodes,
  });
}
