import type { StatusReport } from '../apps/status/report.ts';

/** Whether this user may read anything about nodes and agents. If not, their absence from the report does not mean that they are gone. */
export function seesNodes({ nodes, operator }: StatusReport): boolean {
  return nodes.length > 0 || operator.state !== 'unknown';
}
