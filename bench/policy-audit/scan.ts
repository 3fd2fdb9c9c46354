/**
 * An audit of a large cluster by `rampart operator`: from nothing, again, and after single changes. The operator is a process of its
 * own, and so is the API server.
 */
import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { customResourceDefinitions, established } from '../../lib/kube/crd/established.ts';
import { crdManifest } from '../../lib/kube/crd/manifest.ts';
import { namespaces, type Pod, pods } from '../../lib/kube/object/object.ts';
import { clusterPolicyReports, policyReports } from '../../guard/reports/policy-reports.ts';
import { clusterAdmissionPolicyType } from '../../guards/policy-audit/api.ts';
import { policyAudit } from '../../guards/policy-audit/guard.ts';
import { reportTypes } from '../../guards/policy-audit/reports/report.ts';
import { cpuMs, ServerProcess } from '../apiserver/server-process.ts';
import { type PartOptions, quantile, type Report } from '../report.ts';
import { OperatorProcess, type Pass } from './operator-process.ts';
import { reviewOf, expressions } from './reviews.ts';

const OBJECTS = 100_000;
const POLICIES = 20;
const NAMESPACES = 20;
const CHANGES = 100;
const PARALLEL = 32;
const ESTABLISH_MS = 30_000;
const CHANGES_MS = 100_000;
const FIRST_TARGET_SECONDS = 150;
const RSS_TARGET_MIB = 300;
const CHANGE_TARGET_MS = 30;
/** From one full audit to the next: time for the changes, after a whole audit and after a small one. */
const [INTERVAL, SHORT_INTERVAL] = ['3m', '20s'];

/** @throws {Error} where a process fails. */
export async function scan({ shrink, signal, progress }: PartOptions): Promise<Report> {
  const count = Math.ceil(OBJECTS / shrink);
  await using server = new ServerProcess();
  await server.start(signal);
  using client = new KubeClient(findClusterAccess({ path: server.kubeconfig }), {
    perSecond: 1e6,
    burst: 1e6,
  });
  await prepare(client, signal);
  progress(`scan: making ${count} pods`);
  await fill(client, count, signal);
  progress(`scan: ${count} pods by ${POLICIES} policies`);
  const serverBeforeMs = cpuMs(server.pid);
  await using operator = new OperatorProcess(server.kubeconfig, shrink === 1 ? INTERVAL : SHORT_INTERVAL);
  const first = await operator.pass(signal);
  const rssMib = operator.peakMib;
  const cpuSeconds = operator.cpuSeconds;
  const serverSeconds = (cpuMs(server.pid) - serverBeforeMs) / 1000;
  progress('scan: again');
  const again = await operator.pass(signal);
  progress('scan: single changes');
  const changesMs = await change(client, Math.max(10, Math.ceil(CHANGES / shrink)), signal);
  const p99 = quantile(changesMs, 0.99);
  const row = (label: string, { seconds, evaluations, writes }: Pass) => ({
    label,
    cells: {
      seconds: seconds.toFixed(1),
      evaluations: evaluations.toLocaleString('en'),
      reports: writes.toLocaleString('en'),
      'evaluations/s': Math.round(evaluations / seconds).toLocaleString('en'),
    },
    values: { seconds, evaluations, writes },
  });
  return {
    title: `An audit of ${count.toLocaleString('en')} pods by ${POLICIES} policies of CEL`,
    columns: ['seconds', 'evaluations', 'reports', 'evaluations/s'],
    rows: [row('from nothing', first), row('nothing changed', again)],
    verdicts: [
      {
        target: `from nothing in under ${FIRST_TARGET_SECONDS} s`,
        measured: `${first.seconds.toFixed(1)} s`,
        met: first.seconds < FIRST_TARGET_SECONDS,
      },
      {
        target: `RSS at most ${RSS_TARGET_MIB} MiB`,
        measured: `${rssMib.toFixed(0)} MiB`,
        met: rssMib <= RSS_TARGET_MIB,
      },
      {
        target: 'nothing changed: no evaluation, no write',
        measured: `${again.evaluations}, ${again.writes}`,
        met: again.evaluations === 0 && again.writes === 0,
      },
      {
        target: `one object changed: its report within ${CHANGE_TARGET_MS} ms (p99 of ${changesMs.length})`,
        measured: `${p99.toFixed(0)} ms, median ${quantile(changesMs, 0.5).toFixed(0)} ms`,
        met: p99 <= CHANGE_TARGET_MS,
      },
    ],
    notes: [
      `The first audit took ${cpuSeconds.toFixed(1)} s of CPU time of the operator and ${serverSeconds.toFixed(1)} s of the API server, which share the machine.`,
      `RSS is the highest of the operator until the first audit ends; at the end of all it was ${operator.peakMib.toFixed(0)} MiB.`,
      'A change counts from its PATCH to the moment that a watch of reports tells of it.',
    ],
  };
}

