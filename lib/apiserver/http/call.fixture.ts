/** One request to a server of the tests, with its token. */
import type { Agent, IncomingHttpHeaders } from 'node:http';

import { request as send } from '../../net/node-http.ts';
import type { HttpServer } from './server.ts';
import { token } from './server.fixture.ts';

export interface Answer {
  readonly code: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: Buffer;
  readonly json: Record<string, unknown>;
}

export interface Call {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: string | Buffer;
  readonly agent?: Agent;
}

export async function call({ address }: HttpServer, path: string, options: Call = {}): Promise<Answer> {
  const { method = 'GET', headers = {}, body, agent } = options;
  const { promise, resolve, reject } = Promise.withResolvers<Answer>();
  const request = send(
    { ...address, path, method, agent, headers: { authorization: `Bearer ${token}`, ...headers } },
    (response) => {
      const chunks: Buffer[] = [];
      response.on('data', (chunk: Buffer) => void chunks.push(chunk));
      response.once('error', reject);
      response.once('end', () => {
        const whole = Buffer.concat(chunks);
        const isJson = response.headers['content-type'] === 'application/json' && whole[0] === 0x7b;
        resolve({
          code: response.statusCode ?? 0,
          headers: response.headers,
          body: whole,
          json: isJson ? (JSON.parse(whole.toString()) as Record<string, unknown>) : {},
        });
      });
    },
  );
  request.once('error', reject);
  // node's client sends the length of a DELETE's body only on request.
  if (method === 'DELETE' && body !== undefined) request.setHeader('content-length', Buffer.byteLength(body));
  request.end(body);
  return promise;
}

/** Where the pods of a namespace are. */
export const inA = '/api/v1/namespaces/a/pods';
export const json = { 'content-type': 'application/json' };
