/**
 * Reports that are written nowhere: of a scan whose results are only to be told.
 *
 * @module
 */
import type { AuditReport } from './report.ts';
import { reportFacts, type ReportFacts, type Reports } from './report-store.ts';

export class MemoryReports implements Reports {
  readonly #reports = new Map<string, AuditReport>();
  writes = 0;
  deletions = 0;

  facts(_namespace: string, uid: string): ReportFacts | undefined {
    const report = this.#reports.get(uid);
    return report === undefined ? undefined : reportFacts(report);
  }

  isWriting(): boolean {
    return false;
  }

  async read(_namespace: string, uid: string): Promise<AuditReport | undefined> {
    await Promise.resolve();
    return this.#reports.get(uid);
  }

  async write(report: AuditReport): Promise<string> {
    await Promise.resolve();
    this.#reports.set(report.metadata.name ?? '', report);
    return '';
  }

  async delete(_namespace: string, uid: string): Promise<void> {
    await Promise.resolve();
    this.#reports.delete(uid);
  }

  *all(): Generator<ReportFacts> {
    for (const report of this.#reports.values()) yield reportFacts(report);
  }

  /** In no order. */
  list(): AuditReport[] {
    return [...this.#reports.values()];
  }
}
