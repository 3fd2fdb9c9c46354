/**
 * A node with many pods and policies: each pod is isolated in both directions by two policies or more, each policy allows twenty peers at
 * a port and a range of ports.
 */
import { PolicyEngine } from '../../guards/network-policy/engine/engine.ts';
import type { PodObject, PolicyObject } from '../../guards/network-policy/engine/objects.ts';

const namespace = 'bench';
const policiesOfPod = 2;
const peersOfPolicy = 20;

export class Scene {
  readonly pods: readonly PodObject[];
  readonly policies: readonly PolicyObject[];
  readonly engine = new PolicyEngine('node');
  /** How long the engine took for all of it. */
  readonly compileMs: number;
  readonly compileCpuMs: number;

  /** @param podsOfGroup - Pods with the same policies. Default: as many as two policies for each pod leave. */
  constructor(podCount: number, policyCount: number, podsOfGroup?: number) {
    const groups = Math.max(
      1,
      Math.round(podsOfGroup ? podCount / podsOfGroup : policyCount / policiesOfPod),
    );
    const peerGroups = Math.max(1, Math.round(podCount / peersOfPolicy));
    this.pods = Array.from({ length: podCount }, (_, at) => podOf(at, at % groups, at % peerGroups));
    this.policies = Array.from({ length: policyCount }, (_, at) =>
      policyOf(at, at % groups, at % peerGroups),
    );
    const [beganMs, cpu] = [performance.now(), process.cpuUsage()];
    this.engine.upsertNamespace({ metadata: { name: namespace, labels: {} } });
    this.engine.setPodCidrs(['10.1.0.0/16']);
    for (const pod of this.pods) this.engine.upsertPod(pod);
    for (const policy of this.policies) this.engine.upsertPolicy(policy);
    this.engine.takeChange();
    this.compileMs = performance.now() - beganMs;
    const { user, system } = process.cpuUsage(cpu);
    this.compileCpuMs = (user + system) / 1000;
  }

  get lastPod(): { readonly address: string; readonly peer: string } {
    const last = this.pods.at(-1)?.status?.podIP ?? '';
    // One that its policies allow: of its group of peers.
    const peerGroup = this.pods.at(-1)?.metadata.labels?.['group'];
    const peer = this.pods.find(
      ({ metadata }) => metadata.labels?.['peer'] === this.#peerOf(Number(peerGroup)),
    );
    return { address: last, peer: peer?.status?.podIP ?? '' };
  }

  #peerOf(group: number): string {
    const peerGroups = Math.max(1, Math.round(this.pods.length / peersOfPolicy));
    return String(group % peerGroups);
  }
}

function podOf(at: number, group: number, peer: number): PodObject {
  return {
    metadata: {
      name: `pod-${at}`,
      namespace,
      labels: { group: String(group), peer: String(peer) },
      creationTimestamp: '2026-01-01T00:00:00Z',
    },
    spec: { nodeName: 'node', containers: [{}] },
    status: { phase: 'Running', podIP: addressOf(at) },
  };
}

function addressOf(at: number): string {
  const number = at + 10;
  return `10.1.${number >> 8}.${number & 255}`;
}

function policyOf(at: number, group: number, peer: number): PolicyObject {
  const peers = [{ podSelector: { matchLabels: { peer: String(peer) } } }];
  const ports = [{ port: 8080 }, { port: 9000, endPort: 9010 }];
  return {
    metadata: { name: `policy-${at}`, namespace },
    spec: {
      podSelector: { matchLabels: { group: String(group) } },
      policyTypes: ['Ingress', 'Egress'],
      ingress: [{ from: peers, ports }],
      egress: [{ to: peers, ports }],
    },
  };
}
