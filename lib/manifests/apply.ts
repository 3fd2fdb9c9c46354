/**
 * Brings the API in line with the manifests: applies changes, and deletes objects that no file has any
 * longer.
 */
import type { KubeClient } from '../kube/client/client.ts';
import { isNotFound, isUnreachable, KubeError } from '../kube/client/client-errors.ts';
import { customResourceDefinitions, established } from '../kube/crd/established.ts';
import { type KubeObject, objectKey, type ResourceType } from '../kube/object/object.ts';
import { type ManifestObject, parseManifest } from './document.ts';
import { type FoundFiles, isWithin, type ManifestRoot } from './files.ts';
import { Kinds, turnOf } from './kinds.ts';
import type { Problem } from './problem.ts';

/** Owner of the fields that manifests set. */
const fieldManager = 'rampart-manifests';
/** The label of each object that came from a file; the annotation names the file. */
const manifestLabel = 'rampart.dev/from-manifest';
const manifestAnnotation = 'rampart.dev/manifest';

/** How long a CustomResourceDefinition may take until its objects can be applied. */
const ESTABLISH_MS = 10_000;

export interface Round {
  readonly applied: number;
  readonly deleted: number;
  readonly problems: readonly Problem[];
}

interface Declared {
  readonly source: ManifestObject;
  readonly type: ResourceType;
  readonly object: KubeObject;
}

interface Applied {
  readonly text: string;
  readonly type: ResourceType;
  readonly file: string;
  readonly uid: string;
}

/** The objects that one process has applied from the files of its roots. */
export class ManifestApplier {
  readonly #client: KubeClient;
  readonly #roots: readonly ManifestRoot[];
  readonly #reserved: ReadonlySet<string>;
  readonly #kinds: Kinds;
  readonly #applied = new Map<string, Applied>();

  /** @param reserved names of CustomResourceDefinitions that files must not contain. */
  constructor(client: KubeClient, roots: readonly ManifestRoot[], reserved: ReadonlySet<string>) {
    this.#client = client;
    this.#roots = roots;
    this.#reserved = reserved;
    this.#kinds = new Kinds(client);
  }

  /**
   * One round. An error in one object does not affect others; if a file or one of its documents cannot be
   * read, none of its objects is deleted.
   *
   * @param whole compares with the API too, not only with changes of the files: applies objects again that
   * others have deleted or changed, and deletes those that an earlier process has left.
   * @throws {RampartError} `API_UNREACHABLE`, and the signal's reason.
   */
  async round(found: FoundFiles, whole: boolean, signal: AbortSignal): Promise<Round> {
    const problems: Problem[] = found.unreadable.map(({ path, why }) => ({ file: path, why }));
    const sources: ManifestObject[] = [];
    const kept = new Set<string>();
    for (const { path, text, why } of found.files) {
      const parsed = text === undefined ? undefined : parseManifest(text, path);
      if (parsed === undefined) problems.push({ file: path, why: why ?? 'it cannot be read' });
      if (parsed === undefined || parsed.problems.length > 0) kept.add(path);
      problems.push(...(parsed?.problems ?? []));
      sources.push(...(parsed?.objects ?? []));
    }
    if (whole) this.#kinds.forget();
    const declared = new Map<string, Declared>();
    let applied = 0;
    const turns = Map.groupBy(sources, ({ object }) => turnOf(object.kind));
    for (const turn of [...turns.keys()].toSorted((a, b) => a - b)) {
      for (const source of turns.get(turn) ?? []) {
        signal.throwIfAborted();
        let shown: KubeObject = source.object;
        try {
          const one = await this.#declare(source, declared, signal);
          shown = one.object;
          if (await this.#apply(one, whole, signal)) applied++;
        } catch (error) {
          if (signal.aborted || isUnreachable(error)) throw error;
          // Nothing is deleted while it is unknown whether the file still has it.
          if (!(error instanceof KubeError)) kept.add(source.file);
          problems.push(...problemsOf(source, shown, error));
        }
      }
    }
    const isKept = (file: string): boolean =>
      kept.has(file) || found.unreadable.some(({ path }) => file.startsWith(`${path}/`));
    const deleted = await this.#prune(declared, isKept, whole, problems, signal);
    return { applied, deleted, problems };
  }

  /** @throws {ManifestMistake} */
  async #declare(
    source: ManifestObject,
    declared: Map<string, Declared>,
    signal: AbortSignal,
  ): Promise<Declared & { readonly key: string }> {
    const { object } = source;
    const type = await this.#kinds.find(object.apiVersion, object.kind, signal);
    if (type === undefined) {
      const why = `there is no ${object.kind} in ${object.apiVersion}: is its CustomResourceDefinition missing?`;
      throw new ManifestMistake(why, 'kind');
    }
    if (isCrd(type) && this.#reserved.has(object.metadata.name ?? '')) {
      throw new ManifestMistake('this object is part of Rampart; remove it from the file', 'metadata.name');
    }
    const { namespace: given, labels, annotations, ...metadata } = object.metadata;
    if (!type.namespaced && given !== undefined) {
      throw new ManifestMistake(`a ${object.kind} is not namespaced`, 'metadata.namespace');
    }
    const marked = {
      ...object,
      metadata: {
        ...metadata,
        ...(type.namespaced && { namespace: given ?? 'default' }),
        labels: { ...labels, [manifestLabel]: 'true' },
        annotations: { ...annotations, [manifestAnnotation]: source.file },
      },
    };
    const key = keyOf(type, marked);
    const other = declared.get(key);
    if (other !== undefined) {
      const line = other.source.lineOf('metadata.name');
      throw new ManifestMistake(
        `it is already defined in ${other.source.file}:${line}, which takes precedence`,
        'metadata.name',
      );
    }
    const one = { source, type, object: marked, key };
    declared.set(key, one);
    return one;
  }

