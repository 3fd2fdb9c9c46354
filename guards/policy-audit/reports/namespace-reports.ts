/**
 * One report for all objects of a namespace, split into parts that the API accepts. A change of one object writes
 * one part. An object stays in its part as long as it fits there, so that parts are stable.
 */
import type { GuardContext } from '../../../guard/context.ts';
import type { CacheChange } from '../../../lib/kube/cache/indexed-cache.ts';
import { isOlder } from '../../../lib/kube/object/resource-version.ts';
import { Listeners } from '../../../lib/time/listeners.ts';
import { loopSlice } from '../../../lib/time/loop-slice.ts';
import { Part, type Pending } from './part.ts';
import { partNumber } from './part-name.ts';
import { type CachedPart, entriesOf, type Entry, partFacts, partReport, sizeOf } from './part-report.ts';
import { factsOf } from './report-facts.ts';
import { CachedReports } from './cached-reports.ts';
import { isBehind, MAX_ATTEMPTS } from './report-api.ts';
import { type AuditReport, type ReportTypes, type Scope } from './report.ts';
import type { KnownReport, ReportChange, Reports } from './reports.ts';

/** Limit of a part. By default, etcd accepts requests of up to 1.5 MiB, and a report also has metadata. */
const PART_BYTES = 1 << 20;
/** Limit of unwritten parts per namespace; if there are more, those with the most changes are written. */
const MAX_PENDING_PARTS = 4;
/** Maximum number of reports cached after being read for an object in them. */
const MAX_READ_PARTS = 4;

/** A report's content, as read or written. */
interface Content {
  readonly version: string;
  readonly entries: ReadonlyMap<string, Entry>;
}

export interface NamespaceReportsOptions {
  readonly types: ReportTypes;
  readonly runUid: string;
  /** Default: 1 MiB. */
  readonly partBytes?: number;
}

export class NamespaceReports extends CachedReports<CachedPart['facts']> implements Reports {
  readonly #options: NamespaceReportsOptions;
  /** Keyed by namespace; the index of a part is its number. */
  readonly #parts = new Map<string, Part[]>();
  /** The parts that were read most recently; the oldest is evicted first. */
  readonly #read = new Map<Part, Promise<Content | undefined>>();
  readonly #listeners = new Listeners<[change: ReportChange]>();
  /** The current write of each part; there is only one at a time. */
  readonly #writes = new Map<Part, Promise<void>>();
  /** Parts that were deleted while being written, and the deleted version. */
  readonly #late = new Map<Part, string>();

