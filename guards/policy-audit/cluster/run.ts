/** The guard's part in the operator, once per cluster; in standalone, it also decides on admission. */
import { hash } from 'node:crypto';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import type { ClusterContext, GuardContext } from '../../../guard/context.ts';
import { type ClusterPart, systemNamespace } from '../../../guard/guard.ts';
import type { ReportKind } from '../../../guard/reports/report-entry.ts';
import { type Namespace, namespaces } from '../../../lib/kube/object/object.ts';
import type { Logger } from '../../../lib/telemetry/log.ts';
import { aborted } from '../../../lib/time/abort.ts';
import { PolicyAdmission } from '../admission/policy-admission.ts';
import { ExceptionSet } from '../exceptions/exception-set.ts';
import { KubeClusterReader } from '../engine/host-calls/kube-reader.ts';
import { type PolicyServer, policyServerType } from '../api.ts';
import { PolicyFindings } from '../findings/policy-findings.ts';
import { PolicyMetrics } from './metrics.ts';
import { reportUnservedKinds } from './kinds-status.ts';
import { imageOfOperator } from './operator-image.ts';
import { ServerReaders } from './server-readers.ts';
import { processModules } from '../modules/process-modules.ts';
import { withServedReports } from '../reports/with-served-reports.ts';
import type { PolicyAuditOptions } from '../options.ts';
import { AskedCluster } from '../policies/asked-cluster.ts';
import { KeptPolicies } from '../policies/kept-policies.ts';
import { reportedPolicy } from '../policies/policy.ts';
import { PolicySet } from '../policies/policy-set.ts';
import { runtimesOf } from '../policies/runtimes.ts';
import { keepSummaries } from '../status/last-pass.ts';
import { progressFacts } from '../status/progress.ts';
import { admissionFact, byPolicyServers, inProcess } from '../status/admission-fact.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';
import { Scanner } from '../scanner/scanner.ts';

/** Runs until the signal aborts. */
export const policyAuditCluster: ClusterPart<PolicyAuditOptions> = async (context, options) => {
  const metrics = new PolicyMetrics();
  if (context.metrics !== undefined) metrics.register(context.metrics.metrics);
  context.reportFacts({ [admissionFact]: context.admission === undefined ? byPolicyServers : inProcess });
  const findings = new PolicyFindings({ sink: context.sink });
  metrics.folded = () => findings.folded;
  await context.lead((term) =>
    withServedReports(term, options.reportKind, (reportKind, own) =>
      work(own, context, { ...options, reportKind }, { metrics, findings }),
    ),
  );
};

