/** Writes findings of a node as lines of the stream. */
import { findingLine, type Severity } from '../../../guard/stream/finding.ts';
import { describeFinding } from '../cluster/report-entries.ts';
import { type FindingChange, lastSeenMs } from '../model/finding.ts';

const severityOfVerdict = {
  ...{ changed: 'high', removed: 'high', added: 'medium' },
  ...{ restored: 'info', accepted: 'info' },
} as const satisfies Record<string, Severity>;

export interface LineContext {
  /** `namespace/name` of the FileIntegrity. */
  readonly fileIntegrity: string;
  readonly nodeName: string;
  readonly nowMs: number;
}

/** The line for one change: the head, then `fileIntegrity`, `state` and the keys of a Finding. */
export function integrityLine(
  { state, finding }: FindingChange,
  { fileIntegrity, nodeName, nowMs }: LineContext,
): string {
  const verdict = state === 'found' ? finding.change : state === 'gone' ? 'restored' : 'accepted';
  const [namespace = '', name = ''] = fileIntegrity.split('/');
  const { path } = finding;
  const messages = {
    found: describeFinding(finding, nodeName),
    gone: `${path} is as in the baseline again on node ${nodeName}.`,
    accepted: `${path} was accepted into the baseline of node ${nodeName}${finding.explained === undefined ? '' : `: ${finding.explained}`}.`,
  };
  return findingLine(
    {
      ...{ guard: 'file-integrity', kind: 'IntegrityFinding' },
      time: new Date(state === 'found' ? lastSeenMs(finding) : nowMs).toISOString(),
      node: { name: nodeName },
      severity: finding.explained === undefined ? severityOfVerdict[verdict] : 'info',
      object: { kind: 'Node', namespace: '', name: nodeName },
      policy: { kind: 'FileIntegrity', namespace, name },
      verdict,
      message: messages[state],
    },
    { fileIntegrity, state, ...finding },
  );
}
