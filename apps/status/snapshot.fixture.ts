/**
 * A cluster of two nodes in which all is well, for tests to break.
 *
 * @module
 */
import type { KivePolicy } from '../../systems/file-access/api.ts';
import type { PolicyStatus } from '../../systems/file-access/policy-status-schema.ts';
import { policyOf, trapOn } from '../../systems/file-access/policy.fixture.ts';
import type { LeaseView, RunningPod, Snapshot } from './snapshot.ts';

export const nowMs: number = Date.UTC(2026, 10, 21, 12);
const id = '0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10';

export function leaseOf(name: string, holder: string, agoMs = 1000, isRenewed = true): LeaseView {
  return {
    name,
    holder: holder && `${holder}_${id}`,
    durationMs: 10_000,
    renewedMs: nowMs - agoMs,
    isRenewed,
  };
}

export function podOn(nodeName: string, name: string, containers: readonly string[] = ['web']): RunningPod {
  return {
    view: { metadata: { name, namespace: 'shop', labels: { app: 'web' } }, status: { podIP: '10.0.0.1' } },
    nodeName,
    containers,
  };
}

export function withStatus(policy: KivePolicy, status: PolicyStatus, metadata: object = {}): KivePolicy {
  return { ...policy, metadata: { ...policy.metadata, generation: 2, ...metadata }, status };
}

export function nodePart(
  name: string,
  more: Partial<NonNullable<PolicyStatus['nodes']>[number]> = {},
): NonNullable<PolicyStatus['nodes']>[number] {
  return { name, observedGeneration: 2, matchedContainers: 1, watchedFiles: 1, problemCount: 0, ...more };
}

export const ready: NonNullable<PolicyStatus['conditions']>[number] = {
  type: 'Ready',
  status: 'True',
  reason: 'Watching',
  message: '2 files in 2 containers are watched.',
  lastTransitionTime: '2026-11-21T11:00:00Z',
  observedGeneration: 2,
};

export const secrets: KivePolicy = withStatus(
  policyOf('secrets', trapOn('/etc/shadow', { matchLabels: { app: 'web' } })),
  {
    conditions: [ready],
    matchedContainers: 2,
    watchedFiles: 2,
    lastAlertTime: '2026-11-21T11:59:48Z',
    nodes: [nodePart('n2'), nodePart('n1', { lastAlertTime: '2026-11-21T11:59:48Z' })],
  },
);

export const well: Snapshot = {
  server: 'https://10.0.0.1:6443',
  timeMs: nowMs,
  namespace: undefined,
  policies: [secrets],
  integrities: [],
  data: ['n1', 'n2'].map((nodeName) => ({
    policy: 'kivebpf-system/secrets',
    nodeName,
    kernel: `kernel-${nodeName}`,
    container: `containerd://${nodeName}`,
  })),
  leases: [
    leaseOf('kive', 'operator-1'),
    leaseOf('rampart-file-integrity', 'operator-1'),
    leaseOf('kernel-n1', 'n1'),
    leaseOf('kernel-n2', 'n2'),
  ],
  nodes: ['n1', 'n2'].map((name) => ({ name, kernel: `kernel-${name}` })),
  agentPods: ['n1', 'n2'].map((nodeName) => ({ name: `rampart-agent-${nodeName}`, nodeName, ready: true })),
  pods: [podOn('n1', 'a'), podOn('n2', 'b')],
  notRead: [],
};
