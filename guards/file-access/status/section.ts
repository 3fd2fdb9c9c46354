import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { examine } from './examine.ts';
import { kiveDataLines, nodeCells, nodeColumns, policyHeadline, policyTable } from './render.ts';
import { type Snapshot, takeSnapshot } from './snapshot.ts';

export const fileAccessStatus: StatusSection = {
  read: async (context) => fileAccessSection(await takeSnapshot(context), context.timeMs),
};

/** What the snapshot says; ages count from `timeMs`. */
export function fileAccessSection(snapshot: Snapshot, timeMs: number): SectionReport {
  const { policies, kiveData, nodeNames, nodeOf } = examine(snapshot);
  const named = new Set(policies.flatMap(({ problems }) => problems.map(({ node }) => node)));
  return {
    fields: { policies, kiveData },
    isAsked: policies.length > 0,
    guarded: policies.every(({ guarded }) => guarded),
    headline: ({ colour }) => policyHeadline(policies, snapshot.namespace, colour),
    table: (options) => policyTable(policies, timeMs, options),
    foot: kiveDataLines(kiveData),
    nodes: {
      names: nodeNames,
      columns: nodeColumns,
      of(name) {
        const fields = nodeOf(name);
        const { state, holder } = fields.loader;
        return {
          fields: { ...fields },
          cells: nodeCells(name, fields),
          isDoubtful: state === 'stale' || state === 'free' || named.has(name),
          isRunning: state === 'held' && (holder ?? '').startsWith(`${name}_`),
        };
      },
    },
  };
}
