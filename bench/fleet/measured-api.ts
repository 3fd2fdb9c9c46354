/** The API server of a fleet: one of our own in a process, or that of any kubeconfig; behind a proxy that counts and cuts. */
import { once } from 'node:events';
import { readFileSync, writeFileSync } from 'node:fs';
import type { IncomingMessage } from 'node:http';
import { get } from 'node:https';
import { isIP } from 'node:net';
import { dirname, join, resolve } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';

import { parse, stringify } from 'yaml';

import { type ClusterAccess, findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { cpuMs, residentMiB, ServerProcess } from '../apiserver/server-process.ts';
import { CountingProxy } from './counting-proxy.ts';

export interface ApiUsage {
  readonly cpuMs: number;
  readonly rssMiB: number;
  /** Through the proxy. */
  readonly bytes: number;
}

const apiProcess = join(import.meta.dirname, 'api-process.ts');
/** How long a foreign API is away. */
const AWAY_MS = 3000;

export class MeasuredApi implements AsyncDisposable {
  readonly #proxy = new CountingProxy();
  /** Undefined for a foreign server. */
  readonly #own: ServerProcess | undefined;
  /** Address of the server itself: requests from outside the fleet are not counted. */
  #direct: string;
  /** For the fleet. */
  readonly kubeconfig: string;

  private constructor(own: ServerProcess | undefined, direct: string, directory: string) {
    this.#own = own;
    this.#direct = direct;
    this.kubeconfig = join(directory, 'kubeconfig');
  }

  static async open(
    kubeconfig: string | undefined,
    directory: string,
    signal: AbortSignal,
  ): Promise<MeasuredApi> {
    const own = kubeconfig === undefined ? new ServerProcess([process.execPath, apiProcess]) : undefined;
    if (own !== undefined) await own.start(signal);
    const api = new MeasuredApi(own, own?.kubeconfig ?? kubeconfig ?? '', directory);
    await api.#openProxy();
    return api;
  }

  get isOwn(): boolean {
    return this.#own !== undefined;
  }

  /** Not through the proxy. Another one after a restart. */
  get access(): ClusterAccess {
    return findClusterAccess({ path: this.#direct });
  }

  /** Takes it away from all clients of the proxy; brings it back. One of ours is stopped and started on its data meanwhile. */
  async restart(signal: AbortSignal): Promise<void> {
    await this.#proxy.close();
    if (this.#own === undefined) await sleep(AWAY_MS, undefined, { signal });
    else {
      await this.#own.stop();
      await this.#own.start(signal);
      this.#direct = this.#own.kubeconfig;
    }
    await this.#openProxy();
  }

  /** For a foreign server, by its own metrics; CPU time counts from the start of its process. */
  async usage(signal: AbortSignal): Promise<ApiUsage> {
    const { bytes } = this.#proxy;
    if (this.#own !== undefined) {
      const { pid } = this.#own;
      return { cpuMs: cpuMs(pid), rssMiB: residentMiB(pid), bytes };
    }
    const metrics = await readMetrics(this.access, signal);
    const of = (name: string): number => Number(new RegExp(`^${name} (\\S+)$`, 'm').exec(metrics)?.[1]);
    return {
      cpuMs: of('process_cpu_seconds_total') * 1000,
      rssMiB: of('process_resident_memory_bytes') / 1024 / 1024,
      bytes,
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#proxy[Symbol.asyncDispose]();
    await this.#own?.[Symbol.asyncDispose]();
  }

  async #openProxy(): Promise<void> {
    const { server } = this.access;
    await this.#proxy.open({ host: hostOf(server), port: Number(server.port || 443) });
    writeFileSync(this.kubeconfig, throughProxy(this.#direct, this.#proxy.port), { mode: 0o600 });
  }
}

function hostOf({ hostname }: URL): string {
  return hostname.replace(/^\[(.*)\]$/, '$1');
}

/** A kubeconfig that leads to the proxy, with the name that the server's certificate has. */
function throughProxy(path: string, port: number): string {
  const config = parse(readFileSync(path, 'utf8')) as Record<string, unknown>;
  for (const { cluster } of config['clusters'] as readonly { cluster: Record<string, string> }[]) {
    const host = hostOf(new URL(cluster['server'] ?? ''));
    cluster['server'] = `https://127.0.0.1:${port}`;
    if (isIP(host) === 0) cluster['tls-server-name'] ??= host;
  }
  // Files are named from where the kubeconfig was.
  const atHome = (key: string, value: unknown): unknown =>
    /^(certificate-authority|client-certificate|client-key|tokenFile)$/.test(key) && typeof value === 'string'
      ? resolve(dirname(path), value)
      : value;
  return stringify(JSON.parse(JSON.stringify(config), atHome));
}

async function readMetrics(access: ClusterAccess, signal: AbortSignal): Promise<string> {
  const { authorization, certificate } = await access.credentials.current(signal);
  const request = get(new URL('/metrics', access.server), {
    ...certificate,
    ...(access.ca !== undefined && { ca: access.ca }),
    ...(access.serverName !== undefined && { servername: access.serverName }),
    headers: { ...(authorization !== undefined && { authorization }) },
    rejectUnauthorized: access.insecure !== true,
    signal,
  });
  const [response] = (await once(request, 'response')) as [IncomingMessage];
  const read = await text(response);
  if (response.statusCode !== 200) throw new Error(`/metrics answered ${response.statusCode}`);
  return read;
}
