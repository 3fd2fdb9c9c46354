/** The toy guard's output for people. */
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
      objects: doors.map(({ metadata: { namespace = null, name = '', generation = 0 } }) => ({
        ...{ kind: 'Door', namespace, name, revision: generation },
        needs: [],
        problems: [],
      })),
      fields: () => ({ doors: doors.map(({ metadata }) => metadata.name) }),
      headline: () => (doors.length === 0 ? '' : `${doors.length} doors are greeted.`),
      table: (_, options) =>
        rows.length === 0 ? '' : renderTable(rows, { head: ['DOOR', 'SEEN'], ...options }),
      foot: [],
    };
  },
};

export const doorLines: readonly LineKind[] = [
  {
    kind: 'Greeting',
    view: ({ head: { policy, message } }) => ({
      pretty: () => `${policy?.namespace}/${policy?.name}: ${message}`,
    }),
  },
];
