/** The command-line options of this guard. */
import type { GuardOption, OptionValues } from '../../guard/guard.ts';
import { optionalText, text, texts } from '../../guard/option-values.ts';

export interface BpfProgramsOptions {
  /** The mount point of the node's bpffs. */
  readonly bpffs: string;
  /** On tmpfs, because its contents belong to this boot. */
  readonly bpfState: string;
  readonly bpfRegistries?: string | undefined;
  readonly bpfInsecureRegistry: readonly string[];
}

export const bpffsOption: GuardOption = {
  flags: '--bpffs <dir>',
  description: "the mount point of the node's bpffs, where eBPF programs stay pinned while the agent is away",
  on: ['agent', 'standalone'],
  default: '/sys/fs/bpf',
};

export const bpfStateOption: GuardOption = {
  flags: '--bpf-state <dir>',
  description: 'where to keep the state of eBPF programs that the kernel does not; use a tmpfs',
  on: ['agent', 'standalone'],
  default: '/run/rampart/bpf-programs',
};

export const bpfProgramsOptions: readonly GuardOption[] = [
  bpffsOption,
  bpfStateOption,
  {
    flags: '--bpf-registries <file>',
    description: 'a registries.conf for bytecode images: mirrors, insecure and blocked registries',
    on: ['agent', 'standalone'],
  },
  {
    flags: '--bpf-insecure-registry <host>',
    description:
      'a registry for bytecode images that needs no valid certificate, such as registry.example:5000; repeatable',
    on: ['agent', 'standalone'],
    repeatable: true,
  },
];

export function parseBpfProgramsOptions(values: OptionValues): BpfProgramsOptions {
  return {
    bpffs: text(values, 'bpffs'),
    bpfState: text(values, 'bpfState'),
    bpfRegistries: optionalText(values, 'bpfRegistries'),
    bpfInsecureRegistry: texts(values, 'bpfInsecureRegistry'),
  };
}
