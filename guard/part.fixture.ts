/** Runs a part of one guard as a process would, with what a test gives. */
import { randomUUID } from 'node:crypto';
import { join } from 'node:path';

import type { KubeClient } from '../lib/kube/client/client.ts';
import { SharedCaches } from '../lib/kube/cache/shared-caches.ts';
import type { SharedMetrics } from '../lib/kube/controller/shared-metrics.ts';
import { Health } from '../lib/telemetry/health.ts';
import type { Logger } from '../lib/telemetry/log.ts';
import { ReportWriter } from './reports/report-writer.ts';
import type { GuardAdmissions } from './admission.ts';
import type { ClusterContext, NodeContext } from './context.ts';
import type { Guard, OptionValues } from './guard.ts';
import type { GuardProcess } from './part-context.ts';
import { runUntilRemoved } from './give-back.ts';
import type { Workload } from './removal.ts';
import { runClusterParts, runNodeParts } from './run-guards.ts';

export interface GivenProcess {
  readonly client: KubeClient;
  readonly signal: AbortSignal;
  readonly logger: Logger;
  readonly identity?: string;
  readonly health?: Health;
  readonly metrics?: SharedMetrics;
  /** Takes the findings. */
  readonly sink?: (line: string) => void;
  /** Reports of cluster parts. Default: they are written to the API. */
  readonly reports?: ClusterContext['reports'];
  /** Its process runs until `signal` aborts, or as one of a cluster, which may be removed. */
  readonly workload?: Workload;
  /** Admissions of an API server in this process. */
  readonly admissions?: GuardAdmissions;
}

export interface GivenNode
  extends
    GivenProcess,
    Pick<NodeContext, 'nodeName' | 'containers'>,
    Partial<Pick<NodeContext, 'hostRoot' | 'version' | 'say'>> {
  readonly directory?: string;
}

/** Until the signal aborts. @throws what the part throws */
export async function runGivenNode(
  guard: Guard,
  part: (context: NodeContext) => Promise<void>,
  given: GivenNode,
): Promise<void> {
  await runNodeGuards([{ ...guard, node: async () => part }], {}, given);
}

/** The node parts of guards, as the agent runs them. */
export async function runNodeGuards(
  guards: readonly Guard[],
  values: OptionValues,
  given: GivenNode,
): Promise<void> {
  const { nodeName, containers, directory = '', hostRoot = '/', version = '0' } = given;
  const { say = () => undefined } = given;
  const directoryOf = (guard: Guard): string =>
    guards.length === 1 ? directory : join(directory, guard.directory?.name ?? '');
  // Leases of agents begin with their node.
  const identity = given.identity ?? `${nodeName}_${randomUUID()}`;
  await withProcess(guards, { ...given, identity }, (process, signal) =>
    runNodeParts(
      { guards, process, values, signal },
      { nodeName, containers, hostRoot, version, say, directoryOf },
    ),
  );
}

/** As {@link runGivenNode}. */
export async function runGivenCluster(
  guard: Guard,
  part: (context: ClusterContext) => Promise<void>,
  given: GivenProcess,
): Promise<void> {
  await runClusterGuards([{ ...guard, cluster: async () => part }], given);
}

/** The cluster parts of guards, as the operator runs them. */
export async function runClusterGuards(guards: readonly Guard[], given: GivenProcess): Promise<void> {
  const { admissions } = given;
  await withProcess(guards, given, (process, signal) =>
    runClusterParts(
      { guards, process, values: {}, signal },
      { reports: given.reports ?? new ReportWriter(given), ...(admissions && { admissions }) },
    ),
  );
}

async function withProcess(
  guards: readonly Guard[],
  given: GivenProcess & { readonly nodeName?: string },
  run: (process: GuardProcess, signal: AbortSignal) => Promise<void>,
): Promise<void> {
  const { client, logger, metrics, identity = `test_${randomUUID()}`, health = new Health() } = given;
  const failed = Promise.withResolvers<never>();
  failed.promise.catch(() => undefined);
  await using caches = new SharedCaches({
    ...{ client, logger },
    metrics: metrics?.reflectors,
    onFailure: failed.reject,
  });
  const { workload, signal, nodeName } = given;
  const sink = (_guard: string, line: string): void => given.sink?.(line);
  const running = async (): Promise<void> => {
    const process = { client, logger, identity, health, metrics, caches, sink };
    if (workload === undefined) return await run(process, signal);
    const end = new AbortController();
    const removable = { ...process, guards, nodeName, workload, reported: signal };
    await runUntilRemoved(end, removable, () => run(process, end.signal));
  };
  await Promise.race([running(), failed.promise]);
}
