/** The embedded API with policies that admit, as standalone has them; for tests. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { type ApiServer, startApiServer } from '../../../lib/apiserver/server.ts';
import { LateAdmission } from '../../../lib/apiserver/verbs/late-admission.ts';
import { runGivenCluster } from '../../../guard/part.fixture.ts';
import { KubeClient } from '../../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../../lib/kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../../../lib/kube/crd/established.ts';
import { crdManifest } from '../../../lib/kube/crd/manifest.ts';
import { type Namespace, namespaces } from '../../../lib/kube/object/object.ts';
import { createLogger } from '../../../lib/telemetry/log.ts';
import { type Clock, systemClock } from '../../../lib/time/clock.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { PolicyFindings } from '../findings/policy-findings.ts';
import { policyAudit } from '../guard.ts';
import type { Modules } from '../modules/modules.ts';
import { openModules } from '../modules/open-modules.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import { KeptPolicies } from '../policies/kept-policies.ts';
import { reportedPolicy } from '../policies/policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { PolicyAdmission } from './policy-admission.ts';

const PATIENCE_MS = 30_000;

const logger = createLogger({ level: 'silent' });

export interface RunOptions {
  /** Where modules come from. Default: where they say. */
  readonly fetch?: Modules['fetch'];
  /** Where policies are kept for the next start. Default: nowhere. */
  readonly keptIn?: string;
  readonly clock?: Clock;
}

export class AdmittingApi implements AsyncDisposable {
  readonly kubeconfig: string;
  readonly client: KubeClient;
  /** Lines of findings. */
  readonly lines: string[] = [];
  readonly #late: LateAdmission;
  readonly #answers: { readonly policy: string; readonly said: string }[] = [];
  readonly #stack: AsyncDisposableStack;
  #policies: PolicySet | undefined;
  #end = new AbortController();
  #running: Promise<void> = Promise.resolve();

  private constructor(
    server: ApiServer,
    client: KubeClient,
    late: LateAdmission,
    stack: AsyncDisposableStack,
  ) {
    this.kubeconfig = server.kubeconfig ?? '';
    this.client = client;
    this.#late = late;
    this.#stack = stack;
    stack.defer(() => this.stop());
  }

  static async start(options: RunOptions = {}): Promise<AdmittingApi> {
    await using stack = new AsyncDisposableStack();
    const directory = mkdtempSync(join(tmpdir(), 'rampart-admitting-api-'));
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const late = new LateAdmission({
      passes: ({ subresource, namespace }) =>
        subresource?.name === 'status' || namespace === 'rampart-system',
    });
    const server = stack.use(
      await startApiServer({
        dataDirectory: join(directory, 'api'),
        memory: true,
        listen: { host: '127.0.0.1', port: 0 },
        version: '0.0.0',
        admission: [late],
        logger,
      }),
    );
    const access = findClusterAccess({ path: server.kubeconfig ?? '' });
    const client = stack.use(new KubeClient(access, { perSecond: 1000, burst: 1000 }));
    const signal = AbortSignal.timeout(PATIENCE_MS);
    for (const resource of policyAudit.resources) {
      await client.create(customResourceDefinitions, crdManifest(resource) as never);
      const name = `${resource.plural}.${resource.group}`;
      await established(client, name, { timeoutMs: PATIENCE_MS, signal });
    }
    await client.create(namespaces, { metadata: { name: 'rampart-system' } });
    const api = new AdmittingApi(server, client, late, stack.move());
    await api.restart(options);
    return api;
  }

  get policies(): PolicySet {
    if (this.#policies === undefined) throw new TypeError('no policies run');
    return this.#policies;
  }

  /** Ends what evaluates policies, if it runs: writes wait from then on. */
  async stop(): Promise<void> {
    this.#end.abort();
    await this.#running;
  }

  /** Policies are evaluated by another process than before, as after a restart. Returns when writes are admitted. */
  async restart({ keptIn, ...given }: RunOptions = {}): Promise<void> {
    await this.stop();
    const { client } = this;
    const directory = mkdtempSync(join(tmpdir(), 'rampart-modules-'));
    const started = Promise.withResolvers<PolicySet>();
    const end = (this.#end = new AbortController());
    this.#late.expect('policy-audit');
    this.#running = runGivenCluster(
      policyAudit,
      async (context) => {
        await using modules = await openModules({ cacheDirectory: directory, logger });
        const findings = new PolicyFindings({ sink: context.sink });
        const asked = new AskedCluster(new KubeClusterReader(client));
        const spaces = context.cache<Namespace>({ type: namespaces });
        const fetch = given.fetch ?? ((url, options) => modules.fetch(url, options));
        const own = {
          ...{ fetch, registry: () => modules.registry(), trustRoot: () => modules.trustRoot() },
        };
        const policies = new PolicySet({
          context,
          runtimes: runtimesOf({ modules: () => own, client, logger, asked }),
          writesStatus: true,
          findings,
          kept:
            keptIn === undefined
              ? undefined
              : await KeptPolicies.open({ directory: keptIn, demands: '', logger }),
          clock: given.clock ?? systemClock,
        });
        const exceptions = new ExceptionSet({ context, writesStatus: true });
        const ended = Promise.all([policies.run(), exceptions.run()]);
        await Promise.race([Promise.all([policies.decided, exceptions.complete, spaces.synced]), ended]);
        const admission = new PolicyAdmission({
          policies: () => policies.enforced,
          exceptions,
          namespaceLabels: (name) => spaces.get(name)?.metadata.labels,
          onAnswer: ({ id }, answer, operation) =>
            void this.#answers.push({ policy: id, said: `${operation} ${answer}` }),
          onFinding: (policy, write) => findings.write(reportedPolicy(policy), write),
        });
        using _door = this.#late.use('policy-audit', admission);
        started.resolve(policies);
        await ended;
      },
      { client, signal: end.signal, logger, sink: (line) => void this.lines.push(line) },
    ).finally(() => rmSync(directory, { recursive: true, force: true }));
    this.#running.catch(started.reject);
    this.#policies = await started.promise;
  }

  /** The verdicts of a policy on writes, in order. */
  answers(policy: string): string[] {
    return this.#answers.filter((one) => one.policy === policy).map(({ said }) => said);
  }

  async kubectl(
    home: string,
    words: readonly string[],
  ): Promise<{ readonly code: number | null; readonly out: string; readonly error: string }> {
    const child = spawn('kubectl', words, {
      env: { ...process.env, KUBECONFIG: this.kubeconfig, HOME: home },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const ended = once(child, 'close');
    const [out, error, [code]] = await Promise.all([text(child.stdout), text(child.stderr), ended]);
    return { code: code as number | null, out: out.trim(), error: error.trim() };
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#stack.disposeAsync();
  }
}
