/**
 * Reports of objects in the API. What somebody else has written in between is never overwritten unseen: every write and every
 * deletion says which state it is for.
 *
 * @module
 */
import { isAlreadyExists, isConflict, isForbidden, isNotFound } from '../../../shared/kube/client-errors.ts';
import type { KubeClient } from '../../../shared/kube/client.ts';
import type { IndexedCache } from '../../../shared/kube/indexed-cache.ts';
import { type KubeObject, namespaces } from '../../../shared/kube/object.ts';
import { isOlder } from '../../../shared/kube/resource-version.ts';
import { type AuditReport, digestOf, marksOf, type ReportTypes, type Scope } from './report.ts';

/** What is kept of a report in memory. */
export interface ReportFacts extends KubeObject {
  readonly facts: {
    readonly scope: Scope | undefined;
    readonly digest: string;
    readonly marks: string;
    /** A letter for each result: see object-states.ts. */
    readonly outcome: string;
  };
}

/** For caches: 400 bytes in place of several thousand. */
export function reportFacts(report: KubeObject): ReportFacts {
  const { scope, summary, results } = report as AuditReport;
  const { apiVersion, kind, metadata } = report;
  const { namespace, name, uid, resourceVersion } = metadata;
  return {
    ...(apiVersion !== undefined && { apiVersion }),
    ...(kind !== undefined && { kind }),
    metadata: {
      ...(namespace !== undefined && { namespace }),
      ...(name !== undefined && { name }),
      ...(uid !== undefined && { uid }),
      ...(resourceVersion !== undefined && { resourceVersion }),
    },
    facts: {
      scope,
      digest: digestOf({ scope: scope as Scope, summary, results: results ?? [] }),
      marks: marksOf(results ?? []),
      outcome: (results ?? []).map(({ result }) => result.slice(0, 1)).join(''),
    },
  };
}

/** Where reports of objects are. `namespace` is '' for what is in none; a report is called after the uid of its object. */
export interface Reports {
  readonly writes: number;
  readonly deletions: number;
  /** What is known of a report without reading it; undefined where there is none. */
  facts(namespace: string, uid: string): ReportFacts | undefined;
  /** Whether a write of it is under way. */
  isWriting(uid: string): boolean;
  /** The report as a whole; undefined where there is none. @throws {KubeError} */
  read(namespace: string, uid: string, signal: AbortSignal): Promise<AuditReport | undefined>;
  /**
   * Makes the report so.
   *
   * @param known its version, where there is one.
   * @returns its version; undefined where its namespace is going.
   * @throws {KubeError}
   */
  write(report: AuditReport, known: string | undefined, signal: AbortSignal): Promise<string | undefined>;
  /**
   * Deletes a report as it is known; one that is another by now stays.
   *
   * @param written the version that was written last: `facts` may be behind.
   * @throws {KubeError}
   */
  delete(namespace: string, uid: string, written: string | undefined, signal: AbortSignal): Promise<void>;
  /** All that there are. */
  all(): Iterable<ReportFacts>;
}

export interface ReportStoreOptions {
  readonly client: KubeClient;
  readonly types: ReportTypes;
  readonly namespaced: IndexedCache<ReportFacts>;
  readonly cluster: IndexedCache<ReportFacts>;
}

const MAX_ATTEMPTS = 5;

export class ReportStore implements Reports {
  readonly #options: ReportStoreOptions;
  /** Reports that a write is under way of. */
  readonly #writing = new Set<string>();
  writes = 0;
  deletions = 0;

  constructor(options: ReportStoreOptions) {
    this.#options = options;
  }

  facts(namespace: string, uid: string): ReportFacts | undefined {
    const { namespaced, cluster } = this.#options;
    return namespace === '' ? cluster.get(uid) : namespaced.get(`${namespace}/${uid}`);
  }

  isWriting(uid: string): boolean {
    return this.#writing.has(uid);
  }

  async read(namespace: string, uid: string, signal: AbortSignal): Promise<AuditReport | undefined> {
    const { client } = this.#options;
    try {
      return await client.get(this.#type(namespace), target(namespace, uid), { signal });
    } catch (error) {
      if (isNotFound(error)) return undefined;
      throw error;
    }
  }

  async write(
    report: AuditReport,
    known: string | undefined,
    signal: AbortSignal,
  ): Promise<string | undefined> {
    const { client } = this.#options;
    const { namespace = '', name: uid = '' } = report.metadata;
    const type = this.#type(namespace);
    let version = known;
    this.#writing.add(uid);
    try {
      for (let attempt = 1; ; attempt++) {
        try {
          const { metadata } = report;
          const written =
            version === undefined
              ? await client.create(type, report, { signal })
              : await client.update(
                  type,
                  { ...report, metadata: { ...metadata, resourceVersion: version } },
                  { signal },
                );
          this.writes++;
          return written.metadata.resourceVersion ?? '';
        } catch (error) {
          if (await this.#isGoing(error, namespace, version === undefined, signal)) return undefined;
          const isBehind = isConflict(error) || isAlreadyExists(error) || isNotFound(error);
          if (!isBehind || attempt >= MAX_ATTEMPTS) throw error;
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
    const cached = this.facts(namespace, uid)?.metadata;
    const version = cached?.resourceVersion ?? '';
    const isBehind = written !== undefined && written !== '' && (version === '' || isOlder(version, written));
    if (!isBehind && cached === undefined) return;
    const preconditions = isBehind
      ? { resourceVersion: written }
      : { resourceVersion: version, ...(cached?.uid !== undefined && { uid: cached.uid }) };
    try {
      await this.#options.client.delete(this.#type(namespace), target(namespace, uid), {
        preconditions,
        signal,
      });
      this.deletions++;
    } catch (error) {
      if (!isNotFound(error)) throw error;
    }
  }

  *all(): Generator<ReportFacts> {
    yield* this.#options.namespaced.list();
    yield* this.#options.cluster.list();
  }

  #type(namespace: string): ReportTypes['cluster'] {
    return namespace === '' ? this.#options.types.cluster : this.#options.types.namespaced;
  }

  /** Nothing is created in a namespace that is being deleted, or that is gone. */
  async #isGoing(
    error: unknown,
    namespace: string,
    isCreated: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    if (namespace === '' || !isCreated || !(isForbidden(error) || isNotFound(error))) return false;
    try {
      const { metadata } = await this.#options.client.get(namespaces, { name: namespace }, { signal });
      return metadata.deletionTimestamp !== undefined;
    } catch (missing) {
      if (isNotFound(missing)) return true;
      throw missing;
    }
  }
}

function target(namespace: string, name: string): { readonly name: string; readonly namespace?: string } {
  return namespace === '' ? { name } : { namespace, name };
}
