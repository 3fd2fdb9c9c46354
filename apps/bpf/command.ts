/**
 * `rampart bpf`: the options, and nothing else; the work is loaded when it is asked for.
 *
 * @module
 */
import { Command, InvalidArgumentError, Option } from 'commander';

import { bpffsOption, bpfStateOption } from '../../systems/bpf-programs/options.ts';
import { failWith } from '../failure.ts';
import { optionOf } from '../guard-options.ts';

export interface BpfOptions {
  readonly bpffs: string;
  readonly bpfState: string;
  readonly output: 'json' | 'table';
}

export interface StatsOptions extends BpfOptions {
  /** Milliseconds. */
  readonly time: number;
}

export interface VerifyOptions {
  readonly output: 'json' | 'table';
  readonly function?: string;
  readonly insecure?: true;
  readonly registries?: string;
}

function seconds(text: string): number {
  const value = Number(text);
  if (!(value > 0) || value > 3600)
    throw new InvalidArgumentError('A number of seconds is needed: 1, 0.5, up to 3600.');
  return value * 1000;
}

const output = (): Option =>
  new Option('-o, --output <format>', 'a table for people, or one JSON object')
    .choices(['table', 'json'])
    .default('table');

/** Of what looks at the programs of the agent. */
function inspecting(command: Command): Command {
  return command.addOption(optionOf(bpffsOption)).addOption(optionOf(bpfStateOption)).addOption(output());
}

export function bpfCommand(): Command {
  const list = inspecting(new Command('list'))
    .summary('the eBPF programs in the kernel that somebody asked for')
    .description(
      'Shows the eBPF programs that this machine runs for objects such as XdpProgram: where, from which bytecode, and for whom.',
    )
    .action(async (options: BpfOptions) => {
      const { runList } = await import('./run.ts');
      runList(options);
    });
  const chain = inspecting(new Command('chain').argument('[interface]', 'default: all'))
    .summary('what runs on an interface, in its order')
    .description(
      'Shows the XDP and TC programs of an interface in the order that they run in, and after which return codes the next one runs.',
    )
    .action(async (name: string | undefined, options: BpfOptions) => {
      const { runChain } = await import('./run.ts');
      process.exitCode = runChain(name, options);
    });
  const stats = inspecting(new Command('stats'))
    .summary('how often programs run, and how long')
    .description(
      'Counts for a while. The kernel counts runs only while somebody asks it to; members of chains count by themselves.',
    )
    .addOption(new Option('-t, --time <seconds>', 'how long').argParser(seconds).default(1000, '1'))
    .action(async (options: StatsOptions) => {
      const { runStats } = await import('./run.ts');
      await runStats(options);
    });
  const dump = inspecting(
    new Command('dump')
      .argument(
        '<program>',
        'its id in the kernel, its owner (XdpProgram/count), or the name of its BpfProgram',
      )
      .argument('<map>', 'the name that it has in the program'),
  )
    .summary('the entries of a map of a program')
    .description('Shows the entries of a map, by the types that the program has for its keys and values.')
    .action(async (program: string, map: string, options: BpfOptions) => {
      const { runDump } = await import('./run.ts');
      runDump(program, map, options);
    });
  const verify = new Command('verify')
    .argument(
      '<image-or-file>',
      'an image with bytecode, or an object file: a path with a / in front or ending in .o',
    )
    .summary('whether this kernel takes the programs of an image or file')
    .description(
      'Loads each program alone and lets go of it: nothing is attached. Shows what the verifier says. Exit codes: 0 all are taken, 1 one is not, 2 it cannot be tried.',
    )
    .option('--function <name>', 'only this program')
    .option('--insecure', 'the registry may have any certificate, or none')
    .option(
      '--registries <file>',
      'a registries.conf: mirrors, insecure and blocked registries, as --bpf-registries of the agent',
    )
    .addOption(output())
    .action(async (what: string, options: VerifyOptions) => {
      // 1 is for a program that is refused.
      failWith(2);
      const { runVerify } = await import('./verify.ts');
      process.exitCode = await runVerify(what, options);
    });
  const cleanup = inspecting(new Command('cleanup'))
    .summary('take away all eBPF programs of Rampart')
    .description(
      'Takes away all that Rampart has loaded and attached on this machine for objects. Refused while an agent runs, which would load them again.',
    )
    .action(async (options: BpfOptions) => {
      const { runCleanup } = await import('./run.ts');
      await runCleanup(options);
    });
  return new Command('bpf')
    .summary('look at the eBPF programs of this machine')
    .description(
      'Looks at the eBPF programs that this machine runs for objects such as XdpProgram and TcNsProgram. Needs root.',
    )
    .addCommand(list)
    .addCommand(chain)
    .addCommand(stats)
    .addCommand(new Command('map').summary('maps of programs').addCommand(dump))
    .addCommand(verify)
    .addCommand(cleanup);
}
