/**
 * The special rules for CustomResourceDefinitions (apiextensions-apiserver
 * `pkg/registry/customresourcedefinition`, `pkg/apis/apiextensions/v1/defaults.go`).
 */
import { objectAt, objectsAt, textAt, textsAt, valueAt } from '../../json/fields.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { statusAloneOf } from '../builtin/subresources.ts';
import type { Strategy, Subresource } from '../resources/resource.ts';
import { crdCauses, crdStatusCauses } from './crd-causes.ts';
import { setCondition } from './crd-conditions.ts';
import { cleanupFinalizer, crdGroup } from './crd.ts';

export const crdStrategy: Strategy = {
  nameRule: 'dns-subdomain',
  generation: 'all',
  resetFields: ['status'],
  allowUnconditionalUpdate: false,
  prepareForCreate(object) {
    setDefaults(object);
    object['status'] = { conditions: [], acceptedNames: { plural: '', kind: '' }, storedVersions: [] };
    storeVersion(object);
  },
  prepareForUpdate(object) {
    setDefaults(object);
    storeVersion(object);
  },
  validate: crdCauses,
  // A deleted definition stays until the server has deleted its objects.
  hasOwnFinalizers: (object) => valueAt(object, 'metadata', 'deletionTimestamp') === undefined,
  markDeleted(object) {
    const metadata = objectAt(object, 'metadata');
    const finalizers = textsAt(metadata, 'finalizers');
    if (!finalizers.includes(cleanupFinalizer)) metadata['finalizers'] = [...finalizers, cleanupFinalizer];
    setCondition(object, {
      type: 'Terminating',
      status: 'True',
      reason: 'InstanceDeletionPending',
      message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon',
    });
  },
};

/** The status subresource of CustomResourceDefinitions. */
export const crdStatus: Subresource = statusAloneOf({
  group: crdGroup,
  kind: 'CustomResourceDefinition',
  validate: crdStatusCauses,
});

function setDefaults(object: JsonObject): void {
  const spec = fieldOf(object, 'spec');
  if (!isObject(spec)) return;
  const names = fieldOf(spec, 'names');
  if (isObject(names)) {
    const kind = textAt(names, 'kind');
    if (textAt(names, 'singular') === '' && kind !== '') names['singular'] = kind.toLowerCase();
    if (textAt(names, 'listKind') === '' && kind !== '') names['listKind'] = `${kind}List`;
  }
  const conversion = fieldOf(spec, 'conversion');
  if (!isObject(conversion)) spec['conversion'] = { strategy: 'None' };
  else if (textAt(conversion, 'strategy') === 'Webhook') defaultWebhook(conversion);
  // Kubernetes omits the field if it is false.
  if (fieldOf(spec, 'preserveUnknownFields') === false) delete spec['preserveUnknownFields'];
}

function defaultWebhook(conversion: JsonObject): void {
  const service = valueAt(conversion, 'webhook', 'clientConfig', 'service');
  if (isObject(service) && valueAt(service, 'port') === undefined) service['port'] = 443;
}

/** Adds the storage version to `status.storedVersions`. */
function storeVersion(object: JsonObject): void {
  const storage = objectsAt(object, 'spec', 'versions').find((one) => fieldOf(one, 'storage') === true);
  if (storage === undefined) return;
  const status = objectAt(object, 'status');
  const stored = textsAt(status, 'storedVersions');
  const name = textAt(storage, 'name');
  if (!stored.includes(name)) object['status'] = { ...status, storedVersions: [...stored, name] };
}
