/** Which kind of reports is written: the one that the user chose, or the one that is installed. */
import { type ReportKind, reportKinds } from '../../../guard/reports/report-entry.ts';
import { servedReportKinds } from '../../../guard/reports/served-kinds.ts';
import type { KubeClient } from '../../../lib/kube/client/client.ts';

export type WantedReportKind = ReportKind | 'auto';
export const wantedReportKinds: readonly WantedReportKind[] = ['auto', ...reportKinds];

/** The kind in deploy/policy-reports/, which has to be installed if the cluster has no kind of reports. */
export const usualReportKind: ReportKind = 'policyreport';

/** @returns undefined for `auto` if the API serves no reports. @throws {KubeError} if the API does not answer. */
export async function servedReportKind(
  wanted: WantedReportKind,
  client: KubeClient,
  signal: AbortSignal,
): Promise<ReportKind | undefined> {
  if (wanted !== 'auto') return wanted;
  return (await servedReportKinds(client, signal))[0];
}
