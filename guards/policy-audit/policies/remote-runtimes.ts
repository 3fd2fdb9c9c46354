/** Policies that a policy server runs: they are evaluated at its path /audit. */
import { Agent, request as send } from 'node:https';
import type { Agent as HttpAgent, IncomingMessage } from 'node:http';

import { Agent as PlainAgent, request as sendPlain } from '../../../lib/net/node-http.ts';
import { proxiesOf, proxyEnvOf, proxyFor } from '../../../lib/net/proxy.ts';
import type { World } from '../engine/cel/cluster.ts';
import { describeConnectionFailure } from '../../../lib/net/connection-failure.ts';
import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { isObject } from '../../../lib/json/json.ts';
import { EvaluationError, type Evaluator, type PolicyRequest, type Verdict } from '../engine/evaluator.ts';
import type { Runtimes } from './open-policy.ts';

export interface RemoteOptions {
  readonly url: URL;
  readonly world: World;
  readonly ca?: string | undefined;
  readonly cert?: string | undefined;
  readonly key?: string | undefined;
  readonly isInsecure?: boolean;
}

const MAX_ANSWER_BYTES = 16 << 20;
/** Limit for an answer. The server limits evaluations itself, so this is only for a server that does not answer at all. */
const ANSWER_MS = 35_000;

/** Settings are not checked here: a policy server refuses to start with invalid ones. */
export function remoteRuntimes({ world, ...server }: RemoteOptions): Runtimes {
  const agent = agentOf(server);
  return {
    world,
    open: async ({ id }) => {
      await Promise.resolve();
      const target = below(server.url, `audit/${encodeURIComponent(id)}`);
      const evaluator: Evaluator = {
        runtime: 'wapc',
        validateSettings: () => Promise.resolve({ valid: true }),
        evaluate: async (request, { signal } = {}) =>
          verdictOf(await sendReview(target, agent, request, signal), id),
        [Symbol.asyncDispose]: () => Promise.resolve(),
      };
      return evaluator;
    },
  };
}

/**
 * Makes a first request to the server: a wrong address or certificate should be reported once, not for each object.
 *
 * @throws {RampartError} `INPUT` if it does not respond; the signal's reason
 */
export async function checkPolicyServer(
  server: Omit<RemoteOptions, 'world'>,
  signal: AbortSignal,
): Promise<void> {
  try {
    await ask(below(server.url, 'readiness'), agentOf(server), { signal });
  } catch (error) {
    signal.throwIfAborted();
    throw new RampartError(errorCodes.INPUT, {
      what: `the policy server at ${server.url.href} could not be queried`,
      why: describeConnectionFailure(error),
      cause: error,
    });
  }
}

/** @throws {RampartError} `INPUT` for a proxy that cannot be used */
function agentOf({ url, ca, cert, key, isInsecure = false }: Omit<RemoteOptions, 'world'>): HttpAgent {
  // Without keep-alive, so that each request may reach another replica.
  const options = { keepAlive: false, proxyEnv: proxyEnvOf(proxyFor(url, proxiesOf(process.env))) };
  return url.protocol === 'https:'
    ? new Agent({ ...options, ca, cert, key, rejectUnauthorized: !isInsecure })
    : new PlainAgent(options);
}

function below(url: URL, path: string): URL {
  return new URL(path, url.href.endsWith('/') ? url : `${url.href}/`);
}

interface Answer {
  readonly status: number;
  readonly body: string;
}

async function sendReview(
  target: URL,
  agent: HttpAgent,
  request: PolicyRequest,
  signal?: AbortSignal,
): Promise<Answer> {
  const body = JSON.stringify({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request });
  try {
    return await ask(target, agent, { body, signal });
  } catch (error) {
    signal?.throwIfAborted();
    const why = describeConnectionFailure(error);
    throw new EvaluationError('answer', `${target.href} could not be queried: ${why}`, { cause: error });
  }
}

/** Sends a POST if there is a body, else a GET. @throws the error of the connection */
async function ask(
  target: URL,
  agent: HttpAgent,
  { body, signal }: { readonly body?: string; readonly signal?: AbortSignal | undefined },
): Promise<Answer> {
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const ended = AbortSignal.timeout(ANSWER_MS);
  const options = {
    ...(body !== undefined && {
      method: 'POST',
      headers: { 'content-type': 'application/json', 'content-length': Buffer.byteLength(body) },
    }),
    agent,
    signal: signal === undefined ? ended : AbortSignal.any([signal, ended]),
  };
  const onResponse = (response: IncomingMessage): void => {
    const chunks: Buffer[] = [];
    let size = 0;
    response.on('data', (chunk: Buffer) => {
      size += chunk.length;
      if (size > MAX_ANSWER_BYTES)
        response.destroy(new Error(`its response exceeds ${MAX_ANSWER_BYTES} bytes`));
      else chunks.push(chunk);
    });
    response.on('end', () =>
      resolve({ status: response.statusCode ?? 0, body: Buffer.concat(chunks).toString() }),
    );
    response.on('error', reject);
  };
  const call =
    target.protocol === 'https:' ? send(target, options, onResponse) : sendPlain(target, options, onResponse);
  call.on('error', reject);
  call.end(body);
  return promise;
}

function verdictOf({ status, body }: Answer, id: string): Verdict {
  if (status !== 200) {
    const why = status === 404 ? `it does not know the policy ${id}` : body.trim().slice(0, 500);
    throw new EvaluationError(
      'answer',
      `the policy server returned ${status}${why === '' ? '' : `: ${why}`}`,
    );
  }
  const review = parsed(body);
  const response = isObject(review) ? review['response'] : undefined;
  if (!isObject(response) || typeof response['allowed'] !== 'boolean') {
    throw new EvaluationError('answer', 'the policy server did not return an AdmissionReview');
  }
  const found = response['status'];
  const { message, code, reason } = isObject(found) ? found : {};
  return {
    allowed: response['allowed'],
    ...(typeof message === 'string' && { message }),
    ...(typeof code === 'number' && { code }),
    ...(typeof reason === 'string' && { reason }),
  };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}