  /** Follows reports until the signal of the context aborts. */
  constructor(context: GuardContext, options: NamespaceReportsOptions) {
    super(context, options.types, partFacts);
    this.#options = options;
    for (const cache of this.caches) {
      for (const one of cache.list()) this.#take(one);
      const subscription = cache.subscribe((change) => this.#onReport(change));
      context.signal.addEventListener('abort', () => subscription[Symbol.dispose](), { once: true });
    }
  }

  facts(namespace: string, uid: string): KnownReport | undefined {
    const part = this.#partOf(namespace, uid);
    if (part === undefined || part.waiting(uid).has) return undefined;
    const found = this.#cached(part);
    // The version that was written may be newer than the one in the watch.
    if (found === undefined || found.metadata.resourceVersion !== part.version) return undefined;
    const entry = found.facts.entries.find(({ scope }) => scope.uid === uid);
    return entry === undefined ? undefined : { ...entry, version: '', reportUid: undefined };
  }

  async read(namespace: string, uid: string, signal: AbortSignal): Promise<Entry | undefined> {
    const part = this.#partOf(namespace, uid);
    if (part === undefined) return undefined;
    const { has, entry } = part.waiting(uid);
    if (has) return entry;
    return (await this.#content(part, signal))?.entries.get(uid);
  }

  async write(report: AuditReport, _known: string | undefined, signal: AbortSignal): Promise<string> {
    const { namespace = '', name: uid = '' } = report.metadata;
    const { scope, results } = report;
    if (scope === undefined) throw new TypeError('a report without an object');
    const entry = { scope, results };
    const { partBytes = PART_BYTES } = this.#options;
    const sizeBytes = sizeOf(entry);
    const before = this.#partOf(namespace, uid);
    const isStaying = before?.fits(uid, sizeBytes, partBytes) === true;
    if (before !== undefined && !isStaying) before.set(uid, undefined);
    const parts = this.#partsOf(namespace);
    const part = isStaying
      ? before
      : (parts.find((one) => one !== before && one.fits(uid, sizeBytes, partBytes)) ??
        newPart(namespace, parts));
    part.set(uid, entry);
    const pending = parts.filter((one) => one.pending > 0);
    if (pending.length > MAX_PENDING_PARTS) {
      await this.#write(
        pending.reduce((max, one) => (one.pending > max.pending ? one : max)),
        signal,
      );
    }
    return '';
  }

  delete(namespace: string, uid: string): Promise<void> {
    this.#partOf(namespace, uid)?.set(uid, undefined);
    return Promise.resolve();
  }

  async flush(namespace: string, signal: AbortSignal): Promise<void> {
    for (const part of [...this.#partsOf(namespace)]) await this.#write(part, signal);
  }

  async sweep(isAudited: (namespace: string) => boolean, signal: AbortSignal): Promise<void> {
    for (const namespace of [...this.#parts.keys()]) await this.flush(namespace, signal);
    for (const cache of this.caches) {
      for (const key of [...cache.keys()]) {
        const { metadata, facts } = cache.get(key) ?? {};
        if (loopSlice.over) await loopSlice.next();
        if (facts?.isOfObject !== true) continue;
        const { namespace = '', name = '', uid, resourceVersion = '' } = metadata ?? {};
        if (isAudited(namespace)) await this.api.delete(namespace, name, { resourceVersion, uid }, signal);
      }
    }
  }

  *all(): Generator<{ readonly namespace: string; readonly uid: string; readonly scope: Scope }> {
    for (const [namespace, parts] of this.#parts) {
      for (const part of [...parts]) {
        for (const { scope } of this.#cached(part)?.facts.entries ?? [])
          if (part.has(scope.uid)) yield { namespace, uid: scope.uid, scope };
      }
    }
  }

  subscribe(listener: (change: ReportChange) => void): Disposable {
    return this.#listeners.add(listener);
  }

  #cached({ namespace, key }: Part): CachedPart | undefined {
    return this.caches[namespace === '' ? 1 : 0].get(key);
  }

  #partsOf(namespace: string): Part[] {
    let parts = this.#parts.get(namespace);
    if (parts === undefined) this.#parts.set(namespace, (parts = []));
    return parts;
  }

  #partOf(namespace: string, uid: string): Part | undefined {
    return this.#parts.get(namespace)?.find((part) => part.has(uid));
  }

  #onReport({ type, object, previous }: CacheChange<CachedPart>): void {
    if (type !== 'deleted') {
      this.#take(object);
      return;
    }
    const part = this.#named(object);
    const { resourceVersion = '' } = (previous ?? object).metadata;
    if (part?.isWriting === true) this.#late.set(part, resourceVersion);
    else if (part !== undefined) this.#onDeleted(part, resourceVersion);
  }

  #onDeleted(part: Part, version: string): void {
    if (part.version === undefined || isOlder(version, part.version)) return;
    for (const uid of part.is(undefined, new Map())) this.#notify({ uid, digest: undefined, version });
  }

  #named({ metadata: { namespace = '', name = '' } }: CachedPart): Part | undefined {
    const number = partNumber(namespace === '' ? name : `${namespace}/${name}`);
    if (number === 0) return undefined;
    const parts = this.#partsOf(namespace);
    return parts.find((part) => part.number === number) ?? newPart(namespace, parts, number);
  }

