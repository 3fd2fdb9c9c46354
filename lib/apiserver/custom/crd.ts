/**
 * A CustomResourceDefinition (apiextensions.k8s.io/v1) as the server reads it: absent fields have their empty
 * value. It was validated when it was written.
 */
import { numberAt, objectAt, objectsAt, textAt, textsAt, valueAt } from '../../json/fields.ts';
import type { ResourceNames } from '../resources/resource.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';

/** The name under which the store keeps the definitions. */
export const crdStoreName = 'customresourcedefinitions.apiextensions.k8s.io';
export const crdGroup = 'apiextensions.k8s.io';
/** Holds a CustomResourceDefinition until its objects are gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

export interface CrdColumn {
  readonly name: string;
  readonly type: string;
  readonly format: string;
  readonly description: string;
  readonly priority: number;
  readonly jsonPath: string;
}

export interface CrdScale {
  readonly specReplicasPath: string;
  readonly statusReplicasPath: string;
  /** '' if the subresource has no label selector. */
  readonly labelSelectorPath: string;
}

export interface CrdVersion {
  readonly name: string;
  readonly served: boolean;
  readonly storage: boolean;
  readonly deprecated: boolean;
  readonly deprecationWarning: string | undefined;
  readonly schema: JsonObject | undefined;
  readonly hasStatus: boolean;
  readonly scale: CrdScale | undefined;
  readonly columns: readonly CrdColumn[];
  /** JSON paths. */
  readonly selectableFields: readonly string[];
}

interface CrdCondition {
  readonly type: string;
  readonly status: string;
  readonly reason: string;
  readonly message: string;
  readonly lastTransitionTime: string | undefined;
}

export interface Crd {
  readonly name: string;
  readonly uid: string;
  readonly annotations: Readonly<Record<string, unknown>>;
  readonly finalizers: readonly string[];
  readonly deleting: boolean;
  readonly group: string;
  readonly namespaced: boolean;
  readonly names: ResourceNames;
  readonly versions: readonly CrdVersion[];
  readonly acceptedNames: ResourceNames;
  readonly conditions: readonly CrdCondition[];
  readonly storedVersions: readonly string[];
}

/** Reads a stored CustomResourceDefinition; its parts are shared with the object. */
export function readCrd(object: JsonObject): Crd {
  const [metadata, spec, status] = [
    objectAt(object, 'metadata'),
    objectAt(object, 'spec'),
    objectAt(object, 'status'),
  ];
  return {
    name: textAt(metadata, 'name'),
    uid: textAt(metadata, 'uid'),
    annotations: objectAt(metadata, 'annotations'),
    finalizers: textsAt(metadata, 'finalizers'),
    deleting: valueAt(metadata, 'deletionTimestamp') !== undefined,
    group: textAt(spec, 'group'),
    namespaced: textAt(spec, 'scope') === 'Namespaced',
    names: readNames(objectAt(spec, 'names')),
    versions: objectsAt(spec, 'versions').map(readVersion),
    acceptedNames: readNames(objectAt(status, 'acceptedNames')),
    conditions: objectsAt(status, 'conditions').map(readCondition),
    storedVersions: textsAt(status, 'storedVersions'),
  };
}

/** The version that objects are stored in; validation ensures that it exists. */
export function storageVersionOf({ versions }: Crd): CrdVersion | undefined {
  return versions.find(({ storage }) => storage);
}

export function isTrue({ conditions }: Crd, type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === 'True');
}

export function readNames(names: JsonObject): ResourceNames {
  return {
    plural: textAt(names, 'plural'),
    singular: textAt(names, 'singular'),
    kind: textAt(names, 'kind'),
    listKind: textAt(names, 'listKind'),
    shortNames: textsAt(names, 'shortNames'),
    categories: textsAt(names, 'categories'),
  };
}

/** The schema of a version, as the client sent it. */
export function sentSchema(version: JsonObject): JsonObject | undefined {
  const schema = valueAt(version, 'schema', 'openAPIV3Schema');
  return isObject(schema) ? schema : undefined;
}

function readVersion(version: JsonObject): CrdVersion {
  const subresources = objectAt(version, 'subresources');
  const warning = fieldOf(version, 'deprecationWarning');
  return {
    name: textAt(version, 'name'),
    served: fieldOf(version, 'served') === true,
    storage: fieldOf(version, 'storage') === true,
    deprecated: fieldOf(version, 'deprecated') === true,
    deprecationWarning: typeof warning === 'string' ? warning : undefined,
    schema: sentSchema(version),
    hasStatus: isObject(fieldOf(subresources, 'status')),
    scale: readScale(fieldOf(subresources, 'scale')),
    columns: objectsAt(version, 'additionalPrinterColumns').map(readColumn),
    selectableFields: objectsAt(version, 'selectableFields').map((field) => textAt(field, 'jsonPath')),
  };
}

function readScale(scale: unknown): CrdScale | undefined {
  if (!isObject(scale)) return undefined;
  return {
    specReplicasPath: textAt(scale, 'specReplicasPath'),
    statusReplicasPath: textAt(scale, 'statusReplicasPath'),
    labelSelectorPath: textAt(scale, 'labelSelectorPath'),
  };
}

export function readColumn(column: JsonObject): CrdColumn {
  return {
    name: textAt(column, 'name'),
    type: textAt(column, 'type'),
    format: textAt(column, 'format'),
    description: textAt(column, 'description'),
    priority: numberAt(column, 'priority') ?? 0,
    jsonPath: textAt(column, 'jsonPath'),
  };
}

function readCondition(condition: JsonObject): CrdCondition {
  return {
    type: textAt(condition, 'type'),
    status: textAt(condition, 'status'),
    reason: textAt(condition, 'reason'),
    message: textAt(condition, 'message'),
    lastTransitionTime: textAt(condition, 'lastTransitionTime') || undefined,
  };
}
