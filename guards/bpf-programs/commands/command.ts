/** `rampart bpf`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import { bpffsOption, bpfStateOption } from '../options.ts';
import { failWith } from '../../../lib/cli/failure.ts';
import { optionOf } from '../../../guard/guard-options.ts';
import { outputOption } from '../../../lib/cli/options.ts';

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
    throw new InvalidArgumentError('It must be a number of seconds up to 3600, such as 1 or 0.5.');
  return value * 1000;
}

/** For commands that inspect the programs of the agent. */
function inspecting(command: Command): Command {
  return command
    .addOption(optionOf(bpffsOption))
    .addOption(optionOf(bpfStateOption))
    .addOption(outputOption('table', 'json'));
}

function dumpCommand(): Command {
  return inspecting(
    new Command('dump')
      .argument('<program>', 'its kernel ID, its owner (XdpProgram/count), or the name of its BpfProgram')
      .argument('<map>', 'the name of the map in the program'),
  )
    .summary("show the entries of a program's map")
    .description('Shows the entries of a map, decoded with the key and value types of the program.')
    .action(async (program: string, map: string, options: BpfOptions) => {
      const { runDump } = await import('./run.ts');
      runDump(program, map, options);
    });
}

function verifyCommand(): Command {
  return new Command('verify')
    .argument(
      '<image-or-file>',
      'an image with bytecode, or an object file: a path that starts with / or ends in .o',
    )
    .summary('check whether this kernel accepts the programs of an image or file')
    .description(
      'Loads each program and unloads it again; attaches nothing. Shows the output of the verifier. Exit codes: 0 the kernel accepts all, 1 it refuses one, 2 the check failed.',
    )
    .option('--function <name>', 'only this program')
    .option('--insecure', 'accept any certificate from the registry, or plain HTTP')
    .option(
      '--registries <file>',
      "a registries.conf with mirrors, insecure and blocked registries, like the agent's --bpf-registries",
    )
    .addOption(outputOption('table', 'json'))
    .action(async (what: string, options: VerifyOptions) => {
      // 1 means that a program was refused.
      failWith(2);
      const { runVerify } = await import('./verify.ts');
      process.exitCode = await runVerify(what, options);
    });
}

export function bpfCommand(): Command {
  const list = inspecting(new Command('list'))
    .summary('list the eBPF programs that run for objects')
    .description(
      'Lists the eBPF programs that this machine runs for objects such as XdpProgram: where they are attached, their bytecode, and the object.',
    )
    .action(async (options: BpfOptions) => {
      const { runList } = await import('./run.ts');
      runList(options);
    });
  const chain = inspecting(new Command('chain').argument('[interface]', 'the interface; default: all'))
    .summary('show the programs of an interface in their order')
    .description(
      'Shows the XDP and TC programs of an interface in the order they run, and the return codes after which the next one runs.',
    )
    .action(async (name: string | undefined, options: BpfOptions) => {
      const { runChain } = await import('./run.ts');
      process.exitCode = runChain(name, options);
    });
  const stats = inspecting(new Command('stats'))
    .summary('show how often programs run, and for how long')
    .description(
      'Measures for the given time. The kernel counts runs only on request; members of chains are always counted.',
    )
    .addOption(
      new Option('-t, --time <seconds>', 'how long to measure').argParser(seconds).default(1000, '1'),
    )
    .action(async (options: StatsOptions) => {
      const { runStats } = await import('./run.ts');
      await runStats(options);
    });
  const cleanup = inspecting(new Command('cleanup'))
    .summary('remove all eBPF programs of Rampart')
    .description(
      'Detaches and unloads everything that Rampart loaded on this machine for objects. Refused while an agent runs, because it would load them again.',
    )
    .action(async (options: BpfOptions) => {
      const { runCleanup } = await import('./run.ts');
      await runCleanup(options);
    });
  return new Command('bpf')
    .summary('inspect the eBPF programs of this machine')
    .description(
      'Inspects the eBPF programs that this machine runs for objects such as XdpProgram and TcNsProgram. Requires root.',
    )
    .addCommand(list)
    .addCommand(chain)
    .addCommand(stats)
    .addCommand(new Command('map').summary('inspect maps of programs').addCommand(dumpCommand()))
    .addCommand(verifyCommand())
    .addCommand(cleanup);
}
