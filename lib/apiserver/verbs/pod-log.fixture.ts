/** A whole API server whose logs are what a test wants. */
import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { Agent, request as send } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { createLogger } from '../../telemetry/log.ts';
import { type ApiServer, startApiServer } from '../server.ts';
import type { PodLogRequest, PodLogs } from './pod-logs.ts';

export interface Answer {
  readonly code: number;
  readonly type: string | undefined;
  readonly text: string;
}

/** A server whose logs are what a test wants. */
export class LogServer implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-pod-log-'));
  readonly agent = new Agent({ keepAlive: false });
  readonly asked: PodLogRequest[] = [];
  logs: PodLogs = async function* () {} as unknown as PodLogs;
  server: ApiServer | undefined;

  async start(withLogs = true): Promise<this> {
    this.server = await startApiServer({
      dataDirectory: this.directory,
      memory: true,
      listen: { host: '127.0.0.1', port: 0 },
      version: '0.0.0',
      logger: createLogger({ level: 'silent' }),
      ...(withLogs && {
        podLogs: (request: PodLogRequest) => {
          this.asked.push(request);
          return this.logs(request);
        },
      }),
    });
    return this;
  }

  async open(method: string, path: string, body?: object): Promise<IncomingMessage> {
    const request = send(`${this.server?.url}${path}`, {
      method,
      agent: this.agent,
      ca: readFileSync(join(this.directory, 'ca.crt')),
      headers: {
        authorization: `Bearer ${readFileSync(join(this.directory, 'token'), 'utf8').trim()}`,
        'content-type': 'application/json',
        accept: 'application/json, */*',
      },
    });
    request.on('error', () => undefined);
    request.end(body === undefined ? undefined : JSON.stringify(body));
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return response;
  }

  async ask(query: string, pod = 'web'): Promise<Answer> {
    const response = await this.open('GET', `/api/v1/namespaces/default/pods/${pod}/log${query}`);
    return {
      code: response.statusCode ?? 0,
      type: response.headers['content-type'],
      text: await text(response),
    };
  }

  async message(query: string, code: number, reason: string, pod = 'web'): Promise<string> {
    const answer = await this.ask(query, pod);
    assert.equal(answer.code, code, answer.text);
    const status = JSON.parse(answer.text) as { reason: string; message: string };
    assert.equal(status.reason, reason);
    return status.message;
  }

  async createPod(name: string, spec: object, status: object = {}): Promise<void> {
    const metadata = { name, namespace: 'default' };
    const pods = '/api/v1/namespaces/default/pods';
    const created = await this.open('POST', pods, { apiVersion: 'v1', kind: 'Pod', metadata, spec });
    assert.equal(created.statusCode, 201, await text(created));
    const updated = await this.open('PUT', `${pods}/${name}/status`, {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata,
      spec,
      status,
    });
    assert.equal(updated.statusCode, 200, await text(updated));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.agent.destroy();
    await this.server?.[Symbol.asyncDispose]();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export const container = (name: string) => ({ name, image: 'a' });
export const running = (name: string, more: object = {}) => ({
  name,
  image: 'a',
  imageID: '',
  ready: true,
  restartCount: 0,
  containerID: `containerd://${name}-now`,
  state: { running: {} },
  ...more,
});
export const terminated = (containerID: string) => ({
  terminated: { exitCode: 1, ...(containerID && { containerID }) },
});
