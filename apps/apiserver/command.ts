/** `rampart apiserver`: options only; the implementation is loaded on demand. */
import { Command } from 'commander';

import { defaultListen } from './listen-address.ts';
import { failAsService } from '../../lib/cli/failure.ts';
import { addHelp, serviceExitCodes } from '../../lib/cli/help.ts';
import { append, metricsOption } from '../../lib/cli/options.ts';

export interface ApiServerCommandOptions {
  readonly data?: string;
  readonly memory?: true;
  readonly listen: string;
  readonly socket?: string;
  readonly host: readonly string[];
  readonly metrics?: string;
}

export function apiServerCommand(): Command {
  const command = new Command('apiserver')
    .summary('run a Kubernetes API for this machine, without a cluster')
    .description(
      'Serves the Kubernetes API from this process until stopped, with a certificate authority and an administrator ' +
        'token of its own. Prints the path of the kubeconfig for kubectl on stdout once it is ready.\n' +
        'Stores objects, including custom resources, and collects garbage; runs no pods and no controllers of ' +
        'Kubernetes.',
    )
    .option('--data <dir>', 'the data directory; created if missing')
    .option('--memory', 'keep objects in memory only')
    .option('--listen <address>', 'host:port to serve TLS on; port 0 selects a free one', defaultListen)
    .option('--socket <path>', 'serve on this unix socket instead, to anyone who may open it')
    .option('--host <name>', 'additional name or address for the certificate; repeatable', append, [])
    .addOption(metricsOption())
    .action(async (options: ApiServerCommandOptions) => {
      failAsService();
      const { runApiServer } = await import('./run.ts');
      await runApiServer(options);
    });
  return addHelp(command, {
    examples: [
      'rampart apiserver --data /var/lib/rampart',
      'kubectl --kubeconfig /var/lib/rampart/kubeconfig get namespaces',
      'rampart apiserver --memory --listen 127.0.0.1:0',
    ],
    exitCodes: serviceExitCodes,
  });
}
