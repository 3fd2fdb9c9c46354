import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { type Examined, examineIntegrities } from './examine.ts';
import { integrityHeadline, integrityTable } from './render.ts';
import type { FileIntegrityFields } from './report.ts';
import { readIntegrities } from './snapshot.ts';

export const fileIntegrityStatus: StatusSection = {
  async read(context) {
    const integrities = await context.orForbidden('fileintegrities', () => readIntegrities(context));
    const [nodes = [], agents] = await Promise.all([context.nodes(), context.agents()]);
    return integritySection(
      integrities && examineIntegrities(integrities, { nodes, agents }),
      context.timeMs,
    );
  },
};

/** @param all - Undefined if they may not be read. @param timeMs - Ages are relative to this time. */
export function integritySection(all: readonly Examined[] | undefined, timeMs: number): SectionReport {
  const reports = (all ?? []).map(({ report }) => report);
  return {
    objects: all?.flatMap(({ object }) => object ?? []),
    fields: (verdict) =>
      ({
        fileIntegrities:
          all === undefined
            ? null
            : reports.map((report) => ({
                ...report,
                guarded: report.deleting || verdict.of({ kind: 'FileIntegrity', ...report }).length === 0,
              })),
      }) satisfies FileIntegrityFields,
    headline: (verdict, { colour }) => integrityHeadline(reports, verdict, colour),
    table: (verdict, options) => integrityTable(reports, verdict, timeMs, options),
    foot: [],
  };
}
