/** Reads what `rampart status` shows: from the API or, if standalone does not run, from its files. */
import { resolve } from 'node:path';

import type { Guard } from '../../guard/guard.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { isForbidden, isNotFound, isUnreachable } from '../../lib/kube/client/client-errors.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import type { ClusterChoice } from '../../lib/cli/cluster-options.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import type { ReadApi } from './stored-api.ts';
import { examine, type Examined, type Found } from './examine.ts';
import { type ReadGuard, StatusReader, type StatusReaderOptions } from './reader.ts';

export interface StatusChoice extends ClusterChoice {
  /** Default: the objects of all namespaces. */
  readonly namespace?: string | undefined;
}

/** Whether nothing listens on the port: a process that hangs, or is busy, does not refuse connections. */
export function isRefused(error: unknown): boolean {
  return isUnreachable(error) && /\bECONNREFUSED\b/.test((error as Error).message);
}

/**
 * The users' objects in a `rampart standalone` that does not run; undefined if `data` is not given, or has no objects.
 *
 * @throws if the files of `data` cannot be read.
 */
export async function askStored(
  guards: readonly Guard[],
  { data, namespace }: StatusChoice,
  signal: AbortSignal,
): Promise<Asked | undefined> {
  if (data === undefined) return undefined;
  const { StoredApi } = await import('./stored-api.ts');
  using client = new StoredApi(data);
  await expectNamespace(client, namespace, signal);
  const start = `Start rampart standalone with --data ${data}`;
  const asked = await askCluster({
    ...{ client, guards, server: resolve(data), namespace, signal, isStopped: true, start },
  });
  return asked.examined.report.guarded ? undefined : asked;
}

/** @throws as {@link askCluster}; {@link RampartError} `INPUT` for a cluster that is not found, or a namespace that does not exist. */
export async function ask(
  guards: readonly Guard[],
  options: StatusChoice,
  signal: AbortSignal,
): Promise<Asked> {
  const { namespace } = options;
  refuseEmpty({ '--namespace': namespace });
  const access = clusterAccess(options);
  using client = new KubeClient(access);
  const server = access.server.href.replace(/\/$/, '');
  await expectNamespace(client, namespace, signal);
  return await askCluster({ client, guards, server, namespace, signal });
}

/** A missing namespace would look empty, and an empty one is always guarded. */
async function expectNamespace(
  client: ReadApi,
  name: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (name === undefined) return;
  try {
    await client.get(namespaces, { name }, { signal });
  } catch (error) {
    // A user who may not read the Namespace may still list the objects in it.
    if (isForbidden(error)) return;
    if (!isNotFound(error)) throw error;
    throw new RampartError(errorCodes.INPUT, {
      what: `there is no namespace ${name}`,
      next: 'Name an existing namespace with -n',
    });
  }
}

interface AskOptions extends StatusReaderOptions {
  readonly guards: readonly Guard[];
  /** The address as shown to the user. */
  readonly server: string;
  readonly start?: string;
}

export interface Asked {
  readonly examined: Examined;
  /** What the report was made from. */
  readonly found: Found;
  readonly guards: readonly ReadGuard[];
}

/**
 * Guards whose objects may not be read are included without them.
 *
 * @throws {@link RampartError} `API_UNREACHABLE` without an answer, `NOT_FOUND` if no guard is installed; {@link KubeError}
 */
export async function askCluster({ guards, server, start, ...options }: AskOptions): Promise<Asked> {
  const { namespace } = options;
  // Pending requests end when one fails.
  const end = new AbortController();
  const reader = new StatusReader({ ...options, signal: AbortSignal.any([options.signal, end.signal]) });
  try {
    const read = await Promise.all(guards.map((guard) => reader.guard(guard)));
    const [locks, agents, operator, agentPods, nodes] = await Promise.all([
      reader.locks(),
      reader.agents(),
      reader.operator(),
      reader.agentPods(),
      reader.nodes(),
    ]);
    // A guard without kinds of its own shows only in the leases of agents.
    if ((agents ?? []).length === 0 && !operator) requireOne(read, server);
    const { timeMs, notRead } = reader;
    const processes = { locks, agents, operator, agentPods, nodes };
    const found: Found = { server, timeMs, namespace, guards: read, ...processes, notRead, start };
    return { examined: examine(found), found, guards: read };
  } finally {
    end.abort();
  }
}

/** @throws {@link RampartError} `NOT_FOUND` if the API serves the kinds of no guard. Guards without kinds of their own prove nothing. */
function requireOne(read: readonly ReadGuard[], server: string): void {
  const own = read.filter(({ guard }) => guard.resources.length > 0);
  if (own.length === 0 || own.some(({ isServed }) => isServed !== false)) return;
  // Names one kind of each guard: bpf-programs alone has 18.
  const kinds = own.flatMap(({ guard }) => (guard.guarded ?? guard.resources)[0]?.kind ?? []);
  throw new RampartError(errorCodes.NOT_FOUND, {
    what: `${server} does not serve ${kinds.join(' or ')}`,
    why: 'Rampart is not installed there',
    next: 'Install it with kubectl apply -k deploy/; rampart standalone installs itself',
  });
}
