/**
 * In front of the API server of a {@link Cluster}, for tests: the tokens of service accounts, which may do what their roles allow, and
 * TokenRequests.
 */
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, request } from 'node:https';
import type { AddressInfo } from 'node:net';

import { parse } from 'yaml';

import { systemNamespace } from '../../guard/guard.ts';
import { StoredCredentials } from '../../lib/kube/access/credentials.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { createServer } from '../../lib/net/node-http.ts';
import type { Cluster } from './deploy.fixture.ts';

interface Kubeconfig {
  readonly clusters: [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } },
  ];
  readonly users: [{ readonly user: { readonly token: string } }];
}

const tokenPath = new RegExp(`^/api/v1/namespaces/${systemNamespace}/serviceaccounts/([^/]+)/token$`);

export class AccountTokens implements Disposable {
  /** The accounts that tokens were requested of, in their order. */
  readonly requested: string[] = [];
  readonly #cluster: Cluster;
  readonly #server: URL;
  readonly #administrator: string;
  readonly #agent: Agent;
  readonly #names = new Map<string, string>();

  constructor(cluster: Cluster) {
    this.#cluster = cluster;
    const config = parse(readFileSync(cluster.server.kubeconfig ?? '', 'utf8')) as Kubeconfig;
    const { server, 'certificate-authority-data': ca } = config.clusters[0].cluster;
    this.#server = new URL(server);
    this.#administrator = config.users[0].user.token;
    this.#agent = new Agent({ keepAlive: true, ca: Buffer.from(ca, 'base64') });
  }

  issue(name: string): string {
    const token = randomBytes(16).toString('hex');
    this.#names.set(`Bearer ${token}`, name);
    return token;
  }

  /** Answers a request with a token, by what the API answers to that account. */
  readonly handle = (asked: IncomingMessage, answer: ServerResponse): void => {
    const name = this.#names.get(asked.headers.authorization ?? '');
    const [, account] = tokenPath.exec(asked.url ?? '') ?? [];
    if (name === undefined) answer.writeHead(401).end();
    else if (account !== undefined && asked.method === 'POST') this.#request(name, account, asked, answer);
    else this.#forward(name, asked, answer);
  };

  [Symbol.dispose](): void {
    this.#agent.destroy();
  }

  #request(name: string, account: string, asked: IncomingMessage, answer: ServerResponse): void {
    asked.resume();
    const refusal = this.#cluster.refusalOfToken(name, account);
    const respond = (code: number, body: object): void =>
      void answer.writeHead(code, { 'content-type': 'application/json' }).end(JSON.stringify(body));
    if (refusal !== undefined) {
      respond(403, { kind: 'Status', code: 403, reason: 'Forbidden', message: refusal });
      return;
    }
    this.requested.push(account);
    respond(201, {
      ...{ apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest' },
      spec: { expirationSeconds: 600 },
      status: { token: this.issue(account) },
    });
  }

  /** `Cluster` identifies clients by the user agent. */
  #forward(name: string, asked: IncomingMessage, answer: ServerResponse): void {
    const { method, url, headers } = asked;
    const authorization = `Bearer ${this.#administrator}`;
    const { hostname: host, port } = this.#server;
    const passed = request(
      {
        ...{ agent: this.#agent, host, port, method, path: url },
        headers: { ...headers, authorization, 'user-agent': name },
      },
      (got) => {
        answer.writeHead(got.statusCode ?? 502, got.headers);
        answer.flushHeaders();
        got.pipe(answer);
        got.on('error', () => answer.destroy());
      },
    );
    passed.on('error', () => answer.destroy());
    answer.on('close', () => passed.destroy());
    asked.pipe(passed);
  }
}

/** The API server as service accounts meet it, on loopback. Disposing it ends all connections. */
export class AccountApi implements AsyncDisposable {
  readonly tokens: AccountTokens;
  readonly #server: ReturnType<typeof createServer>;
  readonly #stack = new DisposableStack();

  private constructor(cluster: Cluster) {
    this.tokens = this.#stack.use(new AccountTokens(cluster));
    this.#server = createServer(this.tokens.handle);
  }

  static async start(cluster: Cluster): Promise<AccountApi> {
    const api = new AccountApi(cluster);
    await once(api.#server.listen(0, '127.0.0.1'), 'listening');
    return api;
  }

  clientOf(name: string): KubeClient {
    const { port } = this.#server.address() as AddressInfo;
    const access = {
      server: new URL(`http://127.0.0.1:${port}`),
      credentials: new StoredCredentials({ token: { value: this.tokens.issue(name) } }),
      namespace: systemNamespace,
    };
    return this.#stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const closed = once(this.#server.close(), 'close');
    this.#server.closeAllConnections();
    this.#stack.dispose();
    await closed;
  }
}
