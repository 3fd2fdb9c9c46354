/** Options of `rampart integrity`; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import { byteCount, threadCount } from '../options.ts';
import { failWith, usageExitCode } from '../../../lib/cli/failure.ts';
import { argument } from '../../../guard/guard-options.ts';
import { addApiOptions, addNamespaceOption } from '../../../lib/cli/cluster-options.ts';
import { addHelp } from '../../../lib/cli/help.ts';
import { addOutput, type PrettyFormat, prettyFormats } from '../../../lib/cli/output-option.ts';
import { append } from '../../../lib/cli/options.ts';
import { type ReportLevel, reportLevels } from '../model/report.ts';

export interface CheckOptions {
  readonly config?: string;
  readonly root: string;
  readonly db?: string;
  readonly init?: true;
  readonly check?: true;
  readonly update?: true;
  readonly importAide?: string;
  readonly key?: string;
  readonly workers?: number;
  readonly readRate?: number;
  readonly output: PrettyFormat;
  readonly reportLevel?: ReportLevel;
  readonly allowExecution?: true;
}

export interface AcceptOptions {
  readonly namespace?: string;
  readonly node: readonly string[];
  readonly path?: string;
  readonly all?: true;
  readonly dryRun?: true;
  readonly yes?: true;
  readonly reason?: string;
  readonly kubeconfig?: string;
  readonly context?: string;
  readonly data?: string;
  readonly timeout: number;
  readonly output: PrettyFormat;
}

/** AIDE's exit code for an unknown argument. */
const BAD_ARGUMENT = 15;
/**
 * AIDE's exit code for read and write errors. The state of the files is unknown then, and exit code 1 would mean that
 * files were added.
 */
const IO_ERROR = 18;
function duration(text: string): number {
  const [, digits = '', unit = 's'] = /^(\d{1,6})([smh]?)$/.exec(text) ?? [];
  if (digits === '')
    throw new InvalidArgumentError('It must be a time such as 90s, 10m or 1h; 0 does not wait.');
  return Number(digits) * { '': 1000, s: 1000, m: 60_000, h: 3_600_000 }[unit as '' | 's' | 'm' | 'h'];
}

function checkCommand(): Command {
  const check = new Command('check')
    .summary('compare the files of this machine with a baseline')
    .description(
      'Creates a baseline of the files that an aide.conf selects, and reports differences from it. Requires neither a cluster nor AIDE, ' +
        "but reads AIDE's configuration and databases and uses its report format and exit codes.",
    )
    .option(
      '-c, --config <file>',
      'the configuration; - for stdin; default: /etc/aide/aide.conf, else a built-in one',
    )
    .option('--root <directory>', 'the directory that paths in the configuration are relative to', '/')
    .option('--db <file>', 'the baseline; default: in /var/lib/rampart/integrity')
    .option('--init', 'create a baseline, replacing the current one')
    .option('--check', 'report differences from the baseline (default)')
    .option('--update', 'report differences, and create a new baseline')
    .option('--import-aide <file>', 'import an AIDE database, plain or gzip, as the baseline')
    .option(
      '--key <file>',
      'the key that signs the baseline: at least 32 secret bytes, plain or hexadecimal, or an Ed25519 key in PEM; ' +
        'for a check, the public key is enough; default: the file of the baseline with .key, created by --init',
    )
    .option('--workers <number>', 'threads that read files; default: 2', argument(threadCount))
    .option(
      '--read-rate <bytes>',
      'limit of what is read, in bytes per second: 500k, 20M; default: no limit',
      argument(byteCount),
    )
    .addOption(
      new Option(
        '--report-level <level>',
        'the report level; default: report_level of the configuration',
      ).choices(reportLevels),
    )
    .option('--allow-execution', 'allow @@x_include to run programs, as this user')
    .action(async (options: CheckOptions) => {
      failWith(IO_ERROR);
      const { startScanThreads } = await import('./scan-threads.ts');
      await using threads = startScanThreads(options);
      const { runCheck } = await import('./check.ts');
      await runCheck(options, threads);
    });
  usageExitCode.set(check, BAD_ARGUMENT);
  addOutput(check, prettyFormats, { schemas: ['rampart.dev/integrity-check/v1'], former: '--json' });
  return addHelp(check, {
    notes: [
      "With -o json, the keys are those of AIDE's report_format=json. Ctrl-C leaves the baseline unchanged.",
    ],
    examples: [
      'rampart integrity check --init    # create a baseline',
      'rampart integrity check           # what has changed since?',
      'rampart integrity check -c aide.conf --root /mnt --db usb/base --key usb/key',
      'rampart integrity check -o json | jq .changed',
    ],
    exitCodes: {
      0: 'no difference',
      1: 'as in AIDE: added',
      2: 'removed',
      4: 'changed (1, 2 and 4 are added up)',
      14: 'the baseline cannot be written',
      15: 'bad argument',
      17: 'bad configuration',
      18: 'something cannot be read, or the baseline cannot be trusted',
      19: 'the baseline is from a later version',
      22: 'a limit',
    },
  });
}

function acceptCommand(): Command {
  const command = new Command('accept')
    .summary('accept findings of nodes into their baselines')
    .description(
      'Asks the agents to accept intended changes, findings of a FileIntegrity, into the baselines of their nodes, ' +
        'and waits until they have. The baseline and an event record who accepted them, and why.',
    )
    .argument('<file-integrity>', 'the name of the FileIntegrity')
    .option('--node <name>', 'only findings of this node; repeatable', append, [])
    .option('--path <glob>', 'only findings for these paths, as in rampart alerts; default: all')
    .option('--all', 'all findings on all nodes; required without --path and --node')
    .option('--dry-run', 'only show what would be accepted')
    .option('-y, --yes', 'do not ask on a terminal')
    .option('--reason <text>', 'the reason, recorded with the baseline')
    .addOption(
      new Option('--timeout <time>', 'how long to wait for the agents; 0: do not wait')
        .argParser(duration)
        .default(120_000, '2m'),
    )
    .action(async (name: string, options: AcceptOptions) => {
      const { runAccept } = await import('./accept.ts');
      process.exitCode = await runAccept(name, options);
    });
  addNamespaceOption(
    addApiOptions(command),
    'its namespace; default: that of the kubeconfig, or the one where the name is unique',
  );
  addOutput(command, prettyFormats, { schemas: ['rampart.dev/integrity-accept/v1'] });
  return addHelp(command, {
    examples: [
      "rampart integrity accept nodes -n guard --all --reason 'kernel update'",
      "rampart integrity accept nodes --node worker-1 --path '/usr/lib/**'",
      'rampart integrity accept nodes --all --dry-run -o json',
    ],
    exitCodes: {
      0: 'all accepted, or --dry-run',
      1: 'some not, or not yet',
      2: 'nothing was requested: bad input, missing privileges, or the answer no',
    },
  });
}

export function integrityCommand(): Command {
  const command = new Command('integrity')
    .summary('show which files changed since their baseline')
    .description('Compares files with a baseline, and accepts intended changes.')
    .addCommand(checkCommand())
    .addCommand(acceptCommand());
  return addHelp(command, { examples: ['rampart integrity check', 'rampart integrity accept nodes --all'] });
}
