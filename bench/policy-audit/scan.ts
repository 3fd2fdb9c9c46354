/**
 * An audit of a large cluster: from nothing, again, and after single changes. The scanner is a process of its own, and so is the API
 * server.
 *
 * @module
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { KubeClient } from '../../shared/kube/client.ts';
import { findClusterAccess } from '../../shared/kube/cluster-access.ts';
import { customResourceDefinitions, established } from '../../shared/kube/crd/established.ts';
import { crdManifest } from '../../shared/kube/crd/manifest.ts';
import { namespaces, type Pod, pods } from '../../shared/kube/object.ts';
import { clusterPolicyReports, policyReports } from '../../shared/reports/policy-reports.ts';
import { clusterAdmissionPolicyType } from '../../systems/policy-audit/api.ts';
import { policyAudit } from '../../systems/policy-audit/guard.ts';
import { ServerProcess } from '../apiserver/server-process.ts';
import { type PartOptions, quantile, type Report } from '../report.ts';
import { reviewOf, expressions } from './reviews.ts';
import type { ScanFigures } from './scan-process.ts';

const OBJECTS = 100_000;
const POLICIES = 20;
const NAMESPACES = 20;
const CHANGES = 100;
const PARALLEL = 32;
const ESTABLISH_MS = 30_000;
const FIRST_TARGET_SECONDS = 180;
const RSS_TARGET_MIB = 300;
const CHANGE_TARGET_MS = 500;

/** As bin/rampart starts standalone. */
const flags = ['--expose-gc', '--max-semi-space-size=16', '--heap-growing-percent=50'];

const run = promisify(execFile);
const program = join(import.meta.dirname, 'scan-process.ts');

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
  const changes = Math.max(10, Math.ceil(CHANGES / shrink));
  const { stdout } = await run(
    process.execPath,
    [...flags, program, server.kubeconfig, String(changes), 'space-0'],
    {
      signal,
      maxBuffer: 1 << 24,
    },
  );
  const { first, again, peakRssBytes, firstCpuSeconds, changesMs } = JSON.parse(stdout) as ScanFigures;
  const rssMib = peakRssBytes / 2 ** 20;
  const p99 = quantile(changesMs, 0.99);
  const row = (label: string, { seconds, evaluations, writes }: ScanFigures['first']) => ({
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
      `The first pass took ${firstCpuSeconds.toFixed(1)} s of CPU time of the scanner, ${Math.round(first.evaluations / firstCpuSeconds).toLocaleString('en')} evaluations a second of it.`,
      'The API server and its disk share the machine with the scanner.',
      'RSS is the highest of the scanner until the first pass ends. A change counts from its PATCH to the answer that its report is written.',
    ],
  };
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
