/** A cluster of two nodes in which all is well, as it was read, for tests to break. */
import type { AgentGuardState } from '../../guard/agent-lease-names.ts';
import type { AgentView } from '../../guard/status-section.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import type { FileAccessFields, FileAccessNodeFields } from '../../guards/file-access/status/report.ts';
import { fileAccessSection } from '../../guards/file-access/status/section.ts';
import type { Snapshot } from '../../guards/file-access/status/snapshot.ts';
import { nowMs, well } from '../../guards/file-access/status/snapshot.fixture.ts';
import { fileIntegrity } from '../../guards/file-integrity/guard.ts';
import type { FileIntegrityFields, IntegrityReport } from '../../guards/file-integrity/status/report.ts';
import { integritySection } from '../../guards/file-integrity/status/section.ts';
import type { Found } from './examine.ts';
import type { NodeReport, StatusReport } from './report.ts';

/** What `--format json` prints. */
export type JsonReport = Omit<StatusReport, 'nodes'> &
  FileAccessFields &
  FileIntegrityFields & { readonly nodes: readonly (NodeReport & FileAccessNodeFields)[] };

export interface Change extends Partial<Found> {
  readonly access?: Partial<Snapshot>;
  readonly integrities?: readonly IntegrityReport[];
}

export function foundOf({ access, integrities = [], ...change }: Change = {}): Found {
  const snapshot = { ...well, ...access };
  return {
    server: 'https://10.0.0.1:6443',
    timeMs: nowMs,
    namespace: snapshot.namespace,
    guards: [
      { guard: fileAccess, installed: true, section: fileAccessSection(snapshot, nowMs) },
      { guard: fileIntegrity, installed: true, section: integritySection(integrities, nowMs) },
    ],
    locks: snapshot.leases,
    agents: [],
    agentPods: ['n1', 'n2'].map((nodeName) => ({ name: `rampart-agent-${nodeName}`, nodeName, ready: true })),
    nodes: snapshot.nodes,
    notRead: [],
    ...change,
  };
}

export function agentOn(
  nodeName: string,
  guards: Readonly<Record<string, AgentGuardState>> = {},
  isRenewed = true,
): AgentView {
  return { nodeName, guards: new Map(Object.entries(guards)), isRenewed, renewedSecondsAgo: 1 };
}

/** A FileIntegrity of which nothing is the matter. */
export const intact: IntegrityReport = {
  group: 'fileintegrity.openshift.io',
  namespace: 'guard',
  name: 'machine',
  guarded: true,
  deleting: false,
  phase: 'Active',
  paused: false,
  intact: true,
  problems: [],
  nodes: [],
};
