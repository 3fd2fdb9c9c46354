/** A policy server on loopback, with certificates that can be replaced, and a client of it. */
import { mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { Agent, request as httpsRequest } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import type { TLSSocket } from 'node:tls';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';

import { issueAuthority, issueServerCertificate } from '../../../lib/x509/certificate.ts';
import type { Address } from '../../../lib/net/address.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { digestOf } from '../../../lib/oci/digest.ts';
import { podNamed, requestFor } from '../engine/requests.fixture.ts';
import type { PolicyRequest } from '../engine/evaluator.ts';
import { PolicyFindings } from '../findings/policy-findings.ts';
import { runPolicyServer, type PolicyServerOptions } from './run-policy-server.ts';

const policiesDirectory = join(import.meta.dirname, '../../../test/policies');

/** The URL of a policy that is committed with the tests: `labels.wapc`. */
export function modulePath(name: string): string {
  return `file://${join(policiesDirectory, `${name}.wasm`)}`;
}

/** A policy that refuses objects of a name. */
export const refusing = (name: string, more: object = {}): object => ({
  module: 'registry://registry.example/policies/cel-policy:v1',
  settings: {
    validations: [{ expression: `object.metadata.name != '${name}'`, message: `${name} is denied` }],
  },
  ...more,
});

export interface Answered {
  readonly status: number;
  /** Decoded. */
  readonly body: { readonly response?: Response; readonly [key: string]: unknown };
}

interface Response {
  readonly uid: string;
  readonly allowed: boolean;
  readonly status?: {
    readonly message?: string;
    readonly code?: number;
    readonly reason?: string;
    readonly details?: { readonly causes: readonly object[] };
  };
  readonly patch?: string;
  readonly patchType?: string;
  readonly warnings?: readonly string[];
  readonly auditAnnotations?: Readonly<Record<string, string>>;
}

/** As the API server sends it. */
export function review(request: Partial<PolicyRequest> = {}, podName = 'web'): object {
  return {
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: requestFor(podNamed(podName), request),
  };
}

export class ServerFixture implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-policy-server-'));
  /** Lines of findings. */
  readonly lines: string[] = [];
  readonly findings = new PolicyFindings({ sink: (line) => void this.lines.push(line) });
  readonly metrics: Awaited<ReturnType<typeof createMetrics>>;
  readonly #authority = issueAuthority('policy server', { now: new Date(), days: 2 });
  readonly #agent = new Agent({ keepAlive: true, ca: this.#authority.cert });
  readonly #stop = new AbortController();
  #address: Address = { host: '', port: 0 };
  #readiness: Address | undefined;
  #running: Promise<void> = Promise.resolve();

  private constructor(metrics: ServerFixture['metrics']) {
    this.metrics = metrics;
  }

  /** Starts with these policies, and waits until they can be asked. @throws what the server throws */
  static async start(policies: object, options: Partial<PolicyServerOptions> = {}): Promise<ServerFixture> {
    const fixture = new ServerFixture(await createMetrics());
    fixture.writePolicies(policies);
    fixture.writeCertificate('127.0.0.1');
    try {
      await fixture.#run(options);
      return fixture;
    } catch (error) {
      await fixture[Symbol.asyncDispose]();
      throw error;
    }
  }

  get readinessUrl(): string {
    return `http://127.0.0.1:${this.#readiness?.port}/readiness`;
  }

  get address(): Address {
    return this.#address;
  }

  get agent(): Agent {
    return this.#agent;
  }

  /** As a person or a ConfigMap does it: the whole file at once. */
  writePolicies(policies: object | string): void {
    this.#replace('policies.yml', typeof policies === 'string' ? policies : JSON.stringify(policies));
  }

  writeCertificate(...hosts: string[]): void {
    const { key, cert } = issueServerCertificate(this.#authority, hosts, { now: new Date(), days: 1 });
    this.#replace('tls.key', key);
    this.#replace('tls.crt', cert);
  }

  async post(path: string, body: object | string): Promise<Answered> {
    const { status, text: said } = await this.ask(
      'POST',
      path,
      typeof body === 'string' ? body : JSON.stringify(body),
    );
    return { status, body: JSON.parse(said) as Answered['body'] };
  }

  async ask(
    method: string,
    path: string,
    body?: string,
  ): Promise<{ readonly status: number; readonly text: string }> {
    const { host, port } = this.#address;
    const headers = { 'content-type': 'application/json' };
    const request = httpsRequest({ host, port, method, path, agent: this.#agent, headers });
    // A server that has answered need not read the rest.
    request.on('error', () => undefined);
    request.end(body);
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    return { status: response.statusCode ?? 0, text: await text(response) };
  }

  /** The serial number of the certificate that a new connection gets. */
  async serial(): Promise<string> {
    const { host, port } = this.#address;
    const request = httpsRequest({ host, port, path: '/readiness', agent: false, ca: this.#authority.cert });
    request.end();
    const [response] = (await once(request, 'response')) as [IncomingMessage];
    const { serialNumber } = (response.socket as TLSSocket).getPeerCertificate();
    response.resume();
    await once(response, 'end');
    return serialNumber;
  }

  /** Ends the server, and waits for it. @throws what the server threw */
  async stop(): Promise<void> {
    this.#stop.abort();
    await this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#agent.destroy();
    this.#stop.abort();
    await this.#running.catch(() => undefined);
    rmSync(this.directory, { recursive: true, force: true });
  }

  async #run(options: Partial<PolicyServerOptions>): Promise<void> {
    const { promise: ready, resolve } = Promise.withResolvers<void>();
    const file = (name: string): string => join(this.directory, name);
    this.#running = runPolicyServer({
      policiesFile: file('policies.yml'),
      address: { host: '127.0.0.1', port: 0 },
      readinessAddress: { host: '127.0.0.1', port: 0 },
      certificates: {
        of: 'the policy server',
        certFile: file('tls.crt'),
        keyFile: file('tls.key'),
        clientCaFiles: [],
      },
      modules: {
        fetch: async (url) => {
          const bytes = readFileSync(fileURLToPath(url));
          return { bytes, digest: digestOf(bytes) };
        },
      },
      hostCalls: () => ({ call: () => Promise.reject(new Error('not granted')) }),
      deadlineMs: 2000,
      continueOnErrors: false,
      pollMs: 20,
      metrics: this.metrics,
      findings: this.findings,
      logger: createLogger({ level: 'silent' }),
      signal: this.#stop.signal,
      ...options,
      listening: ({ address, readinessAddress }) => {
        this.#address = address;
        this.#readiness = readinessAddress;
      },
      ready: () => resolve(),
    });
    await Promise.race([ready, this.#running]);
  }

  #replace(name: string, content: string): void {
    const path = join(this.directory, name);
    writeFileSync(`${path}.new`, content);
    renameSync(`${path}.new`, path);
  }
}
