import type { IncomingMessage, ServerResponse } from 'node:http';

import type { Logger } from '../../telemetry/log.ts';
import type { Metrics } from '../../telemetry/metrics.ts';
import type { Renderer } from '../render/renderer.ts';
import type { Registry } from '../resources/registry.ts';
import type { ResourceAnswer, ResourceRequest, User } from '../verbs/request.ts';
import type { HealthCheck } from './health.ts';
import type { PlainRoute } from './plain.ts';

interface RequestHandler {
  handle(request: ResourceRequest): Promise<ResourceAnswer>;
}

/** Finds the user by the Authorization header. `undefined`: unknown, which is answered 401. */
export type Authenticate = (authorization: string | undefined) => User | undefined;

export type ListenAddress =
  /** Port 0 takes any free one. */
  { readonly host: string; readonly port: number } | { readonly socketPath: string };

/** PEM. */
export interface TlsKeys {
  readonly key: string;
  readonly cert: string;
}

export interface Limits {
  /** Limit for a request; longer ones are answered 413. */
  readonly bodyBytes: number;
  /** Limit for the request line and all headers. */
  readonly headerBytes: number;
  /** Requests at a time, without watches; the rest is answered 429. */
  readonly readonlyInFlight: number;
  readonly mutatingInFlight: number;
  /** At a time; further ones are closed at once. */
  readonly connections: number;
  /**
   * How many of them may be without an authenticated request; beyond it, the address with most loses its
   * oldest.
   */
  readonly unauthenticated: number;
  /** From one address. */
  readonly unauthenticatedPerSource: number;
  /** Time limit for a connection's first authenticated request. */
  readonly authenticateMs: number;
  /** For the headers of a request, and for a TLS handshake. */
  readonly headersTimeoutMs: number;
  /** For a whole request, from its first byte to the last of the answer; not for watches. */
  readonly requestTimeoutMs: number;
  /** How long a connection may be idle between requests. */
  readonly keepAliveMs: number;
  /** How long the client of a watch may take nothing. */
  readonly stallMs: number;
  /** How long requests may go on when the server is stopped. */
  readonly stopMs: number;
}

/** In-flight limits and the length of a body are those of kube-apiserver. */
export const defaultLimits: Limits = {
  bodyBytes: 3 * 1024 * 1024,
  headerBytes: 64 * 1024,
  readonlyInFlight: 400,
  mutatingInFlight: 200,
  connections: 2000,
  unauthenticated: 256,
  unauthenticatedPerSource: 128,
  authenticateMs: 10_000,
  headersTimeoutMs: 10_000,
  requestTimeoutMs: 60_000,
  keepAliveMs: 120_000,
  stallMs: 300_000,
  stopMs: 5_000,
};

/** A part that is served beside the API, below its own path, with its own authorization. */
export interface MountedPart {
  /** `/ui` */
  readonly path: string;
  /**
   * Answers a request for that path or one below it.
   *
   * @param known - Call it for a request of a known user: its connection then counts as authenticated.
   */
  readonly take: (request: IncomingMessage, response: ServerResponse, known: () => void) => void;
}

export interface HttpServerOptions {
  readonly verbs: RequestHandler;
  readonly registry: Pick<Registry, 'find'>;
  readonly renderer: Renderer;
  /** In the order in which they are asked. */
  readonly routes: readonly PlainRoute[];
  readonly authenticate: Authenticate;
  readonly mounted?: MountedPart | undefined;
  readonly listen: ListenAddress;
  /** A unix socket beside that address, for clients whom the connections of others must not keep out. They are authenticated too. */
  readonly privateSocket?: string | undefined;
  /** Needed but on a unix socket and, if that is wanted, on loopback. */
  readonly tls?: TlsKeys | undefined;
  readonly health?: readonly HealthCheck[];
  readonly limits?: Partial<Limits> | undefined;
  /**
   * gzip answers over 128 KiB for clients that take it. Default: only if the address is not of this machine, as it
   * costs more time than loopback does.
   */
  readonly compress?: boolean;
  readonly log: Pick<Logger, 'error' | 'warn' | 'debug'>;
  readonly metrics?: Omit<Metrics, 'registry'> | undefined;
}
