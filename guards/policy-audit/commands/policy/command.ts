/** `rampart policy`: options only; the implementation is loaded on demand. */
import { Command, Option } from 'commander';

import { sigstoreTrustConfig } from '../../options.ts';
import { addClusterOptions } from '../../../../lib/cli/cluster-options.ts';
import { fileArgument } from '../../../../lib/cli/command-tree.ts';
import { addHelp } from '../../../../lib/cli/help.ts';
import {
  addOutput,
  type PrettyFormat,
  prettyFormats,
  type TableFormat,
  tableFormats,
} from '../../../../lib/cli/output-option.ts';
import { append } from '../../../../lib/cli/options.ts';
import type { ModuleFilePaths } from '../policy-server/module-files.ts';

/** Options about where modules come from, for all subcommands. */
export interface ModuleOptions extends ModuleFilePaths {
  readonly dockerConfigJsonPath?: string;
  readonly cache?: string;
}

export interface RunOptions extends ModuleOptions {
  readonly resource: readonly string[];
  readonly settings?: string;
  readonly output: TableFormat | 'junit' | 'sarif';
  readonly all?: true;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly policyTimeout: string;
}

export interface DiffOptions extends ModuleOptions {
  readonly resource?: readonly string[];
  readonly settings?: string;
  readonly output: TableFormat;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly policyTimeout: string;
}

export interface InspectOptions extends ModuleOptions {
  readonly output: TableFormat;
}

export interface PullOptions extends ModuleOptions {
  readonly outputPath?: string;
}

export interface BenchOptions extends ModuleOptions {
  readonly resource: readonly string[];
  readonly settings?: string;
  readonly seconds: string;
  readonly output: TableFormat;
}

export interface TestOptions extends ModuleOptions {
  readonly output: PrettyFormat;
  readonly policy?: string;
}

export function policyCommand(): Command {
  const command = new Command('policy')
    .summary('run, test and inspect policies, without a cluster')
    .description(
      'Runs policies on manifests, tests them and inspects their modules, without a cluster: on a workstation or in CI.',
    )
    .addCommand(runCommand())
    .addCommand(diffCommand())
    .addCommand(testCommand())
    .addCommand(inspectCommand())
    .addCommand(pullCommand())
    .addCommand(benchCommand());
  return addHelp(command, { examples: ['rampart policy run policies.yaml -r manifests/'] });
}

function withModules(command: Command): Command {
  return command
    .option('--sources-path <file>', 'insecure hosts, and certificate authorities per host (sources.yml)')
    .option('--verification-path <file>', 'signatures that modules must have (verification.yml)')
    .option(sigstoreTrustConfig.flags, sigstoreTrustConfig.description)
    .option('--docker-config-json-path <file>', "registry credentials, in the format of Docker's config.json")
    .option(
      '--cache <dir>',
      "where modules are stored; default: rampart/modules in the user's cache directory",
    );
}

function resourceOption(): Option {
  // Without a default, which would look like a given value.
  return new Option(
    '-r, --resource <path>',
    'a manifest, or a directory of manifests; - for stdin; repeatable',
  ).argParser((text: string, before: readonly string[] | undefined) => append(text, before ?? []));
}

function settingsOption(): Option {
  return new Option('-s, --settings <file>', 'the settings of a module: a YAML or JSON file');
}

function runCommand(): Command {
  const command = withModules(new Command('run'))
    .summary('show which objects pass a policy')
    .description(
      'Evaluates policies on the objects of manifests, as if each were created. POLICY is a module (registry://, https://, file://, ' +
        'or a path), or a manifest with policies, including ValidatingAdmissionPolicies. What a policy reads (parameters, namespaces, other objects) ' +
        'is among these manifests or those beside the policies, or in the cluster of --kubeconfig.',
    )
    .addArgument(fileArgument('<policy>', 'a module, or a manifest of policies'))
    .addOption(resourceOption().makeOptionMandatory())
    .addOption(settingsOption())
    .option('--all', 'in the table, include objects that pass and objects that no policy applies to')
    .option('--policy-timeout <seconds>', 'time limit of an evaluation, in seconds', '2')
    .action(async (policy: string, options: RunOptions) => {
      const { runPolicyRun } = await import('./run.ts');
      process.exitCode = await runPolicyRun(policy, options);
    });
  addClusterOptions(command, 'which policies may query');
  addOutput(command, [...tableFormats, 'junit', 'sarif'], { schemas: ['rampart.dev/policy-run/v1'] });
  return addHelp(command, {
    examples: [
      'rampart policy run policies.yaml -r manifests/',
      'rampart policy run ./labels.wasm -r pod.yaml --settings settings.yaml',
      'helm template . | rampart policy run policies.yaml -r -',
      'rampart policy run policies.yaml -r . -o sarif > policies.sarif',
    ],
    exitCodes: { 0: 'all pass', 1: 'something fails', 2: 'an evaluation failed, or bad input' },
  });
}

