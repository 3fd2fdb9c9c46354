/**
 * A scanner by itself, for scan.ts: a pass from nothing, one with nothing changed, and single changes. Says what it took as one
 * line of JSON.
 *
 * @module
 */
import { policyProcess } from '../../apps/audit/process.ts';
import { type Pod, pods } from '../../shared/kube/object.ts';
import { PolicySet } from '../../systems/policy-audit/policies/policy-set.ts';
import { type PassSummary } from '../../systems/policy-audit/scanner/audit-pass.ts';
import { Scanner } from '../../systems/policy-audit/scanner/scanner.ts';

export interface ScanFigures {
  readonly first: PassSummary;
  readonly again: PassSummary;
  readonly peakRssBytes: number;
  /** User and system, until the first pass has ended. */
  readonly firstCpuSeconds: number;
  /** From a change to its report, for each change. */
  readonly changesMs: readonly number[];
}

const NEVER_MS = 2 ** 40;
const [kubeconfig = '', changes = '0', namespace = ''] = process.argv.slice(2);

const stop = new AbortController();
await using stack = new AsyncDisposableStack();
const { context, runtimes, asked } = await policyProcess({ kubeconfig }, { stop, stack, level: 'warn' });
const policies = new PolicySet({ context, runtimes, writesStatus: false });
const passed = Promise.withResolvers<PassSummary>();
const scanner = new Scanner({
  ...{ context, policies, asked },
  intervalMs: NEVER_MS,
  failuresOnly: false,
  reportKind: 'policyreport',
  reportsBy: 'object',
  parallelNamespaces: 4,
  parallelResources: 16,
  parallelPolicies: 5,
  pageSize: 100,
  onPass: passed.resolve,
});
const running = Promise.all([policies.run(), scanner.run()]);
running.catch(passed.reject);
const first = await passed.promise;
const peakRssBytes = process.resourceUsage().maxRSS * 1024;
const { user, system } = process.cpuUsage();
const firstCpuSeconds = (user + system) / 1e6;
const again = await scanner.pass(context.signal);
const changesMs: number[] = [];
for (let index = 0; index < Number(changes); index++) {
  const body = { metadata: { labels: { team: index % 2 === 0 ? null : 'shop' } } };
  const beganMs = performance.now();
  const patched = await context.client.patch<Pod>(
    pods,
    { namespace, name: 'pod-0' },
    { type: 'merge', body },
  );
  const { uid = '', resourceVersion } = patched.metadata;
  while (scanner.states.get(uid)?.version !== resourceVersion)
    await new Promise((resolve) => setTimeout(resolve, 1));
  changesMs.push(performance.now() - beganMs);
}
process.stdout.write(
  `${JSON.stringify({ first, again, peakRssBytes, firstCpuSeconds, changesMs } satisfies ScanFigures)}\n`,
);
stop.abort();
await running.catch(() => undefined);
