/** `rampart bpf`: options only; the implementation is loaded on demand. */
import { Command, InvalidArgumentError, Option } from 'commander';

import { tenantHelpersOption, tenantMapMemoryOption, verificationOption } from '../options.ts';
import { optionOf } from '../../../guard/guard-options.ts';
import { addHelp } from '../../../lib/cli/help.ts';
import { criSocketOption } from '../../../lib/cli/options.ts';
import { mapCommand } from './map-command.ts';
import type { AttachType } from '../kernel/desired.ts';
import { type BpfOptions, inspecting } from './options.ts';

export interface StatsOptions extends BpfOptions {
  /** How long to measure, in milliseconds. */
  readonly time: number;
  readonly top?: true;
  readonly sort: (typeof sortKeys)[number];
  readonly all?: true;
}

const sortKeys = ['id', 'cpu', 'runs', 'time'] as const;

export interface NetOptions extends BpfOptions {
  readonly netns?: string;
  /** `NAMESPACE/NAME`. */
  readonly pod?: string;
  readonly criSocket?: string;
}

export interface VerifyOptions extends BpfOptions {
  readonly filename?: string;
  readonly function?: string;
  readonly type?: AttachType;
  readonly insecure?: true;
  readonly registries?: string;
  readonly credentials?: string;
  readonly bpfVerificationConfig?: string;
  readonly namespaced?: true;
  readonly bpfTenantHelpers: readonly string[];
  readonly bpfTenantMapMemory: number;
}

export const attachTypes: readonly AttachType[] = [
  ...(['fentry', 'fexit', 'kprobe', 'kretprobe', 'tc', 'tcx'] as const),
  ...(['tracepoint', 'uprobe', 'uretprobe', 'xdp'] as const),
];

function seconds(text: string): number {
  const value = Number(text);
  if (!(value > 0) || value > 3600)
    throw new InvalidArgumentError('It must be a number of seconds up to 3600, such as 1 or 0.5.');
  return value * 1000;
}

function verifyCommand(): Command {
  const command = inspecting(
    new Command('verify'),
    'rampart.dev/bpf-verify/v1',
    'rampart.dev/bpf-verify-objects/v1',
  )
    .argument(
      '[image-or-file]',
      'an image with bytecode, or an object file: a path that starts with / or ends in .o',
    )
    .summary('check whether this kernel accepts the programs of an image or file')
    .description(
      'Loads the programs and unloads them again; attaches nothing. With -f, checks the objects and the labels of their images, too, and whether their programs could join what runs on the interfaces of this machine. Shows the output of the verifier.',
    )
    .option('--function <name>', 'only this program')
    .addOption(
      new Option('--type <type>', 'of programs whose section and labels do not tell it').choices(attachTypes),
    )
    .option(
      '--namespaced',
      'also check what programs of namespaced kinds may do, with the two options below as the agents have them',
    )
    .addOption(optionOf(tenantHelpersOption))
    .addOption(optionOf(tenantMapMemoryOption))
    .option('--insecure', 'accept any certificate from the registry, or plain HTTP')
    .option(
      '--registries <file>',
      "a registries.conf with mirrors, insecure and blocked registries, like the agent's --bpf-registries",
    )
    .option('--credentials <file>', 'a config.json of docker or podman with credentials for the registry')
    .addOption(optionOf(verificationOption))
    .option('-f, --filename <file>', 'verify what the objects in this manifest request; - is standard input')
    .action(async (what: string | undefined, options: VerifyOptions) => {
      const { runVerify } = await import('./verify.ts');
      process.exitCode = await runVerify(what, options);
    });
  return addHelp(command, {
    examples: [
      'rampart bpf verify ./count.bpf.o',
      'rampart bpf verify --insecure registry.example:5000/team/count:v1',
      'rampart bpf verify -f xdpprogram.yaml -o json',
    ],
    exitCodes: { 0: 'all are accepted', 1: 'one is refused' },
  });
}

