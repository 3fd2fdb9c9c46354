// The whole server on a free port, and who talks to it: kubectl, and requests with any body.
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { Agent, request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { KubeConfig } from '@kubernetes/client-node';

import { createLogger } from '../../telemetry/log.ts';
import type { JsonObject } from '../../json/json.ts';
import { type ApiServer, startApiServer } from '../server.ts';

export interface Run {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Answer {
  readonly code: number;
  readonly json: JsonObject;
}

/** Disposing it stops the server, and removes its files and those of kubectl. */
export class Running implements AsyncDisposable {
  /** For files of the tests. */
  readonly folder = mkdtempSync(join(tmpdir(), 'rampart-protobuf-'));
  readonly #server: ApiServer;
  readonly #agent: Agent;
  readonly #token: string;

  private constructor(server: ApiServer) {
    this.#server = server;
    const config = new KubeConfig();
    config.loadFromFile(server.kubeconfig ?? '');
    const ca = Buffer.from(config.getCurrentCluster()?.caData ?? '', 'base64');
    this.#agent = new Agent({ ca, keepAlive: true });
    this.#token = config.getCurrentUser()?.token ?? '';
  }

  static async start(): Promise<Running> {
    return new Running(
      await startApiServer({
        dataDirectory: undefined,
        listen: { host: '127.0.0.1', port: 0 },
        version: '0.0.0',
        logger: createLogger({ level: 'silent' }),
      }),
    );
  }

  /** Never throws. */
  kubectl(...args: readonly string[]): Promise<Run> {
    return new Promise((resolve) => {
      const env = { PATH: process.env['PATH'], HOME: this.folder, KUBECONFIG: this.#server.kubeconfig };
      execFile('kubectl', args, { env, timeout: 60_000 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : 1, stdout, stderr });
      });
    });
  }

  call(
    method: string,
    path: string,
    contentType = 'application/json',
    body?: string | Buffer,
  ): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>();
    const headers = {
      authorization: `Bearer ${this.#token}`,
      accept: 'application/json',
      ...(body === undefined
        ? {}
        : { 'content-type': contentType, 'content-length': Buffer.byteLength(body) }),
    };
    const sent = request(
      new URL(path, this.#server.url),
      { method, headers, agent: this.#agent },
      (response) => {
        const parts: Buffer[] = [];
        response.on('data', (part: Buffer) => parts.push(part));
        response.on('error', reject);
        response.on('end', () => {
          const json = JSON.parse(Buffer.concat(parts).toString()) as JsonObject;
          resolve({ code: response.statusCode ?? 0, json });
        });
      },
    );
    sent.on('error', reject);
    sent.end(body);
    return promise;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    await this.#server[Symbol.asyncDispose]();
    rmSync(this.folder, { recursive: true, force: true });
  }
}

/** Without what differs each time: identities, versions, times, addresses of services, and the namespace. */
export function comparable(object: JsonObject): JsonObject {
  const text = JSON.stringify(object)
    .replaceAll(/[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}/g, 'an identity')
    .replaceAll(/\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z/g, 'a time')
    .replaceAll(/"10\.\d+\.\d+\.\d+"/g, '"an address"');
  const copy = JSON.parse(text) as JsonObject;
  const metadata = (copy['metadata'] ?? {}) as JsonObject;
  delete metadata['resourceVersion'];
  delete metadata['namespace'];
  return copy;
}
