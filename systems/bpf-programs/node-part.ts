/**
 * The node part of this guard as the agent runs it: with the kernel, and with images from registries.
 *
 * @module
 */
import type { NodePart } from '../../shared/guard/guard.ts';
import { runBpfProgramsNode } from './node.ts';
import { openLockedHost } from './node/locked-host.ts';
import type { BpfProgramsOptions } from './options.ts';

export const bpfProgramsNode: NodePart = async (context, values) => {
  const { bpffs, bpfState } = values as unknown as BpfProgramsOptions;
  const { logger } = context;
  await runBpfProgramsNode(context, {
    openHost: () => openLockedHost({ bpffs, stateDirectory: bpfState }, logger),
    pull: () => Promise.reject(new Error('no images yet')),
  });
};
