/**
 * The API server as pods meet it: at an address of their network, by TLS, with the tokens of service accounts, which may do
 * what their roles allow.
 */
import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createServer, type Server } from 'node:https';
import { join } from 'node:path';

import { AccountTokens } from '../../../apps/agent/account-tokens.fixture.ts';
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
  readonly #tokens: AccountTokens;
  readonly #server: Server;
  #relay: ChildProcess | undefined;

  private constructor(cluster: Cluster, directory: string) {
    this.#directory = directory;
    this.#tokens = new AccountTokens(cluster);
    this.#server = createServer(
      issueServerCertificate(this.#authority, [host], validity),
      this.#tokens.handle,
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
    mkdirSync(directory, { recursive: true });
    const files = { token: this.#tokens.issue(name), namespace, 'ca.crt': this.#authority.cert };
    for (const [file, text] of Object.entries(files)) writeFileSync(join(directory, file), text);
    return directory;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#relay?.kill('SIGKILL');
    const closed = once(this.#server.close(), 'close');
    this.#server.closeAllConnections();
    this.#tokens[Symbol.dispose]();
    await closed;
  }
}
