/** Reports in memory only: for a scan whose results are only printed. */
import { partName } from './part-name.ts';
import { partReport } from './part-report.ts';
import { factsOf } from './report-facts.ts';
import { type AuditReport, type ReportsBy, type ReportTypes, runLabel, type Scope } from './report.ts';
import type { KnownReport, Reports } from './reports.ts';

export class MemoryReports implements Reports {
  readonly #reports = new Map<string, AuditReport & { readonly scope: Scope }>();
  readonly writes = 0;
  readonly deletions = 0;
  readonly synced = Promise.resolve();
  readonly isSynced = true;

  facts(_namespace: string, uid: string): KnownReport | undefined {
    const report = this.#reports.get(uid);
    return report && { ...factsOf(report.scope, report.results), version: '', reportUid: undefined };
  }

  read(_namespace: string, uid: string): Promise<AuditReport | undefined> {
    return Promise.resolve(this.#reports.get(uid));
  }

  write({ scope, ...report }: AuditReport): Promise<string> {
    if (scope === undefined) throw new TypeError('a report without an object');
    this.#reports.set(scope.uid, { ...report, scope });
    return Promise.resolve('');
  }

  delete(_namespace: string, uid: string): Promise<void> {
    this.#reports.delete(uid);
    return Promise.resolve();
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  sweep(): Promise<void> {
    return Promise.resolve();
  }

  removeOtherKind(): Promise<void> {
    return Promise.resolve();
  }

  *all(): Generator<{ readonly namespace: string; readonly uid: string; readonly scope: Scope }> {
    for (const [uid, { scope }] of this.#reports) yield { namespace: scope.namespace ?? '', uid, scope };
  }

  subscribe(): Disposable {
    return { [Symbol.dispose]: () => undefined };
  }

  /** The reports as they would be written, in no particular order. */
  list(types: ReportTypes, reportsBy: ReportsBy): AuditReport[] {
    const all = [...this.#reports.values()];
    if (reportsBy === 'object') return all;
    const byNamespace = Map.groupBy(all, ({ scope }) => scope.namespace ?? '');
    return Array.from(byNamespace, ([namespace, entries]) => {
      const { [runLabel]: runUid = '' } = entries[0]?.metadata.labels ?? {};
      return partReport(types, { namespace, name: partName(namespace, 1) }, entries, runUid);
    });
  }
}
