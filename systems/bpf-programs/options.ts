/**
 * What a user may say of this guard on the command line.
 *
 * @module
 */
import type { GuardOption } from '../../shared/guard/guard.ts';

/** As the command line gives them. */
export interface BpfProgramsOptions {
  /** The mount point of the node's bpffs. */
  readonly bpffs: string;
}

export const bpfProgramsOptions: readonly GuardOption[] = [
  {
    flags: '--bpffs <dir>',
    description: "the mount point of the node's bpffs, below which the programs of bpf-programs stay pinned",
    on: ['agent', 'standalone'],
    default: '/sys/fs/bpf',
  },
];
