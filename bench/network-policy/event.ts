/**
 * One pod of a node with 1,000 pods and 500 policies comes or goes: from the event to the kernel having it.
 */
import { KeptNamespace } from '../../guards/network-policy/dataplane/namespace.ts';
import type { PodObject } from '../../guards/network-policy/engine/objects.ts';
import { requirePrograms } from '../programs.ts';
import { median, type PartOptions, quantile, type Report, type ReportRow, type Verdict } from '../report.ts';
import { type Backend, backendPrograms, backends, openDataplane } from './backends.ts';
import { Scene } from './scene.ts';

const PODS = 1000;
const POLICIES = 500;
const EVENTS = 200;
const maxMs: Readonly<Record<Backend, number>> = {
  nftables: 4,
  'iptables-nft': 150,
  'iptables-legacy': 150,
};

export async function event(options: PartOptions): Promise<Report> {
  requirePrograms(backendPrograms);
  const rows: ReportRow[] = [];
  const verdicts: Verdict[] = [];
  const scenes = [
    ...backends.map((backend) => ({ backend, label: backend, podsOfGroup: undefined })),
    { backend: 'nftables', label: 'nftables, workloads of ten pods', podsOfGroup: 10 },
  ] as const;
  for (const { backend, label, podsOfGroup } of scenes) {
    const size = [Math.ceil(PODS / options.shrink), Math.ceil(POLICIES / options.shrink)] as const;
    const { engine, pods } = new Scene(...size, podsOfGroup);
    using namespace = KeptNamespace.create();
    using dataplane = namespace.run(() => openDataplane(backend));
    await dataplane.sync(engine.rules, options.signal);
    const times: Readonly<Record<'come' | 'go', number[]>> = { come: [], go: [] };
    const cpu: number[] = [];
    options.progress(`event: ${label}`);
    for (let at = 0; at < Math.ceil(EVENTS / options.shrink) + 1; at++) {
      options.signal.throwIfAborted();
      const pod = pods[((at >> 1) * 7) % pods.length] as PodObject;
      const [beganMs, cpuBefore] = [performance.now(), process.cpuUsage()];
      if (at % 2 === 0) engine.removePod(`${pod.metadata.namespace}/${pod.metadata.name}`);
      else engine.upsertPod(pod);
      await dataplane.apply(engine.rules, engine.takeChange(), options.signal);
      times[at % 2 === 0 ? 'go' : 'come'].push(performance.now() - beganMs);
      const { user, system } = process.cpuUsage(cpuBefore);
      cpu.push((user + system) / 1000);
    }
    const [comeMs, goMs] = [median(times.come), median(times.go)];
    const p99 = quantile([...times.come, ...times.go], 0.99);
    rows.push({
      label,
      cells: {
        'comes p50 ms': comeMs.toFixed(1),
        'goes p50 ms': goMs.toFixed(1),
        'p99 ms': p99.toFixed(1),
        'own CPU p50 ms': median(cpu).toFixed(1),
      },
      values: { comeMs, goMs, p99Ms: p99, cpuP50Ms: median(cpu) },
    });
    verdicts.push({
      target: `${label}: p99 at most ${maxMs[backend]} ms`,
      measured: `${p99.toFixed(1)} ms`,
      met: p99 <= maxMs[backend],
    });
  }
  return {
    title: 'One pod comes or goes',
    columns: ['comes p50 ms', 'goes p50 ms', 'p99 ms', 'own CPU p50 ms'],
    rows,
    verdicts,
    notes: [
      'The pod is isolated by two policies, as three others are, and a peer of ten. p99: of both kinds of events.',
      'Workloads of ten pods: ten pods have the same policies, five of 500.',
      'Own CPU: without that of programs that are started.',
    ],
  };
}
