/**
 * What `rampart doctor` says of network policies, as text for people.
 *
 * @module
 */
import { paint, renderTable } from '../../shared/observe/table.ts';
import type { NetworkPolicyMachine } from '../../systems/network-policy/node/machine.ts';
import type { TextOptions } from './report.ts';

/** Ends with a newline. */
export function renderNetwork({ backend, facts }: NetworkPolicyMachine, options: TextOptions): string {
  const rows = facts.map(({ name, available, detail }) => ({
    cells: [
      name,
      available ? { text: 'yes', style: 'green' as const } : { text: 'no', style: 'red' as const },
    ],
    note: detail,
  }));
  const verdict =
    backend === null
      ? paint('red', 'Network policies cannot be programmed here.', options.colour)
      : `Network policies use ${paint('green', backend, options.colour)}.`;
  return `${renderTable(rows, { ...options, head: ['NETWORK POLICY', 'HERE'] })}\n\n${verdict}\n`;
}
