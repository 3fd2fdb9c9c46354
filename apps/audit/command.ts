/**
 * `rampart audit`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, InvalidArgumentError, Option } from 'commander';

import { append } from '../options.ts';

export interface ClusterOptions {
  readonly kubeconfig?: string;
  readonly data?: string;
  readonly policyModules?: string;
}

export interface AuditOptions extends ClusterOptions {
  readonly namespace?: string;
  readonly cluster?: true;
  readonly kubewardenNamespace?: string;
  readonly ignoreNamespaces: readonly string[];
  readonly policyServerUrl?: string;
  readonly extraCa?: string;
  readonly clientCert?: string;
  readonly clientKey?: string;
  readonly insecureSsl?: true;
  readonly output?: 'json' | 'table' | 'yaml';
  readonly outputScan?: true;
  readonly disableStore?: true;
  readonly loglevel: string;
  readonly parallelNamespaces: number;
  readonly parallelResources: number;
  readonly parallelPolicies: number;
  readonly pageSize: number;
  readonly reportKind: 'openreports' | 'policyreport';
  readonly reports: 'all' | 'failures';
  readonly reportsBy: 'namespace' | 'object';
}

export interface ExplainOptions extends ClusterOptions {
  readonly namespace?: string;
  readonly output: 'json' | 'table';
}

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

function count(text: string): number {
  const value = Number(text);
  if (!/^\d{1,5}$/.test(text) || value < 1)
    throw new InvalidArgumentError('A number of at least 1 is needed.');
  return value;
}

function clusterOptions(command: Command): Command {
  return command
    .option('--kubeconfig <file>', 'the kubeconfig of the cluster')
    .option('--data <dir>', 'the directory of `rampart standalone`')
    .option('--policy-modules <dir>', 'where modules of policies are kept; default: a temporary directory');
}

function explainCommand(): Command {
  return clusterOptions(new Command('explain'))
    .summary('say what each policy thinks of one object, or why it is not about it')
    .argument('<kind/name>', 'the object: pod/web, deployments.apps/web')
    .option('-n, --namespace <name>', 'its namespace; default: that of the kubeconfig')
    .addOption(new Option('-o, --output <format>', 'output').choices(['table', 'json']).default('table'))
    .addHelpText(
      'after',
      '\nExit codes: 0 nothing objects to it, 1 something does, 2 cannot tell: no such object, or the API does not answer.\n',
    )
    .action(async (object: string, options: ExplainOptions, self: Command) => {
      const { runExplain } = await import('./explain.ts');
      process.exitCode = await runExplain(object, { ...self.parent?.opts(), ...options });
    });
}

export function auditCommand(): Command {
  return clusterOptions(new Command('audit'))
    .summary('evaluate all objects by all policies, once')
    .description(
      'Audits what is in the cluster by its policies, and writes reports; the operator does so all the time. Finds the cluster as ' +
        'kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the pod that it runs in. Policies run in this process, or on ' +
        'policy servers with --policy-server-url.',
    )
    .enablePositionalOptions()
    .option('-n, --namespace <name>', 'what is in this namespace alone')
    .option('-c, --cluster', 'what is in no namespace alone')
    .option('-k, --kubewarden-namespace <name>', 'where policy servers run: it is left out')
    .option('-i, --ignore-namespaces <names>', 'left out, too; comma-separated, repeatable', split, [])
    .option(
      '-u, --policy-server-url <url>',
      'evaluate there: https://policy-server-default.kubewarden.svc:8443',
    )
    .option('-f, --extra-ca <file>', 'certificate authorities of that server, in PEM')
    .option('--client-cert <file>', 'certificate for that server, in PEM')
    .option('--client-key <file>', 'its key, in PEM')
    .option('--insecure-ssl', 'do not check the certificate of that server')
    .addOption(
      // Kubewarden's scanner has -o without a value.
      new Option('-o, --output [format]', 'output; without a format: json; default: table')
        .choices(['table', 'json', 'yaml'])
        .preset('json'),
    )
    .addOption(new Option('--output-scan', 'as --output json').hideHelp())
    .option('--disable-store', 'write no reports')
    .addOption(new Option('-l, --loglevel <level>', 'log level').choices(levels).default('warn'))
    .option('--parallel-namespaces <number>', 'namespaces at the same time', count, 1)
    .option('--parallel-resources <number>', 'objects of a namespace at the same time', count, 100)
    .option('--parallel-policies <number>', 'policies of an object at the same time', count, 5)
    .option('--page-size <number>', 'objects that are asked for at a time', count, 100)
    .addOption(
      new Option('--report-kind <kind>', 'PolicyReport or Report of openreports.io')
        .choices(['policyreport', 'openreports'])
        .default('policyreport'),
    )
    .addOption(
      new Option('--reports-by <what>', 'one report for each, as the operator does')
        .choices(['object', 'namespace'])
        .default('object'),
    )
    .addOption(
      new Option('--reports <which>', 'results to write').choices(['all', 'failures']).default('all'),
    )
    .addHelpText(
      'after',
      '\nExamples:\n' +
        '  rampart audit --disable-store\n' +
        '  rampart audit -n shop -o json | jq ".reports[].results[] | select(.result == \\"fail\\")"\n' +
        '  rampart audit explain pod/web -n shop\n' +
        '\nExit codes: 0 nothing objects to anything, 1 something does, 2 it could not be done, or not for all.\n',
    )
    .action(async (options: AuditOptions) => {
      const { runAudit } = await import('./run.ts');
      process.exitCode = await runAudit(options);
    })
    .addCommand(explainCommand());
}

function split(text: string, before: readonly string[]): string[] {
  return text.split(',').reduce<string[]>((all, one) => (one === '' ? all : append(one, all)), [...before]);
}