function diffCommand(): Command {
  const command = withModules(new Command('diff'))
    .summary('show which objects change their verdict if a policy is changed')
    .description(
      'Evaluates two versions of policies on the objects of a cluster, or of manifests, as if each were created, and shows the objects that one ' +
        'version denies and the other does not. OLD and NEW are as POLICY of `rampart policy run`. Policies of the same name are compared; one that is only in OLD or NEW ' +
        'is compared with no policy.',
    )
    .addArgument(fileArgument('<old>', 'a module, or a manifest of policies'))
    .addArgument(fileArgument('<new>', 'the same, changed'))
    .addOption(resourceOption())
    .addOption(settingsOption())
    .option('--policy-timeout <seconds>', 'time limit of an evaluation, in seconds', '2')
    .action(async (old: string, next: string, options: DiffOptions) => {
      const { runPolicyDiff } = await import('./diff-run.ts');
      process.exitCode = await runPolicyDiff(old, next, options);
    });
  addClusterOptions(command);
  addOutput(command, tableFormats, { schemas: ['rampart.dev/policy-diff/v1'] });
  return addHelp(command, {
    notes: ['Without --resource, the objects are those of the cluster that kubectl would use.'],
    examples: [
      'kubectl get clusteradmissionpolicy no-latest -o yaml > old.yaml',
      'rampart policy diff old.yaml new.yaml',
      'rampart policy diff old.yaml new.yaml -r manifests/ -o json',
    ],
    exitCodes: { 0: 'no verdict changes', 1: 'some do', 2: 'an evaluation failed, or bad input' },
  });
}

function testCommand(): Command {
  const command = withModules(new Command('test'))
    .summary('run the tests of policies')
    .description(
      'Runs the test cases in the YAML files of a directory: an object, settings, and the expected result.',
    )
    .argument('<path>', 'a directory or a file')
    .option('--policy <policy>', 'the policy of cases that name none')
    .action(async (path: string, options: TestOptions) => {
      const { runPolicyTest } = await import('./test-run.ts');
      process.exitCode = await runPolicyTest(path, options);
    });
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/policy-test/v1'] });
  return addHelp(command, {
    notes: [
      'A file of cases:\n' +
        '  policy: ./labels.wasm\n' +
        '  settings: {required: [team]}\n' +
        '  cases:\n' +
        '    - name: a pod without a team is refused\n' +
        '      object: {apiVersion: v1, kind: Pod, metadata: {name: web}}\n' +
        '      expected: {allowed: false, message: label team is missing}',
      'Expected may be: allowed, message, messageContains, code, mutated, warnings, error, settingsValid.',
    ],
    examples: ['rampart policy test policies/', 'rampart policy test policies/ -o json'],
    exitCodes: { 0: 'all pass', 1: 'some fail', 2: 'no tests, or unreadable tests' },
  });
}

function inspectCommand(): Command {
  const command = withModules(new Command('inspect'))
    .summary('show the metadata, runtime and imports of a module')
    .addArgument(fileArgument('<module>', 'a URL, or a path'))
    .action(async (module: string, options: InspectOptions) => {
      const { runPolicyInspect } = await import('./module-run.ts');
      await runPolicyInspect(module, options);
    });
  addOutput(command, tableFormats, { schemas: ['rampart.dev/policy-inspect/v1'] });
  return addHelp(command, {
    examples: ['rampart policy inspect ./labels.wasm', 'rampart policy inspect ./labels.wasm -o yaml'],
  });
}

function pullCommand(): Command {
  const command = withModules(new Command('pull'))
    .summary('fetch and verify a module')
    .argument('<module>', 'a URL')
    // -o means a file here, as in kwctl, which this command replaces.
    .option('-o, --output-path <file>', 'the file to write; default: the module is only cached')
    .action(async (module: string, options: PullOptions) => {
      const { runPolicyPull } = await import('./module-run.ts');
      await runPolicyPull(module, options);
    });
  return addHelp(command, {
    examples: ['rampart policy pull registry://registry.example/latest:v1 -o latest.wasm'],
  });
}

function benchCommand(): Command {
  const command = withModules(new Command('bench'))
    .summary('measure the speed of a policy')
    .addArgument(fileArgument('<policy>', 'a module, or a manifest of policies'))
    .addOption(resourceOption().makeOptionMandatory())
    .addOption(settingsOption())
    .option('--seconds <number>', 'how long to measure each policy', '3')
    .action(async (policy: string, options: BenchOptions) => {
      const { runPolicyBench } = await import('./bench-run.ts');
      process.exitCode = await runPolicyBench(policy, options);
    });
  addOutput(command, tableFormats, { schemas: ['rampart.dev/policy-bench/v1'] });
  return addHelp(command, {
    examples: [
      'rampart policy bench policies.yaml -r pod.yaml --seconds 10',
      'rampart policy bench ./labels.wasm -r pod.yaml -o json',
    ],
    exitCodes: { 0: 'done', 1: 'an evaluation had no verdict' },
  });
}
