/** Options that the commands of `rampart bpf` share. */
import type { Command } from 'commander';

import { bpffsOption, bpfStateOption } from '../options.ts';
import { optionOf } from '../../../guard/guard-options.ts';
import { outputOption } from '../../../lib/cli/options.ts';

/** Where the agent keeps its programs. */
export interface PlaceOptions {
  readonly bpffs: string;
  readonly bpfState: string;
}

export interface BpfOptions extends PlaceOptions {
  readonly output: 'json' | 'table';
}

/** For commands that inspect the programs of the agent. */
export function inspecting(command: Command): Command {
  return command
    .addOption(optionOf(bpffsOption))
    .addOption(optionOf(bpfStateOption))
    .addOption(outputOption('table', 'json'));
}
