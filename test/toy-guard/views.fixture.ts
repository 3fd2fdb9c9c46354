/** What people see of the toy guard. */
import type { LineKind } from '../../guard/line-kind.ts';
import type { StatusSection } from '../../guard/status-section.ts';
import { renderTable } from '../../lib/output/table.ts';
import { type Door, doorType } from './guard.fixture.ts';

export const doorStatus: StatusSection = {
  async read(context) {
    const doors: Door[] = [];
    await context.list(doorType, (door) => doors.push(door), { namespace: context.namespace });
    const rows = doors.map(({ metadata: { namespace, name }, status }) => ({
      cells: [`${namespace}/${name}`, String(status?.seen ?? '-')],
    }));
    return {
      fields: { doors: doors.map(({ metadata }) => metadata.name) },
      isAsked: doors.length > 0,
      guarded: true,
      headline: () => (doors.length === 0 ? '' : `${doors.length} doors are greeted.`),
      table: (options) =>
        rows.length === 0 ? '' : renderTable(rows, { head: ['DOOR', 'SEEN'], ...options }),
      foot: [],
    };
  },
};

const start = '{"kind":"Greeting",';

export const doorLines: readonly LineKind[] = [
  {
    start,
    parse(line) {
      const { timeMs, door, text } = JSON.parse(line) as { timeMs: number; door: string; text: string };
      const [namespace, name = ''] = door.split('/');
      return {
        timeNs: BigInt(timeMs) * 1_000_000n,
        policy: [namespace, name],
        pod: [undefined, ''],
        pretty: () => `${door}: ${text}`,
      };
    },
  },
];
