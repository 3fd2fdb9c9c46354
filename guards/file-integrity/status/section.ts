import type { SectionReport, StatusSection } from '../../../guard/status-section.ts';
import { integrityReports } from './examine.ts';
import { integrityHeadline, integrityTable } from './render.ts';
import type { IntegrityReport } from './report.ts';
import { readIntegrities } from './snapshot.ts';

export const fileIntegrityStatus: StatusSection = {
  async read(context) {
    const integrities = await context.orForbidden('fileintegrities', () => readIntegrities(context));
    const nodes = (await context.nodes()) ?? [];
    return integritySection(integrities && integrityReports(integrities, nodes), context.timeMs);
  },
};

/** What the reports say; without any where they may not be read. Ages count from `timeMs`. */
export function integritySection(
  reports: readonly IntegrityReport[] | undefined,
  timeMs: number,
): SectionReport {
  const known = reports ?? [];
  return {
    fields: { fileIntegrities: reports ?? null },
    isAsked: known.length > 0,
    guarded: known.every(({ guarded }) => guarded),
    headline: ({ colour }) => integrityHeadline(known, colour),
    table: (options) => integrityTable(known, timeMs, options),
    foot: [],
  };
}