  /** Processes a report from the watch; nothing changes if it was written here. */
  #take(report: CachedPart): void {
    const part = this.#named(report);
    const { namespace = '', resourceVersion: version = '' } = report.metadata;
    if (part === undefined || part.isWriting) return;
    if (part.version !== undefined && (part.version === version || isOlder(version, part.version))) return;
    const { entries } = report.facts;
    const gone = part.is(version, new Map(entries.map(({ scope, sizeBytes }) => [scope.uid, sizeBytes])));
    for (const uid of gone) this.#notify({ uid, digest: undefined, version });
    for (const { scope, digest } of entries) {
      const { uid } = scope;
      // Two scanners, or one that was killed in between, may have put the object into two parts: only the first one is kept.
      const all = this.#partsOf(namespace).filter((one) => one.has(uid));
      for (const another of all.slice(1)) another.set(uid, undefined);
      const isIt = all[0] === part && all.length === 1;
      this.#notify({ uid, digest: isIt ? digest : '', version });
    }
  }

  #notify(change: ReportChange): void {
    this.#listeners.notify(change);
  }

  /** The contents of a part in the API; undefined if it does not exist. */
  async #content(part: Part, signal: AbortSignal): Promise<Content | undefined> {
    if (part.version === undefined) return undefined;
    const known = this.#read.get(part);
    if (known !== undefined) {
      const content = await known;
      if (content !== undefined && content.version === part.version) return content;
      if (this.#read.get(part) === known) this.#read.delete(part);
      return this.#content(part, signal);
    }
    return this.#keep(part, this.#fetch(part, signal));
  }

  async #fetch({ namespace, name }: Part, signal: AbortSignal): Promise<Content | undefined> {
    const report = await this.api.read(namespace, name, signal);
    if (report === undefined) return undefined;
    return { version: report.metadata.resourceVersion ?? '', entries: entriesOf(report) };
  }

  #keep(part: Part, content: Promise<Content | undefined>): Promise<Content | undefined> {
    this.#read.delete(part);
    this.#read.set(part, content);
    content.catch(() => this.#read.delete(part));
    const [oldest] = this.#read.keys();
    if (this.#read.size > MAX_READ_PARTS && oldest !== undefined) this.#read.delete(oldest);
    return content;
  }

  async #write(part: Part, signal: AbortSignal): Promise<void> {
    for (let before = this.#writes.get(part); before !== undefined; before = this.#writes.get(part)) {
      await before.catch(() => undefined);
    }
    if (part.pending === 0) return;
    const writing = this.#writeNow(part, signal).finally(() => this.#writes.delete(part));
    this.#writes.set(part, writing);
    await writing;
  }

  async #writeNow(part: Part, signal: AbortSignal): Promise<void> {
    const pending = part.begin();
    let isDone = false;
    try {
      await this.#merge(part, pending, signal);
      isDone = true;
    } finally {
      part.end(isDone);
      // Changes by other clients in the meantime have not been processed.
      const seen = this.#cached(part);
      if (seen !== undefined && part.version !== undefined) this.#take(seen);
      const deleted = this.#late.get(part);
      if (this.#late.delete(part) && deleted !== undefined) this.#onDeleted(part, deleted);
    }
  }

  /** Finds what other clients have changed in a part that is written before the watch has reported their changes. */
  #compare(part: Part, base: Content | undefined, pending: Pending): void {
    const version = base?.version ?? part.version ?? '';
    for (const uid of part.uids) {
      if (base?.entries.has(uid) !== true && !pending.has(uid))
        this.#notify({ uid, digest: undefined, version });
    }
    for (const [uid, { scope, results }] of base?.entries ?? []) {
      if (!pending.has(uid)) this.#notify({ uid, digest: factsOf(scope, results).digest, version });
    }
  }

  async #merge(part: Part, pending: Pending, signal: AbortSignal): Promise<void> {
    const { namespace, name } = part;
    const { types, runUid } = this.#options;
    let base = await this.#content(part, signal);
    for (let attempt = 1; ; attempt++) {
      if (base?.version !== part.version) this.#compare(part, base, pending);
      const entries = new Map(base?.entries);
      for (const [uid, entry] of pending) {
        if (entry === undefined) entries.delete(uid);
        else entries.set(uid, entry);
      }
      try {
        let version: string | undefined;
        if (entries.size > 0) {
          const report = partReport(types, { namespace, name }, entries.values(), runUid);
          version = await this.api.write(report, base?.version, signal);
          void this.#keep(part, Promise.resolve({ version, entries }));
        } else if (base !== undefined) {
          await this.api.delete(namespace, name, { resourceVersion: base.version }, signal);
        }
        part.is(version, new Map([...entries].map(([uid, entry]) => [uid, sizeOf(entry)])));
        return;
      } catch (error) {
        // If the namespace is being deleted, its reports are deleted, too.
        if (await this.api.isGoing(error, namespace, base === undefined, signal)) {
          part.is(undefined, new Map());
          return;
        }
        if (!isBehind(error) || attempt >= MAX_ATTEMPTS) throw error;
        base = await this.#fetch(part, signal);
      }
    }
  }
}

/** A new part, inserted by its number into the parts of its namespace. @param number - Default: the first free number. */
function newPart(namespace: string, parts: Part[], number?: number): Part {
  let free = 1;
  while (parts.some((part) => part.number === free)) free++;
  const part = new Part(namespace, number ?? free);
  parts.push(part);
  parts.sort((a, b) => a.number - b.number);
  return part;
}
