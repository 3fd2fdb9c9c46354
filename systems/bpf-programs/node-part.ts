/**
 * The node part of this guard as the agent runs it: with the kernel, and with images from registries.
 *
 * @module
 */
import type { NodePart } from '../../shared/guard/guard.ts';
import { runBpfProgramsNode } from './node.ts';
import type { BpfProgramsOptions } from './options.ts';

export const bpfProgramsNode: NodePart = async (context, values) => {
  const { bpffs } = values as unknown as BpfProgramsOptions;
  void bpffs;
  await runBpfProgramsNode(context, {
    openHost: () => Promise.reject(new Error('no kernel yet')),
    pull: () => Promise.reject(new Error('no images yet')),
  });
};
