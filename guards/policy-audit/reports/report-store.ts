/** Reports about one object each, named by the object's uid, as written by Kubewarden's audit scanner. */
import type { GuardContext } from '../../../guard/context.ts';
import type { CacheChange } from '../../../lib/kube/cache/indexed-cache.ts';
import { isOlder } from '../../../lib/kube/object/resource-version.ts';
import { loopSlice } from '../../../lib/time/loop-slice.ts';
import { isPartName } from './part-name.ts';
import { CachedReports } from './cached-reports.ts';
import { isBehind, MAX_ATTEMPTS } from './report-api.ts';
import {
  type CachedReport,
  objectReportFacts,
  type ReportFacts,
  type ReportSubject,
} from './report-facts.ts';
import { type AuditReport, digestOf, type ReportTypes } from './report.ts';
import type { KnownReport, ReportChange, Reports } from './reports.ts';

type Facts = ReportFacts | undefined;

export class ReportStore extends CachedReports<Facts> implements Reports {
  /** Reports that are being written. */
  readonly #writing = new Set<string>();

  constructor(context: GuardContext, types: ReportTypes) {
    super(context, types, objectReportFacts);
  }

  facts(namespace: string, uid: string): KnownReport | undefined {
    const [namespaced, cluster] = this.caches;
    const found = namespace === '' ? cluster.get(uid) : namespaced.get(`${namespace}/${uid}`);
    if (found?.facts === undefined) return undefined;
    const { resourceVersion = '', uid: reportUid } = found.metadata;
    return { ...found.facts, version: resourceVersion, reportUid };
  }

  read(namespace: string, uid: string, signal: AbortSignal): Promise<AuditReport | undefined> {
    return this.api.read(namespace, uid, signal);
  }

  async write(
    report: AuditReport,
    known: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { namespace = '', name: uid = '' } = report.metadata;
    let version = known;
    this.#writing.add(uid);
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          return await this.api.write(report, version, signal);
        } catch (error) {
          if (await this.api.isGoing(error, namespace, version === undefined, signal)) return undefined;
          if (!isBehind(error) || attempt >= MAX_ATTEMPTS) throw error;
          const there = await this.read(namespace, uid, signal);
          if (there !== undefined && digestOf(there) === digestOf(report))
            return there.metadata.resourceVersion ?? '';
          version = there?.metadata.resourceVersion;
        }
      }
    } finally {
      this.#writing.delete(uid);
    }
  }

  async delete(
    namespace: string,
    uid: string,
    written: string | undefined,
    signal: AbortSignal,
  ): Promise<void> {
    const known = this.facts(namespace, uid);
    const isLate =
      written !== undefined &&
      written !== '' &&
      (known === undefined || known.version === '' || isOlder(known.version, written));
    if (isLate) await this.api.delete(namespace, uid, { resourceVersion: written }, signal);
    else if (known !== undefined) {
      const { version, reportUid } = known;
      await this.api.delete(namespace, uid, { resourceVersion: version, uid: reportUid }, signal);
    }
  }

  flush(): Promise<void> {
    return Promise.resolve();
  }

  async sweep(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void> {
    for (const cache of this.caches) {
      // Collected first, because deletions change the cache.
      for (const key of [...cache.keys()]) {
        if (!isPartName(key)) continue;
        const { namespace = '', name = '', uid, resourceVersion = '' } = cache.get(key)?.metadata ?? {};
        if (name !== '' && isAudited(namespace))
          await this.api.delete(namespace, name, { resourceVersion, uid }, signal);
        if (loopSlice.over) await loopSlice.next();
      }
    }
  }

  *all(): Generator<{ readonly namespace: string; readonly uid: string; readonly scope: ReportSubject }> {
    for (const cache of this.caches) {
      for (const { metadata, facts } of cache.list()) {
        if (facts === undefined) continue;
        yield { namespace: metadata.namespace ?? '', uid: metadata.name ?? '', scope: facts.scope };
      }
    }
  }

  subscribe(listener: (change: ReportChange) => void): Disposable {
    const own = ({ type, object, previous }: CacheChange<CachedReport<Facts>>): void => {
      const uid = object.metadata.name ?? '';
      if (this.#writing.has(uid)) return;
      const { metadata } = type === 'deleted' ? (previous ?? object) : object;
      const digest = type === 'deleted' ? undefined : (object.facts?.digest ?? '');
      listener({ uid, digest, version: metadata.resourceVersion ?? '' });
    };
    const stack = new DisposableStack();
    for (const cache of this.caches) stack.use(cache.subscribe(own));
    return stack;
  }
}
