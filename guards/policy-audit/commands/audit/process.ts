/** The environment of commands that evaluate policies: caches, a client, and the runtimes of policies. */
import { mkdtempDisposableSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import type { GuardContext } from '../../../../guard/context.ts';
import { FindingStream } from '../../../../guard/stream/finding-stream.ts';
import { GuardStates } from '../../../../guard/guard-states.ts';
import { partContext } from '../../../../guard/part-context.ts';
import { KubeClient } from '../../../../lib/kube/client/client.ts';
import { Health } from '../../../../lib/telemetry/health.ts';
import { createLogger } from '../../../../lib/telemetry/log.ts';
import { policyAudit } from '../../guard.ts';
import { processModules } from '../../modules/process-modules.ts';
import { KubeClusterReader } from '../../engine/host-calls/kube-reader.ts';
import { AskedCluster } from '../../policies/asked-cluster.ts';
import type { Runtimes } from '../../policies/open-policy.ts';
import { runtimesOf } from '../../policies/runtimes.ts';
import { clusterAccess } from '../../../../lib/cli/cluster.ts';
import { guardProcess } from '../../../../guard/guard-process.ts';
import type { ClusterOptions } from './command.ts';

interface PolicyProcess {
  readonly context: GuardContext;
  readonly runtimes: Runtimes;
  readonly asked: AskedCluster;
}

/**
 * @param stop - Ends the process; also aborted here if a cache fails.
 * @param stack - Disposed by the caller, after everything that uses the context has ended.
 * @throws {RampartError} `INPUT` if there is no cluster.
 */
export async function policyProcess(
  { kubeconfig, context: contextName, data, policyModules, ...files }: ClusterOptions,
  { stop, stack, level }: { stop: AbortController; stack: AsyncDisposableStack; level: string },
): Promise<PolicyProcess> {
  // An empty kubeconfig counts as unset, as for kubectl.
  const access = clusterAccess({ kubeconfig: kubeconfig || undefined, context: contextName, data });
  const logger = createLogger({ level: level as 'warn' });
  const client = stack.use(new KubeClient(access, { perSecond: 1000, burst: 2000 }));
  const states = { node: new GuardStates(), cluster: new GuardStates() };
  const guarding = guardProcess({
    ...{ client, logger, states },
    health: new Health(),
    metrics: undefined,
    shared: undefined,
    identity: `rampart-audit_${crypto.randomUUID()}`,
    // Nothing reads this stream: an audit reports by its exit code and its output.
    stream: new FindingStream(),
    fail: (error) => stop.abort(error),
  });
  stack.use(guarding.caches);
  const { signal } = stop;
  const context = partContext(policyAudit, 'cluster', guarding, { signal, stack });
  const cacheDirectory =
    policyModules === undefined
      ? stack.use(mkdtempDisposableSync(join(tmpdir(), 'rampart-policies-'))).path
      : resolve(policyModules);
  const modules = stack.use(processModules(files, () => cacheDirectory, logger));
  const asked = new AskedCluster(new KubeClusterReader(client));
  return {
    context,
    asked,
    runtimes: runtimesOf({ modules: (terms) => modules.of(terms), client, logger, asked }),
  };
}
