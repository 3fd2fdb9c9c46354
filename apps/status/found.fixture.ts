/** A healthy cluster of two nodes, as read, for tests to break. */
import type { AgentGuardState } from '../../guard/agent-lease-names.ts';
import type { AgentView } from '../../guard/status-section.ts';
import { fileAccess } from '../../guards/file-access/guard.ts';
import type { FileAccessFields, FileAccessNodeFields } from '../../guards/file-access/status/report.ts';
import { fileAccessSection } from '../../guards/file-access/status/section.ts';
import type { Snapshot } from '../../guards/file-access/status/snapshot.ts';
import { nowMs, well } from '../../guards/file-access/status/snapshot.fixture.ts';
import { fileIntegrity } from '../../guards/file-integrity/guard.ts';
import type { FileIntegrityFields } from '../../guards/file-integrity/status/report.ts';
import type { Examined } from '../../guards/file-integrity/status/examine.ts';
import { integritySection } from '../../guards/file-integrity/status/section.ts';
import { processWith, running } from '../../guard/processes.fixture.ts';
import type { Found } from './examine.ts';
import type { NodeReport, StatusReport } from './report.ts';

/** The output of `-o json`, of a user who may read policies. */
export type JsonReport = Omit<StatusReport, 'nodes'> & {
  readonly policies: NonNullable<FileAccessFields['policies']>;
} & Omit<FileAccessFields, 'policies'> &
  FileIntegrityFields & { readonly nodes: readonly (NodeReport & FileAccessNodeFields)[] };

export interface Change extends Partial<Found> {
  readonly access?: Partial<Snapshot>;
  readonly integrities?: readonly Examined[];
}

export function foundOf({ access, integrities = [], ...change }: Change = {}): Found {
  const snapshot = { ...well, ...access };
  return {
    server: 'https://10.0.0.1:6443',
    timeMs: nowMs,
    namespace: snapshot.namespace,
    guards: [
      { guard: fileAccess, installed: true, isServed: true, section: fileAccessSection(snapshot, nowMs) },
      {
        guard: fileIntegrity,
        installed: true,
        isServed: true,
        section: integritySection(integrities, nowMs),
      },
    ],
    locks: snapshot.leases,
    agents: ['n1', 'n2'].map((name) => agentOn(name)),
    operator: processWith(running('file-access', 'file-integrity')),
    agentPods: ['n1', 'n2'].map((nodeName) => ({ name: `rampart-agent-${nodeName}`, nodeName, ready: true })),
    nodes: snapshot.nodes,
    notRead: [],
    ...change,
  };
}

export function agentOn(
  nodeName: string,
  guards: Readonly<Record<string, AgentGuardState>> = running('file-access', 'file-integrity'),
  isRenewed = true,
): AgentView {
  return { ...processWith(guards, { isRenewed }), nodeName, renewedSecondsAgo: 1 };
}

const ref = { namespace: 'guard', name: 'machine' };

/** A FileIntegrity of which nothing is the matter. */
export const intact: Examined = {
  report: {
    ...ref,
    group: 'fileintegrity.openshift.io',
    deleting: false,
    phase: 'Active',
    paused: false,
    intact: true,
    nodes: [],
  },
  object: {
    ...ref,
    kind: 'FileIntegrity',
    revision: 1,
    needs: [{ process: 'operator', why: 'it writes the results into the API', seen: 1 }],
    problems: [],
  },
};
