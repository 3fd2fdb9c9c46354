/** The engine's time for a whole node, and for one event in a large cluster. */
import { PolicyEngine } from '../../guards/network-policy/engine/engine.ts';
import type { NamespaceObject, PodObject, PolicyObject } from '../../guards/network-policy/engine/objects.ts';

export interface EngineTimes {
  /** All objects handed in and the rules made. */
  readonly wholeMs: number;
  /** The processor's share of it, threads of the garbage collector included. */
  readonly wholeCpuMs: number;
  /** One event and the rules after it, sorted. */
  readonly eventsMs: readonly number[];
  readonly heapMb: number;
}

const perNamespace = 50;

/**
 * Pods are spread over namespaces of 50; each policy is for pods of its namespace with a label, and allows pods of its
 * namespace, of another one, a block with a hole, and one that names ports.
 */
export function measureEngine(cluster: {
  readonly pods: number;
  readonly localPods: number;
  readonly policies: number;
  readonly events: number;
}): EngineTimes {
  const namespaces = Math.ceil(cluster.pods / perNamespace);
  const nodes = Math.max(1, Math.round(cluster.pods / cluster.localPods));
  const pods = Array.from({ length: cluster.pods }, (_, at) => podOf(at, at % nodes, namespaces));
  const policies = Array.from({ length: cluster.policies }, (_, at) => policyOf(at, namespaces));
  globalThis.gc?.();
  const before = process.memoryUsage().heapUsed;
  const engine = new PolicyEngine('node-0');
  const [start, startCpu] = [performance.now(), process.cpuUsage()];
  for (let at = 0; at < namespaces; at++) engine.upsertNamespace(namespaceOf(at));
  for (const pod of pods) engine.upsertPod(pod);
  for (const policy of policies) engine.upsertPolicy(policy);
  engine.takeChange();
  const wholeMs = performance.now() - start;
  const { user, system } = process.cpuUsage(startCpu);
  globalThis.gc?.();
  const heapMb = (process.memoryUsage().heapUsed - before) / 2 ** 20;
  const eventsMs: number[] = [];
  for (let event = 0; event < cluster.events; event++) {
    // A pod of another node; it goes, or comes back.
    const at = ((event >> 1) * nodes + 1) % cluster.pods;
    const pod = pods[at] as PodObject;
    const started = performance.now();
    if (event % 2 === 0) engine.removePod(`${pod.metadata.namespace}/${pod.metadata.name}`);
    else engine.upsertPod(pod);
    engine.takeChange();
    eventsMs.push(performance.now() - started);
  }
  return { wholeMs, wholeCpuMs: (user + system) / 1000, eventsMs: eventsMs.sort((a, b) => a - b), heapMb };
}

export function namespaceOf(at: number): NamespaceObject {
  return { metadata: { name: `ns-${at}`, labels: { team: `t${at % 10}` } } };
}

export function podOf(at: number, node: number, namespaces: number): PodObject {
  return {
    metadata: {
      name: `pod-${at}`,
      namespace: `ns-${at % namespaces}`,
      labels: { app: `app-${at % 7}`, tier: at % 2 === 0 ? 'front' : 'back' },
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: {
      nodeName: `node-${node}`,
      containers: [{ ports: [{ name: 'http', containerPort: 8080 }] }],
    },
    status: {
      phase: 'Running',
      podIP: `10.${node >> 8}.${node & 255}.${(at >> 3) & 255}`,
      podIPs: [{ ip: `fd00::${node.toString(16)}:${at.toString(16)}` }],
    },
  };
}

export function policyOf(at: number, namespaces: number): PolicyObject {
  return {
    metadata: { name: `policy-${at}`, namespace: `ns-${at % namespaces}` },
    spec: {
      podSelector: { matchLabels: { app: `app-${at % 7}` } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [
        { from: [{ podSelector: { matchLabels: { tier: 'front' } } }], ports: [{ port: 'http' }] },
        {
          from: [
            {
              namespaceSelector: { matchLabels: { team: `t${at % 10}` } },
              podSelector: { matchLabels: { app: `app-${at % 5}` } },
            },
            { ipBlock: { cidr: '192.168.0.0/16', except: [`192.168.${at % 256}.0/24`] } },
          ],
          ports: [{ port: 80 + (at % 10) }],
        },
      ],
      egress: [
        { to: [{ namespaceSelector: {} }], ports: [{ port: 53, protocol: 'UDP' }] },
        { ports: [{ port: 'http' }] },
      ],
    },
  };
}

if (import.meta.main) {
  for (const cluster of [
    { pods: 1000, localPods: 1000, policies: 500, events: 0 },
    { pods: 1000, localPods: 110, policies: 2000, events: 200 },
    { pods: 10_000, localPods: 50, policies: 5000, events: 4000 },
  ]) {
    const { wholeMs, wholeCpuMs, eventsMs, heapMb } = measureEngine(cluster);
    const of = (share: number) => eventsMs[Math.floor(eventsMs.length * share)]?.toFixed(3) ?? '-';
    console.log(
      `${JSON.stringify(cluster)}: whole ${wholeMs.toFixed(0)} ms (${wholeCpuMs.toFixed(0)} of CPU), ${heapMb.toFixed(1)} MB; event p50 ${of(0.5)} ms, p99 ${of(0.99)} ms, last ${of(0.9999)} ms`,
    );
  }
}
