/**
 * A CustomResourceDefinition (apiextensions.k8s.io/v1) as the server reads it: what is absent has its empty value.
 * What is read was validated when it was written.
 */
import { fieldOf, isObject, type JsonObject } from '../schema/json.ts';

/** Under which the store has them. */
export const crdStoreName = 'customresourcedefinitions.apiextensions.k8s.io';
export const crdGroup = 'apiextensions.k8s.io';
/** Holds a CustomResourceDefinition until its objects are gone. */
export const cleanupFinalizer = 'customresourcecleanup.apiextensions.k8s.io';

export interface CrdNames {
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
}

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
  /** '' for none. */
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
  readonly names: CrdNames;
  readonly versions: readonly CrdVersion[];
  readonly acceptedNames: CrdNames;
  readonly conditions: readonly CrdCondition[];
  readonly storedVersions: readonly string[];
}

/** Reads a stored CustomResourceDefinition; what it holds is shared with the object. */
export function readCrd(object: JsonObject): Crd {
  const [metadata, spec, status] = [part(object, 'metadata'), part(object, 'spec'), part(object, 'status')];
  const deletion = fieldOf(metadata, 'deletionTimestamp');
  return {
    name: text(metadata, 'name'),
    uid: text(metadata, 'uid'),
    annotations: part(metadata, 'annotations'),
    finalizers: texts(metadata, 'finalizers'),
    deleting: deletion !== undefined && deletion !== null,
    group: text(spec, 'group'),
    namespaced: text(spec, 'scope') === 'Namespaced',
    names: readNames(part(spec, 'names')),
    versions: objects(spec, 'versions').map(readVersion),
    acceptedNames: readNames(part(status, 'acceptedNames')),
    conditions: objects(status, 'conditions').map(readCondition),
    storedVersions: texts(status, 'storedVersions'),
  };
}

/** The version that objects are stored in; validation sees to it that there is one. */
export function storageVersionOf({ versions }: Crd): CrdVersion | undefined {
  return versions.find(({ storage }) => storage);
}

export function isTrue({ conditions }: Crd, type: string): boolean {
  return conditions.some((condition) => condition.type === type && condition.status === 'True');
}

export function readNames(names: JsonObject): CrdNames {
  return {
    plural: text(names, 'plural'),
    singular: text(names, 'singular'),
    kind: text(names, 'kind'),
    listKind: text(names, 'listKind'),
    shortNames: texts(names, 'shortNames'),
    categories: texts(names, 'categories'),
  };
}

function readVersion(version: JsonObject): CrdVersion {
  const subresources = part(version, 'subresources');
  const schema = fieldOf(part(version, 'schema'), 'openAPIV3Schema');
  const warning = fieldOf(version, 'deprecationWarning');
  return {
    name: text(version, 'name'),
    served: fieldOf(version, 'served') === true,
    storage: fieldOf(version, 'storage') === true,
    deprecated: fieldOf(version, 'deprecated') === true,
    deprecationWarning: typeof warning === 'string' ? warning : undefined,
    schema: isObject(schema) ? schema : undefined,
    hasStatus: isObject(fieldOf(subresources, 'status')),
    scale: readScale(fieldOf(subresources, 'scale')),
    columns: objects(version, 'additionalPrinterColumns').map(readColumn),
    selectableFields: objects(version, 'selectableFields').map((field) => text(field, 'jsonPath')),
  };
}

function readScale(scale: unknown): CrdScale | undefined {
  if (!isObject(scale)) return undefined;
  return {
    specReplicasPath: text(scale, 'specReplicasPath'),
    statusReplicasPath: text(scale, 'statusReplicasPath'),
    labelSelectorPath: text(scale, 'labelSelectorPath'),
  };
}

export function readColumn(column: JsonObject): CrdColumn {
  const priority = fieldOf(column, 'priority');
  return {
    name: text(column, 'name'),
    type: text(column, 'type'),
    format: text(column, 'format'),
    description: text(column, 'description'),
    priority: typeof priority === 'number' ? priority : 0,
    jsonPath: text(column, 'jsonPath'),
  };
}

function readCondition(condition: JsonObject): CrdCondition {
  return {
    type: text(condition, 'type'),
    status: text(condition, 'status'),
    reason: text(condition, 'reason'),
    message: text(condition, 'message'),
    lastTransitionTime: text(condition, 'lastTransitionTime') || undefined,
  };
}

/** A field that is an object; an empty one where it is not. */
export function part(object: JsonObject, name: string): JsonObject {
  const value = fieldOf(object, name);
  return isObject(value) ? value : {};
}

/** A field that is a text; '' where it is not. */
export function text(object: JsonObject, name: string): string {
  const value = fieldOf(object, name);
  return typeof value === 'string' ? value : '';
}

/** A field that is a list of texts. */
export function texts(object: JsonObject, name: string): string[] {
  const value = fieldOf(object, name);
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

/** A field that is a list of objects. */
export function objects(object: JsonObject, name: string): JsonObject[] {
  const value = fieldOf(object, name);
  return Array.isArray(value) ? value.filter(isObject) : [];
}