/** Changes one pod so that a policy says something else of it; how long each time its report takes. */
async function change(client: KubeClient, times: number, signal: AbortSignal): Promise<number[]> {
  const target = { namespace: 'space-0', name: 'pod-0' };
  const { uid = '' } = (await client.get(pods, target, { signal })).metadata;
  const type = reportTypes.policyreport.namespaced;
  const own = { fieldSelector: `metadata.name=${uid}` };
  // The version of the list: that of a report may be older than what the server remembers.
  const { metadata } = await client.list(type, { namespace: target.namespace }, { ...own, signal });
  const events = client.watch(
    type,
    { namespace: target.namespace },
    {
      resourceVersion: metadata.resourceVersion,
      ...own,
      signal: AbortSignal.any([signal, AbortSignal.timeout(CHANGES_MS)]),
    },
  );
  const changesMs: number[] = [];
  try {
    for (let index = 0; index < times; index++) {
      const body = { metadata: { labels: { team: index % 2 === 0 ? null : 'shop' } } };
      const beganMs = performance.now();
      await client.patch<Pod>(pods, target, { type: 'merge', body }, { signal });
      if ((await events.next()).done === true) throw new Error('the watch of reports has ended');
      changesMs.push(performance.now() - beganMs);
    }
  } finally {
    await events.return(undefined);
  }
  return changesMs;
}

async function prepare(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const resource of [...policyAudit.resources, policyReports, clusterPolicyReports]) {
    await client.create(customResourceDefinitions, crdManifest(resource) as never, { signal });
    const name = `${resource.plural}.${resource.group}`;
    await established(client, name, { timeoutMs: ESTABLISH_MS, signal });
  }
  for (let index = 0; index < NAMESPACES; index++) {
    await client.create(namespaces, { metadata: { name: `space-${index}` } }, { signal });
  }
  for (let index = 0; index < POLICIES; index++) {
    const expression =
      index === 0
        ? "has(object.metadata.labels) && 'team' in object.metadata.labels"
        : (expressions[index % expressions.length] ?? 'true');
    await client.create(
      clusterAdmissionPolicyType,
      {
        metadata: { name: `policy-${index}` },
        spec: {
          module: 'cel-policy',
          mutating: false,
          rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
          settings: { validations: [{ expression, message: 'it does not hold' }] },
        },
      } as never,
      { signal },
    );
  }
}

async function fill(client: KubeClient, count: number, signal: AbortSignal): Promise<void> {
  let next = 0;
  const worker = async (): Promise<void> => {
    for (let index = next++; index < count; index = next++) {
      const { request } = JSON.parse(reviewOf(index)) as { request: { object: Pod } };
      const { spec, metadata } = request.object;
      const { labels, annotations } = metadata;
      const own = {
        name: `pod-${index}`,
        namespace: `space-${index % NAMESPACES}`,
        ...(labels && { labels }),
        ...(annotations && { annotations }),
      };
      await client.create(pods, { metadata: own, ...(spec && { spec }) }, { signal });
    }
  };
  await Promise.all(Array.from({ length: PARALLEL }, worker));
}
