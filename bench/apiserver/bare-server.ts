/**
 * The baseline for comparisons: node:https with the same certificate, which answers at once.
 *
 * As a program (`node bare-server.ts KEY CERTIFICATE [LIST]`) it is that server: it answers a POST with its
 * body, parsed and written again, and a GET with the file LIST.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { createInterface } from 'node:readline';

import type { Endpoint } from './load-connection.ts';
import type { ServerProcess } from './server-process.ts';

/** Dispose it to stop it. */
export class BareServer implements AsyncDisposable {
  readonly endpoint: Endpoint;
  readonly #child: ChildProcess;

  private constructor(endpoint: Endpoint, child: ChildProcess) {
    this.endpoint = endpoint;
    this.#child = child;
  }

  /** @param list the file that GETs are answered with. */
  static async start(like: ServerProcess, signal: AbortSignal, list?: string): Promise<BareServer> {
    const { key, certificate, endpoint } = like.tls;
    const args = [import.meta.filename, key, certificate, ...(list === undefined ? [] : [list])];
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'pipe', 'inherit'] });
    const [port] = (await once(createInterface({ input: child.stdout }), 'line', { signal })) as [string];
    return new BareServer({ ...endpoint, port: Number(port) }, child);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const exited = once(this.#child, 'exit');
    this.#child.kill('SIGTERM');
    await exited;
  }
}

if (import.meta.main) {
  const [key = '', certificate = '', list] = process.argv.slice(2);
  const body = list === undefined ? Buffer.alloc(0) : readFileSync(list);
  const server = createServer(
    { key: readFileSync(key), cert: readFileSync(certificate) },
    (request, response) => {
      const headers = { 'content-type': 'application/json' };
      if (request.method === 'GET') {
        response.writeHead(200, { ...headers, 'content-length': body.length }).end(body);
        return;
      }
      const chunks: Buffer[] = [];
      request.on('data', (chunk: Buffer) => chunks.push(chunk));
      request.on('end', () => {
        const text = JSON.stringify(JSON.parse(Buffer.concat(chunks).toString()));
        response.writeHead(201, { ...headers, 'content-length': Buffer.byteLength(text) }).end(text);
      });
    },
  );
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
}
