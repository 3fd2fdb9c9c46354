import { isNotFound } from '../../lib/kube/client/client-errors.ts';
import type { KubeClient } from '../../lib/kube/client/client.ts';
import { apiResources } from '../../lib/kube/client/discovery.ts';
import { type ReportKind, reportKinds } from './report-entry.ts';
import { reportTypes } from './report-types.ts';

/** The served kinds of reports. Only the first one is written: readers of both would see each result twice. @throws {KubeError} */
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
