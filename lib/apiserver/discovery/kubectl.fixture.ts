/** Serves routes with a plain HTTP server, and runs kubectl against it. */
import { execFile, execFileSync } from 'node:child_process';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { createServer } from '../../net/node-http.ts';
import type { PlainRequest, PlainRoute } from '../http/plain.ts';
import { ApiError, apiErrors } from '../resources/api-error.ts';

/**
 * Why the tests of kubectl cannot run here; `false` if they can. They check requests that older releases do
 * not make.
 */
export const noKubectl: string | false = (() => {
  try {
    const text = execFileSync('kubectl', ['version', '--client', '--output=json'], { encoding: 'utf8' });
    const { clientVersion } = JSON.parse(text) as { clientVersion: { minor: string } };
    const minor = Number.parseInt(clientVersion.minor, 10);
    return minor >= 30 ? false : `kubectl is 1.${minor}, which is before 1.30`;
  } catch {
    return 'there is no kubectl on this machine';
  }
})();

export interface Output {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

export interface Served extends AsyncDisposable {
  readonly url: string;
  /** `GET /apis application/json`, with the Accept header. */
  readonly requests: string[];
  /** Bodies of PATCH requests. */
  readonly patches: string[];
  readonly kubeconfig: string;
  /** Never throws. Keeps its caches where they are removed with the server. */
  kubectl(...args: readonly string[]): Promise<Output>;
}

/** Starts a server on a free port of the loopback. Who calls disposes it. */
export async function serve(routes: readonly PlainRoute[]): Promise<Served> {
  const requests: string[] = [];
  const patches: string[] = [];
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? '/', 'http://localhost');
    const { method = 'GET', headers } = request;
    requests.push(`${method} ${url.pathname}${url.search} ${headers.accept ?? ''}`);
    const {
      code,
      headers: answered,
      body,
    } = answerTo(routes, {
      method,
      path: decodeURIComponent(url.pathname),
      query: url.searchParams,
      headers,
    });
    let sent = '';
    request.setEncoding('utf8');
    request.on('data', (part: string) => (sent += part));
    request.on('end', () => {
      if (method === 'PATCH') patches.push(sent);
      response.writeHead(code, answered);
      response.end(body);
    });
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const folder = await mkdtemp(join(tmpdir(), 'rampart-kubectl-'));
  const kubeconfig = join(folder, 'config');
  await writeFile(kubeconfig, JSON.stringify(configOf(url)));
  const run = (args: readonly string[]): Promise<Output> =>
    new Promise((resolve) => {
      const env = { PATH: process.env['PATH'], HOME: folder, KUBECONFIG: kubeconfig };
      const all = ['--cache-dir', join(folder, 'cache'), ...args];
      execFile('kubectl', all, { env, timeout: 60_000 }, (error, stdout, stderr) => {
        resolve({ code: error === null ? 0 : 1, stdout, stderr });
      });
    });
  return {
    url,
    requests,
    patches,
    kubeconfig,
    kubectl: (...args) => run(args),
    async [Symbol.asyncDispose]() {
      const closed = new Promise<void>((resolve) => server.close(() => resolve()));
      server.closeAllConnections();
      await closed;
      await rm(folder, { recursive: true, force: true });
    },
  };
}

function answerTo(routes: readonly PlainRoute[], request: PlainRequest): ReturnType<PlainRoute> & object {
  try {
    for (const route of routes) {
      const answer = route(request);
      if (answer !== undefined) return answer;
    }
    throw apiErrors.noRoute();
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    const { status } = error;
    return {
      code: status.code,
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify(status),
    };
  }
}

function configOf(server: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'here', cluster: { server, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'nobody', user: {} }],
    contexts: [{ name: 'here', context: { cluster: 'here', user: 'nobody' } }],
    'current-context': 'here',
  };
}
