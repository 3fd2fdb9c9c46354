/**
 * Since when the objects of a custom resource are stored in their present form, remembered over restarts.
 *
 * A record is written after the form has changed, and the store does one write after the other: so what was written
 * later than the record has its form. It is kept in the store beside the objects, under a name that no kind has.
 */
import { isObject } from '../../json/json.ts';
import type { Store } from '../store/store.ts';
import type { Crd } from './crd.ts';
import type { StoredForm } from './stored-form.ts';

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

/** Texts of later versions have the form with this key; `undefined` where that is not known. */
export function recordedSince(store: Store, { name, uid }: Crd, key: string): bigint | undefined {
  const record = read(store, name);
  if (record?.uid === uid && record.key === key) return record.version;
  return store.list(name, { limit: 1 }).items.length === 0 ? 0n : undefined;
}

/** Writes the record of the present form, where it is another one, and settles the form. */
export async function recordForm(store: Store, { name, uid }: Crd, stored: StoredForm): Promise<void> {
  const { key } = stored.form;
  const record = read(store, name);
  if (record?.uid === uid && record.key === key) return;
  if (record !== undefined) await store.delete({ resource, namespace: '', name });
  const text = { before: '{"metadata":{"resourceVersion":"', after: `"},"key":${JSON.stringify(key)}}` };
  const { resourceVersion } = await store.create({ resource, namespace: '', name, uid, text });
  if (stored.since === undefined) stored.settle(key, resourceVersion);
}

/** The definition is gone. */
export async function forgetForm(store: Store, name: string): Promise<void> {
  if (store.get(resource, '', name) !== undefined) await store.delete({ resource, namespace: '', name });
}
