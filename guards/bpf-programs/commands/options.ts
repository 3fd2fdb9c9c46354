/** Options that the commands of `rampart bpf` share. */
import type { Command } from 'commander';

import { bpffsOption, bpfStateOption } from '../options.ts';
import { optionOf } from '../../../guard/guard-options.ts';
import type { Schema } from '../../../lib/cli/document.ts';
import { addOutput, type TableFormat, tableFormats } from '../../../lib/cli/output-option.ts';

/** Where the agent keeps its programs and their state. */
export interface PlaceOptions {
  readonly bpffs: string;
  readonly bpfState: string;
}

export interface BpfOptions extends PlaceOptions {
  readonly output: TableFormat;
}

/** Adds the options of commands that inspect the agent's programs. */
export function inspecting(command: Command, ...schemas: readonly Schema[]): Command {
  return addOutput(addPlace(command), tableFormats, { schemas });
}

/** Adds the options that say where the agent keeps its programs. */
export function addPlace(command: Command): Command {
  return command.addOption(optionOf(bpffsOption)).addOption(optionOf(bpfStateOption));
}
