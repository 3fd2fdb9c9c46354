/**
 * `rampart apiserver`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command } from 'commander';

import { append, metricsOption } from '../options.ts';

export interface ApiServerCommandOptions {
  readonly data?: string;
  readonly memory?: true;
  readonly listen: string;
  readonly socket?: string;
  readonly host: readonly string[];
  readonly metrics?: string;
}

export function apiServerCommand(): Command {
  return new Command('apiserver')
    .summary('run a Kubernetes API for this machine, without a cluster')
    .description(
      'Serves the Kubernetes API from this process until it is stopped, with a certificate authority and an administrator ' +
        'token of its own. Prints the path of the kubeconfig for kubectl on stdout once it is ready.\n' +
        'It keeps objects, custom resources among them, and collects garbage; it runs no pods and no controllers of ' +
        'Kubernetes.',
    )
    .option('--data <dir>', 'keep everything there; made when it is missing')
    .option('--memory', 'keep the objects in memory: they are gone at the end')
    .option('--listen <address>', 'host:port to serve TLS on; port 0 takes any free one', '127.0.0.1:7443')
    .option('--socket <path>', 'serve on this unix socket instead, for whoever may open it')
    .option('--host <name>', 'additional name or address for the certificate; repeatable', append, [])
    .addOption(metricsOption())
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart apiserver --data /var/lib/rampart\n' +
        '  kubectl --kubeconfig /var/lib/rampart/kubeconfig get namespaces\n' +
        '  rampart apiserver --memory --listen 127.0.0.1:0\n' +
        '\nExit codes: 0 stopped by Ctrl-C or SIGTERM, 1 failed, 2 nothing was done: bad input, or data of a newer release.\n',
    )
    .action(async (options: ApiServerCommandOptions) => {
      const { runApiServer } = await import('./run.ts');
      await runApiServer(options);
    });
}
