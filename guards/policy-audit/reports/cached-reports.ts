/** Common to both forms of reports: the caches of the reports in the API, and the calls that change them. */
import type { GuardContext } from '../../../guard/context.ts';
import type { IndexedCache } from '../../../lib/kube/cache/indexed-cache.ts';
import type { CachedReport } from './report-facts.ts';
import { ReportApi } from './report-api.ts';
import { ourReports, type ReportTypes } from './report.ts';

export abstract class CachedReports<Facts> {
  protected readonly api: ReportApi;
  /** The reports in namespaces, then the cluster-scoped ones. */
  protected readonly caches: readonly [IndexedCache<CachedReport<Facts>>, IndexedCache<CachedReport<Facts>>];

  constructor(
    context: GuardContext,
    types: ReportTypes,
    projection: (report: CachedReport<Facts>) => CachedReport<Facts>,
  ) {
    this.api = new ReportApi(context.client, types);
    const cache = (type: ReportTypes['cluster']): IndexedCache<CachedReport<Facts>> =>
      context.cache<CachedReport<Facts>>({
        type: type as unknown as IndexedCache<CachedReport<Facts>>['type'],
        labelSelector: ourReports,
        projection,
        parsedLimit: 64,
      });
    this.caches = [cache(types.namespaced), cache(types.cluster)];
  }

  get writes(): number {
    return this.api.writes;
  }

  get deletions(): number {
    return this.api.deletions;
  }

  get synced(): Promise<unknown> {
    return Promise.all(this.caches.map(({ synced }) => synced));
  }

  get isSynced(): boolean {
    return this.caches.every(({ isSynced }) => isSynced);
  }

  removeOtherKind(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void> {
    return this.api.removeOtherKind(isAudited, signal);
  }
}
