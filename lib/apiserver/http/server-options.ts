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
  /** Port 0 means any free port. */
  { readonly host: string; readonly port: number } | { readonly socketPath: string };

/** Key and certificate in PEM. */
export interface TlsKeys {
  readonly key: string;
  readonly cert: string;
}

export interface Limits {
  /** Limit for a request; longer ones are answered 413. */
  readonly bodyBytes: number;
  /** Limit for the request line and all headers. */
  readonly headerBytes: number;
  /** Limit of concurrent reads, without watches; further ones are answered 429. */
  readonly readonlyInFlight: number;
  readonly mutatingInFlight: number;
  /** Limit of concurrent connections; further ones are closed immediately. */
  readonly connections: number;
  /**
   * Limit of connections that have not yet sent an authenticated request. Beyond it, the oldest connection of the address with
   * the most is closed.
   */
  readonly unauthenticated: number;
  /** Limit of connections from one address that have not yet sent an authenticated request. */
  readonly unauthenticatedPerSource: number;
  /** Time limit for a connection's first authenticated request. */
  readonly authenticateMs: number;
  /** Time limit for the headers of a request, and for a TLS handshake. */
  readonly headersTimeoutMs: number;
  /** Time limit for a request other than a watch, from its first byte to the last of the answer. */
  readonly requestTimeoutMs: number;
  /** How long a connection may be idle between requests. */
  readonly keepAliveMs: number;
  /** How long the client of a watch may read nothing. */
  readonly stallMs: number;
  /** How long requests may continue when the server is stopped. */
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

/** A part that is served together with the API, below its own path, with its own authorization. */
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
  /** Tried in this order. */
  readonly routes: readonly PlainRoute[];
  readonly authenticate: Authenticate;
  readonly mounted?: MountedPart | undefined;
  readonly listen: ListenAddress;
  /** An additional unix socket, for clients that others must not shut out by using up the connections. They are authenticated too. */
  readonly privateSocket?: string | undefined;
  /** Required, except on a unix socket and, for plain HTTP, on loopback. */
  readonly tls?: TlsKeys | undefined;
  readonly health?: readonly HealthCheck[];
  readonly limits?: Partial<Limits> | undefined;
  /**
   * Compress answers over 128 KiB for clients that accept gzip. Default: only if the address is not a loopback address, where
   * compressing takes longer than sending.
   */
  readonly compress?: boolean;
  readonly log: Pick<Logger, 'error' | 'warn' | 'debug'>;
  readonly metrics?: Omit<Metrics, 'registry'> | undefined;
}
