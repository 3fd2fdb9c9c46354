/** Where alerts come from: a socket of this machine, or a cluster. */
import { join, resolve } from 'node:path';

import type { ClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { errorCodes, messageOf, RampartError } from '../../lib/errors/errors.ts';
import { probeFeed } from '../../lib/feed/feed-client.ts';
import { agentAlertsSocket, standaloneAlertsSocket } from './alert-feed.ts';
import { clusterAccess } from '../../lib/cli/cluster.ts';
import { refuseEmpty } from '../../lib/cli/options.ts';

export type AlertOrigin =
  | { readonly kind: 'socket'; readonly path: string }
  | { readonly kind: 'cluster'; readonly access: ClusterAccess };

/** The consumer of a source's lines. If a method returns a promise, the source waits for it. */
export interface AlertHandler {
  /** A line that may be an alert. */
  line(text: string): Promise<void> | undefined;
  /** All earlier lines have been delivered; the following ones are new. */
  live(): Promise<void>;
  say(text: string): void;
  /** The head that a socket sends before its lines. `isOther`: it comes from a process that was not read before. */
  about?(about: unknown, isOther: boolean): void;
  /** Called if that many lines are no longer available. */
  missed?(lines: number): void;
  /** The source's process has ended: no line comes until `live` is called again. */
  gone?(): void;
}

export interface AlertRequest {
  readonly follow: boolean;
  /** Older lines are not needed. Milliseconds since 1970. */
  readonly sinceMs: number | undefined;
  /** How many of the last alerts are needed. */
  readonly tail: number;
  readonly handler: AlertHandler;
  readonly signal: AbortSignal;
}

interface OriginOptions {
  readonly socket?: string | undefined;
  readonly data?: string | undefined;
  readonly kubeconfig?: string | undefined;
  /** A context of the kubeconfig, which selects a cluster. */
  readonly context?: string | undefined;
}

/** Tried in this order if no source is given: the socket of an agent, then that of standalone with the directory in its guide. */
const usualSockets: readonly string[] = [agentAlertsSocket, join('/var/lib/rampart', standaloneAlertsSocket)];

/**
 * @throws {RampartError} `INPUT` if there is no source or several are given, `PRIVILEGE` if the only one is a socket that may
 *   not be opened.
 */
export async function findOrigin(
  options: OriginOptions,
  sockets: readonly string[] = usualSockets,
): Promise<AlertOrigin> {
  const { socket, data, kubeconfig, context } = options;
  const cluster = kubeconfig === undefined ? { '--context': context } : { '--kubeconfig': kubeconfig };
  const sources = { '--socket': socket, '--data': data, ...cluster };
  refuseEmpty(sources, 'Give a path');
  const given = Object.entries(sources).filter(([, value]) => value !== undefined);
  if (given.length > 1) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${given.map(([name]) => name).join(' and ')} together`,
      why: 'each names a source of alerts',
      next: 'Use only one of them',
    });
  }
  if (socket !== undefined) return { kind: 'socket', path: resolve(socket) };
  if (data !== undefined) return { kind: 'socket', path: join(resolve(data), standaloneAlertsSocket) };
  if (kubeconfig !== undefined || context !== undefined)
    return { kind: 'cluster', access: clusterAccess({ kubeconfig, context }) };
  let refused: string | undefined;
  for (const path of sockets) {
    const state = await probeFeed(path);
    if (state === 'served') return { kind: 'socket', path };
    if (state === 'refused') refused ??= path;
  }
  try {
    return { kind: 'cluster', access: clusterAccess() };
  } catch (cause) {
    if (refused !== undefined) {
      throw new RampartError(errorCodes.PRIVILEGE, {
        what: `cannot open ${refused}`,
        why: 'only root may read the alerts of this machine',
        next: 'Use sudo, or --kubeconfig for the agents of a cluster',
        cause,
      });
    }
    throw new RampartError(errorCodes.INPUT, {
      what: 'no source of alerts found',
      why: `no agent listens on ${sockets.join(' or ')}, and ${messageOf(cause)}`,
      next: 'Use --data with the directory of rampart standalone, --socket, or --kubeconfig',
      cause,
    });
  }
}
