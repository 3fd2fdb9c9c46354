/** `rampart audit`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import { addApiOptions, addNamespaceOption } from '../../../../lib/cli/cluster-options.ts';
import { addHelp } from '../../../../lib/cli/help.ts';
import { addOutput, type TableFormat, tableFormats } from '../../../../lib/cli/output-option.ts';
import { append } from '../../../../lib/cli/options.ts';
import type { ModuleFiles } from '../../modules/process-modules.ts';
import { moduleFileOptions } from '../../options.ts';
import { type WantedReportKind, wantedReportKinds } from '../../reports/report-kind.ts';

export interface ClusterOptions extends ModuleFiles {
  readonly kubeconfig?: string;
  readonly context?: string;
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
  readonly output: TableFormat;
  readonly disableStore?: true;
  readonly loglevel: string;
  readonly parallelNamespaces: number;
  readonly parallelResources: number;
  readonly parallelPolicies: number;
  readonly pageSize: number;
  readonly reportKind: WantedReportKind;
  readonly reports: 'all' | 'failures';
  readonly reportsBy: 'namespace' | 'object';
}

export interface ExplainOptions extends ClusterOptions {
  readonly namespace?: string;
  readonly output: TableFormat;
}

const levels = ['trace', 'debug', 'info', 'warn', 'error', 'fatal'];

function count(text: string): number {
  const value = Number(text);
  if (!/^\d{1,5}$/.test(text) || value < 1)
    throw new InvalidArgumentError('It must be a number of at least 1.');
  return value;
}

function clusterOptions(command: Command): Command {
  addApiOptions(command).option(
    '--policy-modules <dir>',
    'where policy modules are stored; default: a temporary directory',
  );
  for (const { flags, description } of moduleFileOptions) command.option(flags, description);
  return command;
}

function explainCommand(): Command {
  const command = clusterOptions(new Command('explain'))
    .summary('show how each policy evaluates an object, or why it does not apply')
    .argument('<kind/name>', 'the object: pod/web, deployments.apps/web')
    .action(async (object: string, options: ExplainOptions, self: Command) => {
      const { runExplain } = await import('./explain.ts');
      process.exitCode = await runExplain(object, { ...self.parent?.opts(), ...options });
    });
  addNamespaceOption(command, 'the namespace; default: that of the kubeconfig');
  addOutput(command, tableFormats, { schemas: ['rampart.dev/audit-explain/v1'] });
  return addHelp(command, {
    examples: ['rampart audit explain pod/web -n shop', 'rampart audit explain deployments.apps/web -o json'],
    exitCodes: {
      0: 'all policies accept it',
      1: 'a policy rejects it',
      2: 'unknown: a policy could not be evaluated, there is no such object, or the API does not respond',
    },
  });
}

export function auditCommand(): Command {
  const command = clusterOptions(new Command('audit'))
    .summary('evaluate all policies on all objects once')
    .description(
      'Audits the objects of the cluster against its policies and writes reports once; the operator does so continuously. Finds the cluster as ' +
        'kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, or the service account of its pod. Policies run in this process, or on ' +
        'policy servers (--policy-server-url).',
    )
    .option('-c, --cluster', 'audit cluster-scoped objects only')
    .option('-k, --kubewarden-namespace <name>', 'the namespace of the policy servers, which is skipped')
    .option('-i, --ignore-namespaces <names>', 'namespaces to skip; comma-separated, repeatable', split, [])
    .option(
      '-u, --policy-server-url <url>',
      'evaluate on this policy server: https://policy-server-default.kubewarden.svc:8443',
    )
    .option('-f, --extra-ca <file>', 'certificate authorities of the policy server, in PEM')
    .option('--client-cert <file>', 'client certificate for the policy server, in PEM')
    .option('--client-key <file>', 'its key, in PEM')
    .option('--insecure-ssl', 'do not verify the certificate of the policy server')
    .option('--disable-store', 'write no reports')
    .addOption(new Option('-l, --loglevel <level>', 'log level').choices(levels).default('warn'))
    .option('--parallel-namespaces <number>', 'namespaces to audit in parallel', count, 1)
    .option('--parallel-resources <number>', 'objects of a namespace to audit in parallel', count, 100)
    .option('--parallel-policies <number>', 'policies to evaluate in parallel for an object', count, 5)
    .option('--page-size <number>', 'objects per list request', count, 100)
    .addOption(
      new Option(
        '--report-kind <kind>',
        'PolicyReport, or Report of openreports.io; auto: PolicyReport if the API serves it, else Report',
      )
        .choices(wantedReportKinds)
        .default('auto'),
    )
    .addOption(
      new Option('--reports-by <what>', 'one report per object or per namespace')
        .choices(['object', 'namespace'])
        .default('object'),
    )
    .addOption(
      new Option('--reports <which>', 'results to write').choices(['all', 'failures']).default('all'),
    )
    .action(async (options: AuditOptions) => {
      const { runAudit } = await import('./run.ts');
      process.exitCode = await runAudit(options);
    })
    .addCommand(explainCommand());
  addNamespaceOption(command, 'audit this namespace only');
  // In Kubewarden's scanner, -o takes no value, and --output-scan exists.
  addOutput(command, tableFormats, {
    schemas: ['rampart.dev/audit/v1'],
    former: '--output-scan',
    bare: 'json',
  });
  return addHelp(command, {
    examples: [
      'rampart audit --disable-store',
      "rampart audit -n shop -o json | jq '.reports[].results[]'",
      'rampart audit explain pod/web -n shop',
    ],
    exitCodes: {
      0: 'all objects pass',
      1: 'some do not',
      2: 'something could not be evaluated, whatever else fails',
    },
  });
}

function split(text: string, before: readonly string[]): string[] {
  return text.split(',').reduce<string[]>((all, one) => (one === '' ? all : append(one, all)), [...before]);
}
