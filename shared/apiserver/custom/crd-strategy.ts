/**
 * What is special about CustomResourceDefinitions (apiextensions-apiserver
 * `pkg/registry/customresourcedefinition`, `pkg/apis/apiextensions/v1/defaults.go`).
 */
import { fieldOf, isObject, type JsonObject } from '../schema/json.ts';
import { statusAloneOf } from '../builtin/subresources.ts';
import type { Strategy, Subresource } from '../resources/resource.ts';
import { crdCauses, crdStatusCauses } from './crd-causes.ts';
import { setCondition } from './crd-conditions.ts';
import { cleanupFinalizer, crdGroup, objects, part, text, texts } from './crd.ts';

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
  // Deleting it means deleting its objects first, so it stays until the server has done so.
  hasOwnFinalizers: (object) => !isSet(part(object, 'metadata'), 'deletionTimestamp'),
  markDeleted(object) {
    const metadata = part(object, 'metadata');
    const finalizers = texts(metadata, 'finalizers');
    if (!finalizers.includes(cleanupFinalizer)) metadata['finalizers'] = [...finalizers, cleanupFinalizer];
    setCondition(object, {
      type: 'Terminating',
      status: 'True',
      reason: 'InstanceDeletionPending',
      message: 'CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon',
    });
  },
};

/** Their status subresource. */
export const crdStatus: Subresource = statusAloneOf({
  group: crdGroup,
  kind: 'CustomResourceDefinition',
  validate: crdStatusCauses,
});

function isSet(object: JsonObject, name: string): boolean {
  return (fieldOf(object, name) ?? null) !== null;
}

function setDefaults(object: JsonObject): void {
  const spec = fieldOf(object, 'spec');
  if (!isObject(spec)) return;
  const names = fieldOf(spec, 'names');
  if (isObject(names)) {
    const kind = text(names, 'kind');
    if (text(names, 'singular') === '' && kind !== '') names['singular'] = kind.toLowerCase();
    if (text(names, 'listKind') === '' && kind !== '') names['listKind'] = `${kind}List`;
  }
  const conversion = fieldOf(spec, 'conversion');
  if (!isObject(conversion)) spec['conversion'] = { strategy: 'None' };
  else if (text(conversion, 'strategy') === 'Webhook') defaultWebhook(conversion);
  // It is not printed when it is false.
  if (fieldOf(spec, 'preserveUnknownFields') === false) delete spec['preserveUnknownFields'];
}

function defaultWebhook(conversion: JsonObject): void {
  const config = part(part(conversion, 'webhook'), 'clientConfig');
  const service = fieldOf(config, 'service');
  if (isObject(service) && !isSet(service, 'port')) service['port'] = 443;
}

/** The version that is stored from now on is among `status.storedVersions`. */
function storeVersion(object: JsonObject): void {
  const storage = objects(part(object, 'spec'), 'versions').find(
    (version) => fieldOf(version, 'storage') === true,
  );
  if (storage === undefined) return;
  const status = part(object, 'status');
  const stored = texts(status, 'storedVersions');
  const name = text(storage, 'name');
  if (!stored.includes(name)) object['status'] = { ...status, storedVersions: [...stored, name] };
}
