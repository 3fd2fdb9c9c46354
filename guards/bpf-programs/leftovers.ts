/** What this guard leaves behind: programs stay in the kernel while the agent is away. */
import { defineLeftovers } from '../../guard/leftovers.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { nodeTypes, parentKinds } from './api.ts';
import { nodeFinalizer, parentFinalizer } from './engine/names.ts';
import type { BpfProgramsOptions } from './options.ts';

const types = Object.values(nodeTypes);

export const bpfProgramsLeftovers = defineLeftovers<BpfProgramsOptions>({
  finalizers: [
    ...parentKinds.map(({ type }) => ({ type, finalizers: [parentFinalizer] })),
    ...types.map((type) => ({ type, finalizers: parentKinds.map(({ kind }) => nodeFinalizer(kind)) })),
  ],
  objects: types.map((type) => ({ type })),
  async cleanNode({ bpffs, bpfState }, { hostRoot, signal }) {
    const { openLockedHost } = await import('./node/locked-host.ts');
    await using host = await openLockedHost({ bpffs, stateDirectory: bpfState, hostRoot }, createLogger());
    return await host.remove(signal);
  },
  directories: ({ bpfState }) => [bpfState],
});
