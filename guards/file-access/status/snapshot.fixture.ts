/** A cluster of two nodes in which all is well, for tests to break. */
import type { LeaseView } from '../../../guard/lease-holder.ts';
import type { KivePolicy } from '../api.ts';
import type { NodePart, PolicyStatus } from '../policy-status-schema.ts';
import { policyOf, trapOn } from '../policy/policy.fixture.ts';
import type { RunningPod, Snapshot } from './snapshot.ts';

export const nowMs: number = Date.UTC(2026, 10, 21, 12);
const id = '0e8e63a6-51a7-4b04-9f1c-3c0a4f7d9a10';

/** Boot id of a node, the same each time. */
export function bootIdOf(node: string): string {
  const digits = Buffer.from(node).toString('hex').padEnd(32, '0');
  return [0, 8, 12, 16, 20].map((from, at) => digits.slice(from, [8, 12, 16, 20, 32][at])).join('-');
}

export function leaseOf(name: string, holder: string, agoMs = 1000, isRenewed = true): LeaseView {
  return { name, holder: holder && `${holder}_${id}`, renewedSecondsAgo: agoMs / 1000, isRenewed };
}

export function podOn(nodeName: string, name: string, containers: readonly string[] = ['web']): RunningPod {
  return {
    view: { metadata: { name, namespace: 'shop', labels: { app: 'web' } }, status: { podIP: '10.0.0.1' } },
    nodeName,
    ...{ containers, settled: containers },
  };
}

export function withStatus(policy: KivePolicy, status: PolicyStatus, metadata: object = {}): KivePolicy {
  return { ...policy, metadata: { uid: 'uid-1', ...policy.metadata, generation: 2, ...metadata }, status };
}

/** A part of the policy `secrets`. */
export function nodePart(node: string, more: Partial<NodePart> = {}): NodePart {
  const { namespace = '', name = '' } = policyOf('secrets').metadata;
  return {
    ...{ node, namespace, name, uid: 'uid-1', observedGeneration: 2 },
    ...{ matchedContainers: 1, watchedFiles: 1, problemCount: 0 },
    ...more,
  };
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
    problemCount: 0,
    matchedNodes: 2,
    lastAlertTime: '2026-11-21T11:59:48Z',
  },
);

export const well: Snapshot = {
  namespace: undefined,
  policies: [secrets],
  parts: [nodePart('n2'), nodePart('n1', { lastAlertTime: '2026-11-21T11:59:48Z' })],
  reported: new Set(['n1', 'n2']),
  refused: new Map(),
  filtered: 0,
  data: ['n1', 'n2'].map((nodeName) => ({
    policy: 'kivebpf-system/secrets',
    nodeName,
    kernel: bootIdOf(nodeName),
    container: `containerd://${nodeName}`,
  })),
  leases: [
    leaseOf('rampart-operator', 'operator-1'),
    leaseOf(bootIdOf('n1'), 'n1'),
    leaseOf(bootIdOf('n2'), 'n2'),
  ],
  nodes: ['n1', 'n2'].map((name) => ({ name, kernel: bootIdOf(name) })),
  pods: [podOn('n1', 'a'), podOn('n2', 'b')],
  hosts: ['n1', 'n2'],
};
