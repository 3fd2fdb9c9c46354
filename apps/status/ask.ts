/** Queries a cluster for what its guards do. */
import type { Guard } from '../../guard/guard.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { examine } from './examine.ts';
import { type ReadGuard, StatusReader, type StatusReaderOptions } from './reader.ts';
import type { StatusReport } from './report.ts';

interface AskOptions extends StatusReaderOptions {
  readonly guards: readonly Guard[];
  /** As people know it. */
  readonly server: string;
}

export interface Asked {
  readonly report: StatusReport;
  readonly guards: readonly ReadGuard[];
}

/**
 * @throws {KubeError} where what users write may not be read; {@link RampartError} `API_UNREACHABLE` for no answer, `NOT_FOUND`
 *   where no guard is installed.
 */
export async function askCluster({ guards, server, ...options }: AskOptions): Promise<Asked> {
  const { namespace } = options;
  // What is still asked for when one fails ends with it.
  const end = new AbortController();
  const reader = new StatusReader({ ...options, signal: AbortSignal.any([options.signal, end.signal]) });
  try {
    const read = await Promise.all(guards.map((guard) => reader.guard(guard)));
    const [locks, agents, agentPods, nodes] = await Promise.all([
      reader.locks(),
      reader.agents(),
      reader.agentPods(),
      reader.nodes(),
    ]);
    // Guards without kinds of their own are told of by their agents alone.
    if (agents === undefined || agents.length === 0) requireOne(read, server);
    const { timeMs, notRead } = reader;
    const found = { server, timeMs, namespace, guards: read, locks, agents, agentPods, nodes, notRead };
    return { report: examine(found), guards: read };
  } finally {
    end.abort();
  }
}

/** Guards that bring no kinds of their own tell nothing. */
function requireOne(read: readonly ReadGuard[], server: string): void {
  const own = read.filter(({ guard }) => guard.resources.length > 0);
  if (own.length === 0 || own.some(({ installed }) => installed !== false)) return;
  // One of each guard: bpf-programs has 18.
  const kinds = own.flatMap(({ guard }) => (guard.guarded ?? guard.resources)[0]?.kind ?? []);
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `${server} does not serve ${kinds.join(' or ')}`,
    why: 'Rampart is not installed there',
    next: 'Install it with kubectl apply -k deploy/; rampart standalone installs itself',
  });
}
