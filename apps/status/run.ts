import { resolve } from 'node:path';

import type { Guard } from '../../guard/guard.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { documentText } from '../../lib/cli/document.ts';
import { isForbidden, isNotFound, isUnreachable } from '../../lib/kube/client/client-errors.ts';
import { namespaces } from '../../lib/kube/object/object.ts';
import { errorCodes, RampartError } from '../../lib/errors/errors.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { describeFailure } from '../../lib/cli/failure.ts';
import { stopSignal } from '../../lib/cli/process.ts';
import type { StatusOptions } from './command.ts';
import type { ReadApi } from './stored-api.ts';
import { renderStatus } from './render.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';
import { outputOptions } from '../../lib/cli/output.ts';
import { examine, type Examined } from './examine.ts';
import { type ReadGuard, StatusReader, type StatusReaderOptions } from './reader.ts';

/** @returns the exit code: 0 all is guarded, 1 something is not, 2 cannot tell, which is said on stderr. */
export async function runStatus(guards: readonly Guard[], options: StatusOptions): Promise<0 | 1 | 2> {
  let asked: Asked;
  try {
    asked = await ask(guards, options);
  } catch (error) {
    // Also an API that is away: a script has to tell it from what is not guarded.
    process.stderr.write(describeFailure(error).text);
    const stored = isRefused(error) ? await askStored(guards, options) : undefined;
    if (stored === undefined) return 2;
    asked = stored;
  }
  const { report } = asked.examined;
  const { stdout } = process;
  if (options.output === 'json' || options.output === 'yaml')
    stdout.write(documentText(options.output, report));
  else {
    const isWide = options.output === 'wide';
    stdout.write(
      renderStatus(asked.examined, asked.guards, { ...outputOptions(80, { most: 120, isWide }), isWide }),
    );
  }
  if (report.guarded) return 0;
  return report.problems.length > 0 ? 1 : 2;
}

/** Nobody listens there: a process that hangs, or is busy, would not refuse. */
function isRefused(error: unknown): boolean {
  return isUnreachable(error) && /\bECONNREFUSED\b/.test((error as Error).message);
}

/** What users have asked of a `rampart standalone` that does not run; undefined where that cannot be told, or is nothing. */
async function askStored(
  guards: readonly Guard[],
  { data, namespace }: StatusOptions,
): Promise<Asked | undefined> {
  if (data === undefined) return undefined;
  try {
    const { StoredApi } = await import('./stored-api.ts');
    using client = new StoredApi(data);
    const { signal } = stopSignal();
    await expectNamespace(client, namespace, signal);
    const start = `Start rampart standalone with --data ${data}`;
    const asked = await askCluster({
      ...{ client, guards, server: resolve(data), namespace, signal, isStopped: true, start },
    });
    return asked.examined.report.guarded ? undefined : asked;
  } catch (error) {
    process.stderr.write(describeFailure(error).text);
    return undefined;
  }
}

async function ask(guards: readonly Guard[], options: StatusOptions): Promise<Asked> {
  const { namespace } = options;
  refuseEmpty({ '--namespace': namespace });
  const access = clusterAccess(options);
  using client = new KubeClient(access);
  const server = access.server.href.replace(/\/$/, '');
  const { signal } = stopSignal();
  await expectNamespace(client, namespace, signal);
  return await askCluster({ client, guards, server, namespace, signal });
}

/** What is in a namespace that does not exist would be nothing, and nothing is always guarded. */
async function expectNamespace(
  client: ReadApi,
  name: string | undefined,
  signal: AbortSignal,
): Promise<void> {
  if (name === undefined) return;
  try {
    await client.get(namespaces, { name }, { signal });
  } catch (error) {
    // Who may not look at it may still list what is in it.
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
  /** As people know it. */
  readonly server: string;
  readonly start?: string;
}

export interface Asked {
  readonly examined: Examined;
  readonly guards: readonly ReadGuard[];
}

/**
 * @throws {KubeError} where what users write may not be read; {@link RampartError} `API_UNREACHABLE` for no answer, `NOT_FOUND`
 *   where no guard is installed.
 */
export async function askCluster({ guards, server, start, ...options }: AskOptions): Promise<Asked> {
  const { namespace } = options;
  // What is still asked for when one fails ends with it.
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
    // Guards without kinds of their own are told of by their agents alone.
    if (agents === undefined || agents.length === 0) requireOne(read, server);
    const { timeMs, notRead } = reader;
    const processes = { locks, agents, operator, agentPods, nodes };
    const examined = examine({ server, timeMs, namespace, guards: read, ...processes, notRead, start });
    return { examined, guards: read };
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
