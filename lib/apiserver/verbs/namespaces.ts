/**
 * The life cycle of namespaces: nothing is created in a namespace that does not exist or is being deleted, and some
 * namespaces cannot be deleted (apiserver `pkg/admission/plugin/namespace/lifecycle`).
 */
import { textAt, valueAt } from '../../json/fields.ts';
import { type ApiError, apiErrors } from '../resources/api-error.ts';
import type { JsonObject } from '../../json/json.ts';
import type { Store } from '../store/store.ts';
import type { Admission, AdmissionRequest } from './admission.ts';

/** Name of the resource in the store. */
const namespacesName = 'namespaces';

const immortal: ReadonlySet<string> = new Set(['default', 'kube-public', 'kube-system']);

/** The admission that enforces the life cycle of namespaces. The caller disposes it. */
export class NamespaceLifecycle implements Admission, Disposable {
  readonly #store: Store;
  /** Cache of existing namespaces that are not being deleted. Others are looked up. */
  readonly #active = new Set<string>();
  readonly #ended = new AbortController();
  #following = false;

  constructor(store: Store) {
    this.#store = store;
  }

  admit(request: AdmissionRequest, object: JsonObject | undefined): void {
    const { operation, resource, namespace, name } = request;
    if (operation === 'DELETE') {
      if (resource.storeName === namespacesName && immortal.has(name)) {
        throw apiErrors.forbidden(resource, name, 'this namespace may not be deleted');
      }
      return;
    }
    if (operation !== 'CREATE' || namespace === '' || this.#active.has(namespace)) return;
    this.#follow();
    const stored = this.#store.get(namespacesName, '', namespace);
    if (stored === undefined) {
      throw apiErrors.notFound({ group: '', plural: 'namespaces', kind: 'Namespace' }, namespace);
    }
    if (isTerminating(JSON.parse(stored.text))) throw terminating(request, object);
    if (this.#following) this.#active.add(namespace);
  }

  [Symbol.dispose](): void {
    this.#ended.abort();
    this.#active.clear();
  }

  /** Drops namespaces from the cache when they change. The cache is valid only while this runs. */
  #follow(): void {
    if (this.#following || this.#ended.signal.aborted) return;
    const { version: fromVersion } = this.#store;
    const watch = this.#store.watch(namespacesName, { fromVersion, signal: this.#ended.signal });
    this.#following = true;
    void (async () => {
      try {
        for await (const changes of watch) for (const { object } of changes) this.#active.delete(object.name);
      } catch {
        // The store is closed, or the history was compacted: the next lookup starts to follow again.
      } finally {
        this.#following = false;
        this.#active.clear();
      }
    })();
  }
}

function isTerminating(namespace: unknown): boolean {
  return (
    textAt(namespace, 'status', 'phase') === 'Terminating' ||
    valueAt(namespace, 'metadata', 'deletionTimestamp') !== undefined
  );
}

function terminating(
  { resource, namespace, name }: AdmissionRequest,
  object: JsonObject | undefined,
): ApiError {
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  return apiErrors.forbidden(resource, name || textAt(object, 'metadata', 'generateName') || 'Unknown', why, [
    {
      reason: 'NamespaceTerminating',
      message: `namespace ${namespace} is being terminated`,
      field: 'metadata.namespace',
    },
  ]);
}