async function work(
  term: GuardContext,
  { admission, reportFacts }: ClusterContext,
  options: PolicyAuditOptions & { readonly reportKind: ReportKind },
  { metrics, findings }: { readonly metrics: PolicyMetrics; readonly findings: PolicyFindings },
): Promise<void> {
  const { client, signal, logger } = term;
  using temporary = new DisposableStack();
  await using modules = processModules(options, () => moduleDirectory(options, temporary), logger);
  const spaces = term.cache<Namespace>({ type: namespaces });
  const asked = new AskedCluster(new KubeClusterReader(client));
  // Not needed in standalone, where only the administrator of the API may write policies.
  const readers =
    admission === undefined
      ? new ServerReaders({ client, servers: term.cache<PolicyServer>({ type: policyServerType }) })
      : undefined;
  const policies = new PolicySet({
    context: term,
    runtimes: runtimesOf({
      ...{ client, logger, asked, readers },
      modules: (terms) => modules.of(terms),
      namespace: (name) => spaces.get(name),
    }),
    writesStatus: admission !== undefined,
    kept: admission === undefined ? undefined : await keptPolicies(options, logger),
    releases: true,
    findings,
  });
  const exceptions = new ExceptionSet({ context: term, writesStatus: true });
  const scanner = new Scanner({
    context: term,
    policies,
    exceptions,
    asked,
    intervalMs: options.auditIntervalMs,
    failuresOnly: options.reports === 'failures',
    reportKind: options.reportKind,
    reportsBy: options.reportsBy,
    parallelNamespaces: 4,
    parallelResources: 16,
    parallelPolicies: 5,
    pageSize: 100,
    findings,
    onEvaluated: (evaluation, result) => metrics.audited(evaluation, result),
  });
  using _readings = metrics.lead({
    policies: () => policies.audited.filter(({ unavailable }) => unavailable === undefined).length,
    kubewarden: () => policies.kubewarden(),
    intervalMs: options.auditIntervalMs,
    pass: () => scanner.lastPass,
    scan: () => ({
      ...scanner.states.counts(),
      writes: scanner.store.writes,
      deletions: scanner.store.deletions,
      missed: scanner.missed,
    }),
  });
  const how = { [admissionFact]: admission === undefined ? byPolicyServers : inProcess };
  reportFacts(() => ({ ...how, ...progressFacts(scanner.passProgress, policies.opening, scanner.obstacle) }));
  using door = new DisposableStack();
  const admitting = async (): Promise<void> => {
    if (admission === undefined) return;
    await Promise.race([
      Promise.all([policies.decided, exceptions.complete, spaces.synced]),
      aborted(signal),
    ]);
    if (signal.aborted) return;
    const own = new PolicyAdmission({
      policies: () => policies.enforced,
      exceptions,
      namespaceLabels: (name) => spaces.get(name)?.metadata.labels,
      onAnswer: (policy, answer, operation) => metrics.admitted(policy, answer, operation),
      onEvaluated: (evaluation) => metrics.evaluated(evaluation, 'validate'),
      onFinding: (policy, write) => findings.write(reportedPolicy(policy), write),
    });
    door.use(admission.use(own));
  };
  const serving = async (): Promise<void> => {
    // In standalone, the API evaluates the policies in this process: no Deployment is needed.
    if (admission !== undefined) return;
    const { runPolicyServers } = await import('./run-policy-servers.ts');
    await runPolicyServers(term, {
      namespace: systemNamespace,
      ...{ trials: policies, audit: scanner, exceptions },
      readings: (readyPods) => metrics.serve(readyPods),
      image: async (stop) => options.policyServerImage ?? (await imageOfOperator(client, stop)),
    });
  };
  const summary = (): PassSummary | undefined =>
    scanner.lastPass && { ...scanner.lastPass, ...scanner.states.counts(), unread: scanner.unread };
  await Promise.all([
    policies.run(),
    exceptions.run(),
    admitting(),
    serving(),
    scanner.run(),
    reportUnservedKinds(term, scanner),
    keepSummaries({ client, logger, summary }, signal),
  ]);
}

/** A directory that outlives this process; undefined if nothing does. */
function lastingDirectory({ policyModules, data }: PolicyAuditOptions): string | undefined {
  if (policyModules !== undefined) return resolve(policyModules);
  return data === undefined ? undefined : join(resolve(data), 'policies');
}

/** Policies that are kept on disk, so that what they refuse is still refused right after a restart. */
async function keptPolicies(options: PolicyAuditOptions, logger: Logger): Promise<KeptPolicies | undefined> {
  const directory = lastingDirectory(options);
  if (directory === undefined) return undefined;
  try {
    const files = [options.policyVerification, options.sigstoreTrustConfig].flatMap((path) => path ?? []);
    const demands = hash('sha256', JSON.stringify(files.map((path) => readFileSync(path, 'utf8'))));
    return await KeptPolicies.open({ directory: join(directory, 'kept'), demands, logger });
  } catch (err) {
    logger.warn(
      { err },
      'policies are not kept: after a restart, those that cannot be opened go by their failurePolicy',
    );
    return undefined;
  }
}

function moduleDirectory(options: PolicyAuditOptions, stack: DisposableStack): string {
  const lasting = lastingDirectory(options);
  if (lasting !== undefined) return lasting;
  const directory = mkdtempSync(join(tmpdir(), 'rampart-policies-'));
  stack.defer(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}
