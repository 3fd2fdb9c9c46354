/**
 * The API server as pods meet it: at an address of their network, by TLS, with the tokens of service accounts, which may do
 * what their roles allow.
 */
import type { ChildProcess } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { Agent, createServer, request, type Server } from 'node:https';
import { join } from 'node:path';

import { parse } from 'yaml';

import { issueAuthority, issueServerCertificate } from '../../../lib/x509/certificate.ts';
import type { Cluster } from '../../../apps/agent/deploy.fixture.ts';
import type { Lab } from '../lab.ts';

/** The lab's bridge: the first address of its network, reached from every pod. */
const host = '192.168.0.1';
const port = 6443;
const validity = { now: new Date(), days: 2 };

/** In the lab's network; connects to the unix socket that is its argument. A socket in a file system has no network. */
const relay = `
const net = require('node:net');
net.createServer((pod) => {
  const api = net.connect(process.argv[1]);
  pod.pipe(api).pipe(pod);
  pod.on('error', () => api.destroy());
  api.on('error', () => pod.destroy());
}).listen(${port}, '0.0.0.0', () => console.log('listening'));
`;

/** Disposing it ends all connections. */
export class ServiceAccounts implements AsyncDisposable {
  readonly api = { host, port };
  readonly #directory: string;
  readonly #authority = issueAuthority('cluster', validity);
  readonly #names = new Map<string, string>();
  readonly #server: Server;
  readonly #agent: Agent;
  #relay: ChildProcess | undefined;

  private constructor(cluster: Cluster, directory: string) {
    this.#directory = directory;
    const config = parse(readFileSync(cluster.server.kubeconfig ?? '', 'utf8')) as Kubeconfig;
    const { server, 'certificate-authority-data': ca } = config.clusters[0].cluster;
    const { token } = config.users[0].user;
    this.#agent = new Agent({ keepAlive: true, ca: Buffer.from(ca, 'base64') });
    this.#server = createServer(
      issueServerCertificate(this.#authority, [host], validity),
      (asked, answer) => {
        const name = this.#names.get(asked.headers.authorization ?? '');
        if (name === undefined) answer.writeHead(401).end();
        else forward(asked, answer, new URL(server), this.#agent, { token, name });
      },
    );
  }

  static async start(cluster: Cluster, lab: Lab): Promise<ServiceAccounts> {
    const accounts = new ServiceAccounts(cluster, cluster.directory);
    const socket = join(cluster.directory, 'api.sock');
    await once(accounts.#server.listen(socket), 'listening');
    const child = lab.spawn([process.execPath, '--eval', relay, socket], {
      stdio: ['ignore', 'pipe', 'inherit'],
    });
    accounts.#relay = child;
    if (child.stdout !== null) await once(child.stdout, 'data');
    return accounts;
  }

  /** The directory that kubelet mounts into a pod of this service account. */
  directoryOf(name: string, namespace: string): string {
    const directory = join(this.#directory, name);
    const token = randomBytes(16).toString('hex');
    this.#names.set(`Bearer ${token}`, name);
    mkdirSync(directory, { recursive: true });
    const files = { token, namespace, 'ca.crt': this.#authority.cert };
    for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text);
    return directory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#relay?.kill('SIGKILL');
    const closed = once(this.#server.close(), 'close');
    this.#server.closeAllConnections();
    this.#agent.destroy();
    await closed;
  }
}

interface Kubeconfig {
  readonly clusters: [
    { readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string } },
  ];
  readonly users: [{ readonly user: { readonly token: string } }];
}

/** `Cluster` tells who asks by the user agent. */
function forward(
  asked: IncomingMessage,
  answer: ServerResponse,
  server: URL,
  agent: Agent,
  { token, name }: { readonly token: string; readonly name: string },
): void {
  const { method, url, headers } = asked;
  const passed = request(
    {
      ...{ agent, host: server.hostname, port: server.port, method, path: url },
      headers: { ...headers, authorization: `Bearer ${token}`, 'user-agent': name },
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
