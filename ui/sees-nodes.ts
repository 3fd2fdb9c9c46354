import type { StatusReport } from '../apps/status/report.ts';

/** Whether this user may read anything of nodes and agents. Else all of it is missing, and not gone. */
export function seesNodes({ nodes, operator }: StatusReport): boolean {
  return nodes.length > 0 || operator.state !== 'unknown';
}
