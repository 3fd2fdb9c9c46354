/** Which CustomResourceDefinitions are served, and in which state. */
import type { Registry } from '../resources/registry.ts';
import type { ResourceNames } from '../resources/resource.ts';
import type { Store } from '../store/store.ts';
import type { Crd } from './crd.ts';
import { formOf, hash, resourcesOfCrd, SchemaModels } from './custom-resource.ts';
import { StoredForm } from './stored-form.ts';
import { isObject } from '../../json/json.ts';

/** What is kept about a served definition. */
interface Served {
  readonly uid: string;
  readonly models: SchemaModels;
  readonly stored: StoredForm;
  /** Changes when the names or versions change, so that they have to be registered again. */
  key: string;
  terminating: boolean;
}

export class ServedDefinitions {
  readonly #store: Store;
  readonly #registry: Registry;
  readonly #served = new Map<string, Served>();

  constructor(store: Store, registry: Registry) {
    this.#store = store;
    this.#registry = registry;
  }

  get size(): number {
    return this.#served.size;
  }

  get(name: string): Served | undefined {
    return this.#served.get(name);
  }

  /**
   * Serves a definition in its present state, under these names. Does nothing if it is already served like this:
   * registering it again would end its watches.
   */
  serve(crd: Crd, names: ResourceNames): void {
    const key = hash(JSON.stringify([names, crd.versions]));
    let served = this.#served.get(crd.name);
    if (served?.uid === crd.uid) {
      served.terminating = crd.deleting;
      if (served.key === key) return;
    } else served = this.#begin(crd, key);
    if (served === undefined) return;
    served.key = key;
    const state = served;
    const resources = resourcesOfCrd(crd, {
      names,
      models: state.models,
      stored: state.stored,
      isTerminating: () => state.terminating,
    });
    if (resources.length === 0) this.#registry.remove(crd.name);
    else this.#registry.add(resources);
  }

  /** Records the form in which the objects are stored, for the time after a restart. */
  async record(crd: Crd): Promise<void> {
    const served = this.#served.get(crd.name);
    if (served?.uid === crd.uid) await recordForm(this.#store, crd, served.stored);
  }

  /** Call when the definition was deleted. */
  async remove(name: string): Promise<void> {
    if (this.#served.delete(name)) this.#registry.remove(name);
    await forgetForm(this.#store, name);
  }

  #begin(crd: Crd, key: string): Served | undefined {
    const models = new SchemaModels();
    const form = formOf(crd, models.forVersions(crd.versions));
    if (form === undefined) return undefined;
    const stored = new StoredForm(form, recordedSince(this.#store, crd, form.key));
    const served = { uid: crd.uid, models, stored, key, terminating: crd.deleting };
    this.#served.set(crd.name, served);
    return served;
  }
}

/**
 * The store name of records about the form of custom resources, which have to outlive a restart. No kind has this name.
 *
 * A record is written after the form has changed, and the store does one write at a time: so every object with a later
 * version than the record has the recorded form.
 */
const resource = 'storedforms.apiextensions.rampart';

interface FormRecord {
  readonly uid: string;
  readonly key: string;
  readonly version: bigint;
}

function read(store: Store, name: string): FormRecord | undefined {
  const stored = store.get(resource, '', name);
  if (stored === undefined) return undefined;
  const record: unknown = JSON.parse(stored.text);
  const key = isObject(record) ? String(record['key']) : '';
  return { uid: stored.uid, key, version: stored.resourceVersion };
}

/** The version after which all stored texts have the form with this key; `undefined` if unknown. */
function recordedSince(store: Store, { name, uid }: Crd, key: string): bigint | undefined {
  const record = read(store, name);
  if (record?.uid === uid && record.key === key) return record.version;
  return store.list(name, { limit: 1 }).items.length === 0 ? 0n : undefined;
}

/** Records the present form if it has changed: from then on, it is known which texts have it. */
async function recordForm(store: Store, { name, uid }: Crd, stored: StoredForm): Promise<void> {
  const { key } = stored.form;
  const record = read(store, name);
  if (record?.uid === uid && record.key === key) return;
  if (record !== undefined) await store.delete({ resource, namespace: '', name });
  const text = { before: '{"metadata":{"resourceVersion":"', after: `"},"key":${JSON.stringify(key)}}` };
  const { resourceVersion } = await store.create({ resource, namespace: '', name, uid, text });
  if (stored.since === undefined) stored.settle(key, resourceVersion);
}

/** Deletes the record of a deleted definition. */
async function forgetForm(store: Store, name: string): Promise<void> {
  if (store.get(resource, '', name) !== undefined) await store.delete({ resource, namespace: '', name });
}
