/**
 * Defaults of namespaces, nodes, secrets and roles that depend on other fields (kubernetes
 * `pkg/apis/core/v1/defaults.go`, `pkg/registry/core/secret/strategy.go`, `pkg/apis/rbac/v1/defaults.go`).
 */
import { cloneJson, fieldOf, isObject, type JsonObject } from '../../../json/json.ts';
import {
  listAt,
  madeObject,
  objectAt,
  objectsAt,
  setDefault,
  textAt,
  valueAt,
} from '../../../json/fields.ts';

const nameLabel = 'kubernetes.io/metadata.name';

export function labelNamespace(namespace: JsonObject): void {
  const metadata = madeObject(namespace, 'metadata');
  const name = textAt(metadata, 'name');
  // Makes a new object: the caller may still use the one that was sent.
  if (name !== '') metadata['labels'] = { ...objectAt(metadata, 'labels'), [nameLabel]: name };
}

/** Prepares a new namespace: its phase is Active, and a finalizer makes its contents be deleted first. */
export function prepareNamespace(namespace: JsonObject): void {
  labelNamespace(namespace);
  const spec = madeObject(namespace, 'spec');
  const finalizers = listAt(spec, 'finalizers');
  if (!finalizers.includes('kubernetes')) spec['finalizers'] = [...finalizers, 'kubernetes'];
  namespace['status'] = { phase: 'Active' };
}

/** Only the subresource `finalize` writes `spec.finalizers`. */
export function prepareNamespaceUpdate(namespace: JsonObject, old: JsonObject): void {
  labelNamespace(namespace);
  const spec = fieldOf(old, 'spec');
  if (spec === undefined) delete namespace['spec'];
  else namespace['spec'] = cloneJson(spec);
}

/** Moves `stringData` into `data`, encoded. */
export function mergeStringData(secret: JsonObject): void {
  const texts = fieldOf(secret, 'stringData');
  delete secret['stringData'];
  if (!isObject(texts) || Object.keys(texts).length === 0) return;
  const data = madeObject(secret, 'data');
  for (const [name, text] of Object.entries(texts)) {
    data[name] = typeof text === 'string' ? Buffer.from(text).toString('base64') : text;
  }
}

/** Unless a node sets `allocatable`, its whole capacity can be allocated. */
export function defaultNode(node: JsonObject): void {
  const status = fieldOf(node, 'status');
  if (!isObject(status) || valueAt(status, 'capacity') === undefined) return;
  setDefault(status, 'allocatable', cloneJson(status['capacity']));
}

const rbacGroup = 'rbac.authorization.k8s.io';

export function defaultSubjects(binding: JsonObject): void {
  const role = binding['roleRef'];
  if (isObject(role)) setDefault(role, 'apiGroup', rbacGroup);
  for (const subject of objectsAt(binding, 'subjects')) {
    const kind = textAt(subject, 'kind');
    if (kind === 'User' || kind === 'Group') setDefault(subject, 'apiGroup', rbacGroup);
  }
}