function listCommand(): Command {
  const command = inspecting(new Command('list'), 'rampart.dev/bpf-list/v1')
    .summary('list the eBPF programs that run for objects')
    .description(
      'Lists the eBPF programs that this machine runs for objects such as XdpProgram: where they are attached, their bytecode, and the object.',
    )
    .action(async (options: BpfOptions) => {
      const { runList } = await import('./run.ts');
      runList(options);
    });
  return addHelp(command, {
    examples: ['rampart bpf list -o wide', 'rampart bpf list -o json | jq .programs'],
  });
}

function chainCommand(): Command {
  const command = inspecting(
    new Command('chain').argument('[interface]', 'the interface; default: all'),
    'rampart.dev/bpf-chain/v1',
  )
    .summary('show the programs of an interface in their order')
    .description(
      'Shows the XDP, TCX and TC programs of an interface in the order they run, and the return codes after which the next one runs.',
    )
    .action(async (name: string | undefined, options: BpfOptions) => {
      const { runChain } = await import('./run.ts');
      process.exitCode = runChain(name, options);
    });
  return addHelp(command, {
    examples: ['rampart bpf chain eth0', 'rampart bpf chain eth0 -o yaml'],
    exitCodes: { 0: 'there are some', 1: 'there are none' },
  });
}

function netCommand(): Command {
  const command = inspecting(
    new Command('net').argument('[interface]', 'the interface; default: all'),
    'rampart.dev/bpf-net/v1',
  )
    .summary('show every program on network interfaces, whoever attached it')
    .description(
      'Shows all XDP, TCX, TC and netkit programs of interfaces, those of other tools included, and the mode of XDP.',
    )
    .addOption(
      new Option('--netns <name>', 'in this network namespace: a name of ip netns, or a path').conflicts(
        'pod',
      ),
    )
    .option('--pod <namespace/name>', 'in the network of this pod')
    .addOption(criSocketOption())
    .action(async (name: string | undefined, options: NetOptions) => {
      const { runNet } = await import('./net.ts');
      process.exitCode = await runNet(name, options);
    });
  return addHelp(command, {
    examples: ['rampart bpf net eth0', 'rampart bpf net --pod shop/web-0 -o json'],
    exitCodes: { 0: 'there are some', 1: 'there are none' },
  });
}

function statsCommand(): Command {
  const command = inspecting(new Command('stats'), 'rampart.dev/bpf-stats/v1')
    .summary('show how often programs run, and for how long')
    .description(
      'Measures for the given time. The kernel counts runs only on request; members of chains are always counted. CPU is the share of one CPU.',
    )
    .addOption(
      new Option('-t, --time <seconds>', 'how long to measure').argParser(seconds).default(1000, '1'),
    )
    .option('--top', 'on a terminal, measure again and again until interrupted')
    .addOption(new Option('--sort <column>', 'largest first, except for id').choices(sortKeys).default('id'))
    .option('--all', 'all programs of the kernel')
    .action(async (options: StatsOptions) => {
      const { runStats } = await import('./stats.ts');
      await runStats(options);
    });
  return addHelp(command, {
    examples: ['rampart bpf stats -t 5 -o json', 'rampart bpf stats --top --all --sort cpu'],
  });
}

function cleanupCommand(): Command {
  const command = inspecting(new Command('cleanup'), 'rampart.dev/bpf-cleanup/v1')
    .summary('remove all eBPF programs of Rampart')
    .description(
      'Detaches and unloads everything that Rampart loaded on this machine for objects. Refused while an agent runs, because it would load them again.',
    )
    .action(async (options: BpfOptions) => {
      const { runCleanup } = await import('./run.ts');
      await runCleanup(options);
    });
  return addHelp(command, { examples: ['rampart bpf cleanup', 'rampart bpf cleanup -o json'] });
}

export function bpfCommand(): Command {
  const command = new Command('bpf')
    .summary('inspect the eBPF programs of this machine')
    .description(
      'Inspects the eBPF programs that this machine runs for objects such as XdpProgram and TcNsProgram, and those of other tools. Requires root.',
    )
    .addCommand(listCommand())
    .addCommand(chainCommand())
    .addCommand(netCommand())
    .addCommand(statsCommand())
    .addCommand(mapCommand())
    .addCommand(verifyCommand())
    .addCommand(cleanupCommand());
  return addHelp(command, { examples: ['rampart bpf list', 'rampart bpf net eth0'] });
}
