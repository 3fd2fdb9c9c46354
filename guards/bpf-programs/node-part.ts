/** The node part of this guard as the agent runs it: with the kernel, and with images from registries. */
import { join } from 'node:path';

import type { NodePart } from '../../guard/guard.ts';
import type { Registry } from '../../lib/oci/registry.ts';
import { runBpfProgramsNode } from './node.ts';
import type { PullBytecode } from './node/bytecode.ts';
import { openLockedHost } from './node/locked-host.ts';
import type { BpfProgramsOptions } from './options.ts';

export const bpfProgramsNode: NodePart<BpfProgramsOptions> = async (context, options) => {
  const { logger, client, directory, hostRoot } = context;
  await using stack = new AsyncDisposableStack();
  let registry: Promise<Registry> | undefined;
  // Without images, neither the cache nor its modules are needed.
  const pull: PullBytecode = async (...args) => {
    const { imagePuller } = await import('./node/image-bytecode.ts');
    const { openBytecodeRegistry } = await import('./node/bytecode-registry.ts');
    registry ??= openBytecodeRegistry(join(directory, 'images'), options, logger).then((opened) =>
      stack.use(opened),
    );
    registry.catch(() => (registry = undefined));
    return await imagePuller({ registry: await registry, client })(...args);
  };
  await runBpfProgramsNode(context, {
    openHost: () =>
      openLockedHost({ bpffs: options.bpffs, stateDirectory: options.bpfState, hostRoot }, logger),
    pull,
  });
};
