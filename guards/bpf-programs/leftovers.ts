/** What the guard leaves behind: its programs stay in the kernel while the agent is not running. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';

import { defineLeftovers } from '../../guard/leftovers.ts';
import { createLogger } from '../../lib/telemetry/log.ts';
import { allNodeTypes as types, bpfApplicationOf, parentKinds } from './api.ts';
import { nodeFinalizer, ofNode, parentFinalizer } from './engine/names.ts';
import type { BpfProgramsOptions } from './options.ts';

/** Two kinds share a name: one of them is enough to find the objects, whatever their scope. */
const parents = parentKinds.filter((kind) => kind !== bpfApplicationOf['v0.5']);

export const bpfProgramsLeftovers = defineLeftovers<BpfProgramsOptions>({
  finalizers: [
    ...parents.map(({ type }) => ({ type, finalizers: [parentFinalizer] })),
    ...types.map((type) => ({
      type,
      finalizers: parentKinds.map(({ controller }) => nodeFinalizer(controller)),
      ofNode: (nodeName: string) => ({ labelSelector: ofNode(nodeName) }),
    })),
  ],
  objects: types.map((type) => ({ type })),
  async cleanNode({ bpffs, bpfState }, { hostRoot, signal }) {
    const { openLockedHost, pinDirectory, programsDirectory } = await import('./node/locked-host.ts');
    // An agent that found no bpffs has only created its directory, and loaded nothing.
    if (![join(bpffs, pinDirectory), programsDirectory(bpfState)].some((path) => existsSync(path))) return [];
    await using host = await openLockedHost({ bpffs, stateDirectory: bpfState, hostRoot }, createLogger());
    return await host.remove(signal);
  },
  directories: ({ bpfState }) => [bpfState],
});
