/**
 * The receivers of reviews: `rampart policy-server`, run as users run it, and a server that does the least
 * that a webhook can do. Both have one CPU of the machine, if it has more, and the client has the others: the
 * kernel likes to wake the receiver on the CPU of the sender, and would let the client wait for the server
 * that it measures.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:https';
import type { AddressInfo } from 'node:net';
import { cpus, tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';

import { issueAuthority, issueServerCertificate } from '../../lib/x509/certificate.ts';
import type { Endpoint } from '../apiserver/load-connection.ts';
import { endProcess } from '../end-process.ts';
import { pinned } from '../pinned.ts';

const rampart = join(import.meta.dirname, '../../bin/rampart');
const END_WAIT_MS = 5000;

export interface WebhookProcess {
  readonly endpoint: Endpoint;
  readonly pid: number;
}

/** Dispose it to end both processes and remove their files. */
export class WebhookProcesses implements AsyncDisposable {
  readonly policyServer: WebhookProcess;
  readonly bare: WebhookProcess;
  readonly #stack: AsyncDisposableStack;

  private constructor(policyServer: WebhookProcess, bare: WebhookProcess, stack: AsyncDisposableStack) {
    this.policyServer = policyServer;
    this.bare = bare;
    this.#stack = stack;
  }

  /**
   * @param policies the contents of the policies file.
   * @throws {MissingPrograms} {Error} with what it printed if the policy server does not start.
   */
  static async start(policies: Readonly<Record<string, object>>): Promise<WebhookProcesses> {
    await using stack = new AsyncDisposableStack();
    const last = cpus().length - 1;
    if (last > 0) stack.use(pinned(`0-${last - 1}`));
    const directory = mkdtempSync(join(tmpdir(), 'rampart-bench-server-'));
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const authority = issueAuthority('bench', { now: new Date(), days: 1 });
    const { key, cert } = issueServerCertificate(authority, ['localhost'], { now: new Date(), days: 1 });
    const files = { policies: 'policies.yml', cert: 'tls.crt', key: 'tls.key' };
    writeFileSync(join(directory, files.policies), JSON.stringify(policies));
    writeFileSync(join(directory, files.key), key);
    writeFileSync(join(directory, files.cert), cert);
    const endpointAt = (port: number): Endpoint => ({
      host: '127.0.0.1',
      port,
      ca: authority.cert,
      token: '',
    });
    const run = (command: readonly string[]): ChildProcess => {
      const [program = '', ...args] = last > 0 ? ['taskset', '-c', String(last), ...command] : command;
      const child = spawn(program, args, {
        stdio: ['ignore', 'pipe', 'pipe'],
        env: { ...process.env, HOME: directory, KUBECONFIG: join(directory, 'none') },
      });
      stack.defer(() => endProcess(child, END_WAIT_MS));
      return child;
    };
    const paths = {
      '--policies': files.policies,
      '--policies-download-dir': '.',
      '--cert-file': files.cert,
      '--key-file': files.key,
    };
    const server = run([
      ...[rampart, 'policy-server', '--ignore-kubernetes-connection-failure'],
      ...Object.entries(paths).flatMap(([flag, file]) => [flag, join(directory, file)]),
      ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
    ]);
    const serverPort = await policyServerPort(server);
    const bare = run([
      process.execPath,
      import.meta.filename,
      join(directory, files.key),
      join(directory, files.cert),
    ]);
    bare.stderr?.pipe(process.stderr);
    if (bare.stdout === null) throw new Error('the bare server has no stdout');
    const [barePort] = (await once(createInterface({ input: bare.stdout }), 'line')) as [string];
    return new WebhookProcesses(
      { endpoint: endpointAt(serverPort), pid: server.pid ?? 0 },
      { endpoint: endpointAt(Number(barePort)), pid: bare.pid ?? 0 },
      stack.move(),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#stack.disposeAsync();
  }
}

async function policyServerPort({ stdout, stderr }: ChildProcess): Promise<number> {
  if (stderr === null) throw new Error('the policy server has no stderr');
  stdout?.resume();
  const printed: string[] = [];
  let port = 0;
  for await (const line of createInterface({ input: stderr })) {
    printed.push(line);
    port = Number(/"address":\{"host":"127\.0\.0\.1","port":(\d+)\}/.exec(line)?.[1] ?? port);
    if (!line.includes('ready: serving ')) continue;
    stderr.resume();
    return port;
  }
  throw new Error(`the policy server does not start:\n${printed.join('\n')}`);
}

/** `node webhook-processes.ts KEY CERTIFICATE`: reads the body, parses its JSON, and allows it. */
if (import.meta.main) {
  const [key = '', cert = ''] = process.argv.slice(2).map((path) => readFileSync(path, 'utf8'));
  const server = createServer({ key, cert }, (request, response) => {
    const chunks: Buffer[] = [];
    request.on('data', (chunk: Buffer) => chunks.push(chunk));
    request.on('end', () => {
      const review = JSON.parse(Buffer.concat(chunks).toString()) as { readonly request: { uid: string } };
      const { uid } = review.request;
      const text = JSON.stringify({
        ...{ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview' },
        response: { uid, allowed: true },
      });
      response
        .writeHead(200, { 'content-type': 'application/json', 'content-length': Buffer.byteLength(text) })
        .end(text);
    });
  });
  // Its connections wait for the turn of the other server.
  server.keepAliveTimeout = 100_000;
  server.listen(0, '127.0.0.1', () => console.log((server.address() as AddressInfo).port));
}
