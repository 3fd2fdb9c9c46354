/**
 * The pull side of the distribution API at one endpoint: authentication, useful retries, and how securely the
 * host is accessed.
 */
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Logger } from '../telemetry/log.ts';
import { printable } from '../output/printable.ts';
import { backoffDelayMs, type BackoffOptions } from '../time/backoff.ts';
import { type Clock, sleep } from '../time/clock.ts';
import { Authenticator, refused, type Subject } from './authentication.ts';
import { type Answer, everyWay, type Exchange, ExchangeError, type Security } from './exchange.ts';
import { apiHost, hostName } from './reference.ts';
import type { Endpoint } from './registries-conf.ts';
import type { Credentials } from './registry.ts';

export interface Request {
  readonly endpoint: Endpoint;
  readonly credentials: Credentials | undefined;
  /** Below /v2/NAME/: `manifests/v1`, `blobs/sha256:...`. */
  readonly path: string;
  readonly method: 'GET' | 'HEAD';
  readonly accept: string;
  readonly maxBytes: number;
  /** For messages. */
  readonly what: string;
  readonly signal: AbortSignal | undefined;
}

interface EndpointClientOptions {
  readonly exchange: Exchange;
  /** Hosts, with or without their port, that may be accessed with any certificate, or without TLS. */
  readonly insecure: ReadonlySet<string>;
  readonly clock: Clock;
  readonly logger: Logger;
}

const TRIES = 3;
const backoff: BackoffOptions = { baseMs: 200, maxMs: 5000, jitter: 0.3 };
/** A host that demands more patience is not retried now. */
const LONGEST_RETRY_AFTER_S = 5;

/**
 * An answer of status 200.
 *
 * @throws {RampartError} `NOT_FOUND`, `PRIVILEGE`, `API_UNREACHABLE`, `LIMIT`; the signal's reason
 */
export type GetFromEndpoint = (request: Request) => Promise<Answer>;

export function endpointClient(options: EndpointClientOptions): GetFromEndpoint {
  /** The kind of connection that has worked, by host. */
  const securityOf = new Map<string, Security>();
  const authenticator = new Authenticator(options.exchange, options.clock);

  async function tryOnce(request: Request): Promise<Answer | Failure> {
    let answer: Answer;
    try {
      answer = await ask(request);
    } catch (error) {
      if (!(error instanceof ExchangeError)) throw error;
      return { again: !error.tls, error: unreachable(request, error.message, error) };
    }
    const { status } = answer;
    if (status === 200) return answer;
    if (status === 404) {
      const error = new RampartError(errorCodes.NOT_FOUND, {
        what: `${request.what} does not exist`,
        why: `${request.endpoint.registry} responded ${reasonOf(answer)}`,
      });
      return { again: false, error };
    }
    if (status === 401 || status === 403) {
      const subject = subjectOf(request, 'verified');
      return { again: false, error: refused(subject, `it responded ${reasonOf(answer)}`) };
    }
    const again = status >= 500 || status === 429 || status === 408;
    const seconds = Number(answer.headers['retry-after'] ?? Number.NaN);
    return {
      again: again && !(seconds > LONGEST_RETRY_AFTER_S),
      error: unreachable(request, `it responded ${reasonOf(answer)}`),
      ...(seconds >= 0 && { afterMs: seconds * 1000 }),
    };
  }

  /** Sends a request in the most secure way that works, among those allowed for the host. */
  async function ask(request: Request): Promise<Answer> {
    const { registry } = request.endpoint;
    const known = securityOf.get(registry) ?? 'verified';
    const ways: readonly Security[] = mayBeInsecure(request.endpoint)
      ? [known, ...everyWay.filter((way) => way !== known)]
      : ['verified'];
    for (const [index, security] of ways.entries()) {
      try {
        const answer = await askAs(request, security);
        if (security !== known && security !== 'verified') {
          options.logger.warn(
            { registry },
            security === 'plain'
              ? 'querying a registry without TLS, as configured'
              : 'querying a registry without verifying its certificate, as configured',
          );
        }
        securityOf.set(registry, security);
        return answer;
      } catch (error) {
        if (!(error instanceof ExchangeError) || index + 1 >= ways.length) throw error;
        request.signal?.throwIfAborted();
      }
    }
    throw new TypeError('no way to query a registry');
  }

  function mayBeInsecure({ registry, insecure }: Endpoint): boolean {
    return insecure || options.insecure.has(registry) || options.insecure.has(hostName(registry));
  }

  async function askAs(request: Request, security: Security): Promise<Answer> {
    const { endpoint, path, method, accept, maxBytes, what, signal } = request;
    const scheme = security === 'plain' ? 'http' : 'https';
    const url = new URL(`${scheme}://${apiHost(endpoint.registry)}/v2/${endpoint.repository}/${path}`);
    const subject = subjectOf(request, security);
    const askWith = (authorization: string | undefined): Promise<Answer> =>
      options.exchange.ask({
        url,
        security,
        method,
        headers: { accept, ...(authorization !== undefined && { authorization }) },
        maxBytes,
        what,
        signal,
      });
    const first = await askWith(authenticator.known(subject));
    return first.status === 401 ? askWith(await authenticator.answer(first, subject)) : first;
  }

  function subjectOf({ endpoint, credentials, signal }: Request, security: Security): Subject {
    return { registry: endpoint.registry, repository: endpoint.repository, credentials, security, signal };
  }

  return async (request) => {
    for (let attempt = 0; ; attempt++) {
      const failure = await tryOnce(request);
      if ('status' in failure) return failure;
      request.signal?.throwIfAborted();
      if (attempt + 1 >= TRIES || !failure.again) throw failure.error;
      const delayMs = failure.afterMs ?? backoffDelayMs(attempt, backoff);
      await sleep(options.clock, delayMs, request.signal);
    }
  };
}

interface Failure {
  readonly again: boolean;
  readonly error: RampartError;
  readonly afterMs?: number;
}

function unreachable({ endpoint, what }: Request, why: string, cause?: ExchangeError): RampartError {
  return new RampartError(errorCodes.API_UNREACHABLE, {
    what: `cannot fetch ${what} from ${endpoint.registry}`,
    why,
    ...(cause?.tls === true && {
      next: `Configure its certificate authority, or mark ${endpoint.registry} as insecure`,
    }),
    cause,
  });
}

/** The status, and the registry's explanation: `{"errors": [{"code": ..., "message": ...}]}`. */
function reasonOf({ status, body }: Answer): string {
  const said: string[] = [];
  try {
    const { errors } = JSON.parse(Buffer.from(body).toString()) as { errors?: unknown };
    for (const error of Array.isArray(errors) ? (errors as { code?: unknown; message?: unknown }[]) : []) {
      said.push(printableShort(error.message ?? error.code));
    }
  } catch {
    // A page for people, from a proxy in between: the status must suffice.
  }
  const text = said
    .slice(0, 3)
    .filter((each) => each !== '')
    .join('; ');
  return text === '' ? String(status) : `${status}: ${text}`;
}

function printableShort(value: unknown): string {
  return typeof value === 'string' ? printable(value).slice(0, 200) : '';
}
