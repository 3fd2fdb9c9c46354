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
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { PolicyFindings } from '../findings/policy-findings.ts';
import { policyAudit } from '../guard.ts';
import { openModules } from '../modules/open-modules.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import { toldPolicy } from '../policies/policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { PolicyAdmission } from './policy-admission.ts';

const PATIENCE_MS = 30_000;

export class AdmittingApi implements AsyncDisposable {
  readonly kubeconfig: string;
  readonly client: KubeClient;
  readonly policies: PolicySet;
  /** Lines of findings. */
  readonly lines: readonly string[];
  readonly #answers: { readonly policy: string; readonly said: string }[];
  readonly #stack: AsyncDisposableStack;

  private constructor(
    server: ApiServer,
    client: KubeClient,
    policies: PolicySet,
    answers: { readonly policy: string; readonly said: string }[],
    lines: readonly string[],
    stack: AsyncDisposableStack,
  ) {
    this.kubeconfig = server.kubeconfig ?? '';
    this.client = client;
    this.policies = policies;
    this.#answers = answers;
    this.lines = lines;
    this.#stack = stack;
  }

  static async start(): Promise<AdmittingApi> {
    await using stack = new AsyncDisposableStack();
    const directory = mkdtempSync(join(tmpdir(), 'rampart-admitting-api-'));
    stack.defer(() => rmSync(directory, { recursive: true, force: true }));
    const logger = createLogger({ level: 'silent' });
    const late = new LateAdmission({ passes: () => false });
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
    const modules = stack.use(await openModules({ cacheDirectory: join(directory, 'modules'), logger }));
    const started = Promise.withResolvers<PolicySet>();
    const stop = new AbortController();
    const answers: { policy: string; said: string }[] = [];
    const lines: string[] = [];
    const running = runGivenCluster(
      policyAudit,
      async (context) => {
        const findings = new PolicyFindings({ sink: context.sink });
        const asked = new AskedCluster(new KubeClusterReader(client));
        const spaces = context.cache<Namespace>({ type: namespaces });
        const policies = new PolicySet({
          context,
          runtimes: runtimesOf({ modules: () => modules, client, logger, asked }),
          writesStatus: true,
          findings,
        });
        const exceptions = new ExceptionSet({ context, writesStatus: true });
        const ended = Promise.all([policies.run(), exceptions.run()]);
        await Promise.all([policies.complete, exceptions.complete, spaces.synced]);
        const admission = new PolicyAdmission({
          policies: () => policies.enforced,
          exceptions,
          namespaceLabels: (name) => spaces.get(name)?.metadata.labels,
          onAnswer: ({ id }, answer, operation) =>
            void answers.push({ policy: id, said: `${operation} ${answer}` }),
          onFinding: (policy, write) => findings.write(toldPolicy(policy), write),
        });
        late.use('policy-audit', admission);
        started.resolve(policies);
        await ended;
      },
      { client, signal: stop.signal, logger, sink: (line) => void lines.push(line) },
    );
    running.catch(started.reject);
    stack.defer(async () => {
      stop.abort();
      await running;
    });
    return new AdmittingApi(server, client, await started.promise, answers, lines, stack.move());
  }

  /** What a policy has answered to writes, in order. */
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
