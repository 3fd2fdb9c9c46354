import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { examine } from './examine.ts';
import {
  filteredLines,
  kiveDataLines,
  nodeCells,
  nodeColumns,
  policyHeadline,
  policyTable,
} from './render.ts';
import type { FileAccessFields } from './report.ts';
import { type Snapshot, takeSnapshot } from './snapshot.ts';

export const fileAccessStatus: StatusSection = {
  read: async (context) => fileAccessSection(await takeSnapshot(context), context.timeMs),
};

/** The section for a snapshot; ages are relative to `timeMs`. */
export function fileAccessSection(snapshot: Snapshot, timeMs: number): SectionReport {
  const { policies, objects, kiveData, filteredAccesses, nodeNames, nodeOf } = examine(snapshot);
  const isReadable = snapshot.policies !== undefined;
  return {
    objects: isReadable ? objects : undefined,
    fields: (verdict) =>
      ({
        policies: isReadable
          ? policies.map((policy) => ({
              ...policy,
              guarded: policy.deleting || verdict.of({ kind: 'KivePolicy', ...policy }).length === 0,
            }))
          : null,
        ...{ kiveData, filteredAccesses },
      }) satisfies FileAccessFields,
    headline: ({ failing }, { colour }) =>
      policyHeadline(objects.length, failing, snapshot.namespace, colour),
    table: (verdict, options) => policyTable(policies, verdict, timeMs, options),
    foot: [...kiveDataLines(kiveData), ...filteredLines(filteredAccesses)],
    nodes: {
      names: nodeNames,
      columns: nodeColumns,
      of(name) {
        const fields = nodeOf(name);
        const { state } = fields.loader;
        return {
          fields: { ...fields },
          cells: nodeCells(name, fields),
          isDoubtful: state === 'stale' || state === 'free',
        };
      },
    },
  };
}
