import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { apiResources } from '../../lib/kube/client/discovery.ts';
import { type ReportKind, reportKinds } from './report-entry.ts';
import { reportTypes } from './report-types.ts';

/** The kinds of reports that the API serves, the one to write first: readers of both would see each result twice. @throws {KubeError} */
export async function servedReportKinds(client: KubeClient, signal: AbortSignal): Promise<ReportKind[]> {
  const found: ReportKind[] = [];
  for (const kind of reportKinds) {
    const type = reportTypes[kind].namespaced;
    const resources = await apiResources(client, type, { signal }).catch((error: unknown) => {
      if (isNotFound(error)) return [];
      throw error;
    });
    if (resources.some(({ name }) => name === type.plural)) found.push(kind);
  }
  return found;
}
