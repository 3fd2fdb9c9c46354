/** The node part of this guard as the agent runs it: changes are detected at once. */
import type { NodePart } from '../../../guard/guard.ts';
import { liveOf } from '../live/start-live.ts';
import { runFileIntegrityNode } from './run-node.ts';
import type { FileIntegrityOptions } from '../options.ts';

export const fileIntegrityNode: NodePart<FileIntegrityOptions> = async (context, options) => {
  const { mode, readBytesPerSecond, workers } = options;
  await runFileIntegrityNode(context, {
    // Changes are seen by kprobes where accesses are seen by fentry.
    live: liveOf({ signal: context.signal, mode: mode === 'fentry' ? 'auto' : mode }),
    ...{ readBytesPerSecond, workers },
  });
};
