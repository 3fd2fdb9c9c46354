/**
 * The embedded API server for tests of code that uses it, with the custom resources of a guard, and the parts
 * of the product that a test runs against it.
 */
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { KubeClient } from '../kube/client/client.ts';
import { isAlreadyExists } from '../kube/client/client-errors.ts';
import { findClusterAccess } from '../kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../kube/crd/established.ts';
import { crdManifest } from '../kube/crd/manifest.ts';
import type { Resource } from '../kube/crd/resource.ts';
import { namespaces } from '../kube/object/object.ts';
import { createLogger, type Logger } from '../telemetry/log.ts';
import { until } from '../testing/until.fixture.ts';
import { type ApiServer, startApiServer } from './server.ts';
import type { Admission } from './verbs/admission.ts';

/** Longer than a resource takes to be served. */
const PATIENCE_MS = 30_000;

interface TestApiOptions {
  /** Prefix of the directory's name, after `rampart-`. */
  readonly name: string;
  /** Objects in memory: quicker, but {@link TestApi.startApi} begins with nothing. Default: false. */
  readonly memory?: boolean;
  /** Asked about writes, until the API is stopped. */
  readonly admission?: readonly Admission[];
}

/** A server that runs, and what it was started with. */
export interface StartedApi {
  readonly server: ApiServer;
  readonly directory: string;
  readonly memory: boolean;
}

/** A directory, and an API server that keeps its data in it. */
export async function startTestApi({
  name,
  memory = false,
  admission = [],
}: TestApiOptions): Promise<StartedApi> {
  const directory = mkdtempSync(join(tmpdir(), `rampart-${name}-`));
  return { server: await startServer({ directory, memory, admission }, 0), directory, memory };
}

/** Disposing it stops all that was started and removes all that was made. */
export class TestApi implements AsyncDisposable {
  /** For whatever the test wants to have gone at the end; `api` in it is the server's. */
  readonly directory: string;
  readonly client: KubeClient;
  readonly kubeconfig: string;
  readonly logger: Logger = createLogger({
    level: (process.env['RAMPART_LOG'] ?? 'silent') as 'silent',
    json: true,
  });
  #server: ApiServer | undefined;
  readonly #memory: boolean;
  readonly #port: number;
  readonly #stack = new AsyncDisposableStack();

  constructor({ server, directory, memory }: StartedApi) {
    this.directory = directory;
    this.#server = server;
    this.#memory = memory;
    this.#port = (server.address as { readonly port: number }).port;
    this.kubeconfig = server.kubeconfig ?? '';
    this.client = this.newClient();
  }

  newClient(): KubeClient {
    const access = findClusterAccess({ path: this.kubeconfig });
    return this.#stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
  }

  /** The API cannot be reached from now on. */
  async stopApi(): Promise<void> {
    await this.#server?.[Symbol.asyncDispose]();
    this.#server = undefined;
  }

  async startApi(): Promise<void> {
    this.#server = await startServer({ directory: this.directory, memory: this.#memory }, this.#port);
  }

  async createNamespace(name: string): Promise<void> {
    await this.client.create(namespaces, { metadata: { name } }).catch((error: unknown) => {
      if (!isAlreadyExists(error)) throw error;
    });
  }

  /** The CustomResourceDefinitions of these, once they are served. */
  async createDefinitions(resources: readonly Resource[]): Promise<void> {
    const manifests = resources.map(crdManifest);
    for (const one of manifests) await this.client.create(customResourceDefinitions, one as never);
    const signal = AbortSignal.timeout(PATIENCE_MS);
    for (const { metadata } of manifests)
      await established(this.client, metadata.name, { timeoutMs: PATIENCE_MS, signal });
  }

  /** Runs a part of the product; returns what ends it, as SIGTERM would. A failure is thrown there. */
  protected run(part: (signal: AbortSignal) => Promise<void>): () => Promise<void> {
    return this.#begin(part).end;
  }

  /** As {@link run}, once the part is ready. @throws what it failed with before */
  protected async runReady(
    part: (signal: AbortSignal) => Promise<void>,
    isReady: () => boolean | undefined,
  ): Promise<() => Promise<void>> {
    const { running, end } = this.#begin(part);
    let isOver = false;
    const over = (): void => void (isOver = true);
    running.then(over, over);
    await until('the part is ready', () => isOver || isReady());
    if (isOver) await running;
    return end;
  }

  #begin(part: (signal: AbortSignal) => Promise<void>): { running: Promise<void>; end: () => Promise<void> } {
    const stop = new AbortController();
    const running = part(stop.signal);
    // Told by whoever ends it.
    running.catch(() => undefined);
    const end = async (): Promise<void> => {
      stop.abort();
      await running;
    };
    this.#stack.defer(end);
    return { running, end };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      await this.#stack.disposeAsync();
    } finally {
      await this.stopApi();
      rmSync(this.directory, { recursive: true, force: true });
    }
  }
}

function startServer(
  {
    directory,
    memory,
    admission = [],
  }: {
    readonly directory: string;
    readonly memory: boolean;
    readonly admission?: readonly Admission[];
  },
  port: number,
): Promise<ApiServer> {
  return startApiServer({
    dataDirectory: join(directory, 'api'),
    memory,
    listen: { host: '127.0.0.1', port },
    version: '0.0.0',
    admission,
    logger: createLogger({ level: 'silent' }),
  });
}