  /** @returns whether something was changed */
  async #apply(
    { key, type, object, source }: Declared & { readonly key: string },
    whole: boolean,
    signal: AbortSignal,
  ): Promise<boolean> {
    const text = JSON.stringify(object);
    const before = this.#applied.get(key);
    const isKnown = before?.text === text;
    if (isKnown && !whole) return false;
    const options = { fieldManager, force: true, fieldValidation: 'Strict', signal } as const;
    const { metadata } = await this.#client.apply(type, object, options);
    const uid = metadata.uid ?? '';
    this.#applied.set(key, { text, type, file: source.file, uid });
    if (isCrd(type)) {
      await established(this.#client, object.metadata.name ?? '', { timeoutMs: ESTABLISH_MS, signal });
      this.#kinds.forget();
    }
    return !isKnown || before.uid !== uid;
  }

  async #prune(
    declared: ReadonlyMap<string, Declared>,
    isKept: (file: string) => boolean,
    whole: boolean,
    problems: Problem[],
    signal: AbortSignal,
  ): Promise<number> {
    const known = whole ? await this.#found(signal) : this.#applied;
    const gone = [...known]
      .filter(([key, { file }]) => !declared.has(key) && !isKept(file))
      .toSorted(([, a], [, b]) => turnOf(b.type.kind) - turnOf(a.type.kind));
    let deleted = 0;
    for (const [key, { type, file, uid }] of gone) {
      const [, namespace = '', name = ''] = key.split('|');
      try {
        const target = { ...(type.namespaced && { namespace }), name };
        await this.#client.delete(type, target, { preconditions: { uid }, signal });
        deleted++;
      } catch (error) {
        if (signal.aborted || isUnreachable(error)) throw error;
        if (!isNotFound(error)) {
          const why = `it is no longer in the file, and cannot be deleted: ${error instanceof Error ? error.message : String(error)}`;
          problems.push({
            file,
            object: `${type.kind} ${objectKey({ metadata: { namespace, name } })}`,
            why,
          });
          continue;
        }
      }
      this.#applied.delete(key);
      if (isCrd(type)) this.#kinds.forget();
    }
    return deleted;
  }

  /** The objects in the API that come from files of these roots. */
  async #found(signal: AbortSignal): Promise<ReadonlyMap<string, Applied>> {
    const found = new Map<string, Applied>();
    const uids = new Set<string>();
    for (const type of await this.#kinds.all(signal)) {
      const { items } = await this.#client.list(type, {}, { labelSelector: manifestLabel, signal });
      for (const { metadata } of items) {
        const file = metadata.annotations?.[manifestAnnotation];
        const uid = metadata.uid ?? '';
        // Some objects are served by two groups: Events, for example.
        if (file === undefined || uids.has(uid) || !isWithin(this.#roots, file)) continue;
        uids.add(uid);
        if (metadata.deletionTimestamp !== undefined) continue;
        found.set(keyOf(type, { metadata }), { text: '', type, file, uid });
      }
    }
    return found;
  }
}

/** A mistake that is found without asking the server. */
class ManifestMistake extends Error {
  override readonly name = 'ManifestMistake';
  readonly field: string | undefined;

  constructor(why: string, field?: string) {
    super(why);
    this.field = field;
  }
}

function isCrd({ group, plural }: ResourceType): boolean {
  return group === customResourceDefinitions.group && plural === customResourceDefinitions.plural;
}

/** Identifies the stored object, whatever the version. */
function keyOf({ group, plural }: ResourceType, { metadata }: KubeObject): string {
  return `${plural}.${group}|${metadata.namespace ?? ''}|${metadata.name ?? ''}`;
}

/**
 * One problem for each field that the server names, at least one.
 *
 * @param sent the object with the namespace that it is in, if known.
 */
function problemsOf(source: ManifestObject, sent: KubeObject, error: unknown): Problem[] {
  const { file, document, object } = source;
  const shown = `${object.kind} ${objectKey(sent)}`;
  return reasonsOf(error).map(({ field, why }) => ({
    file,
    document,
    object: shown,
    field,
    line: source.lineOf(field ?? ''),
    why,
  }));
}

interface Reason {
  readonly field: string | undefined;
  readonly why: string;
}

function reasonsOf(error: unknown): readonly Reason[] {
  if (error instanceof KubeError) return reasonsOfStatus(error);
  const why = error instanceof Error ? error.message : String(error);
  const field = error instanceof Error && 'field' in error ? error.field : undefined;
  return [{ field: typeof field === 'string' ? field : undefined, why }];
}

function reasonsOfStatus(error: KubeError): readonly Reason[] {
  const causes = error.details?.causes ?? [];
  const named = causes.filter(({ field }) => field !== undefined && field !== '' && field !== '<nil>');
  if (named.length > 0) {
    return named.map(({ field, message }) => ({ field, why: message ?? error.reason }));
  }
  // `strict decoding error: unknown field "spec.a", unknown field "spec.b"`, each worth a line.
  const unknown = [...error.message.matchAll(/(unknown|duplicate) field "([^"]+)"/g)];
  if (unknown.length > 0) return unknown.map(([, what, field]) => ({ field, why: `${what} field` }));
  // `failed to create typed patch object (default/a; v1, Kind=A): .spec.traps: expected list, got &{...}`.
  const [, typed, reason] = /typed patch object \([^)]*\): \.([^\s:]+): (.*)$/.exec(error.message) ?? [];
  if (typed !== undefined) return [{ field: typed, why: reason ?? error.message }];
  return [{ field: undefined, why: error.message }];
}
