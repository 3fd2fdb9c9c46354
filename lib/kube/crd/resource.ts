/** Custom resources: their names and their versions, the one source of the types and of the manifest. */
import { errorCodes, RampartError } from '../../errors/errors.ts';
import type { KubeObject, ResourceType } from '../object/object.ts';
import type { Fields, ReadFields, WrittenFields } from './schema.ts';

/** A column of `kubectl get`. */
export interface PrinterColumn {
  readonly name: string;
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'date';
  /** Such as `.spec.path`. */
  readonly jsonPath: string;
  readonly description?: string;
  /** Shown with `-o wide` only when above 0. */
  readonly priority?: number;
}

/** The column with the age. Kubernetes adds it by itself only if no column is declared. */
export const ageColumn: PrinterColumn = {
  name: 'Age',
  type: 'date',
  jsonPath: '.metadata.creationTimestamp',
};

export interface VersionDefinition<F extends Fields = Fields> {
  /** Fields of the objects besides apiVersion, kind and metadata: `spec`, `status`. */
  readonly fields: F;
  readonly description?: string;
  /** Whether objects are stored in this version; exactly one version must have it. Default: true for the only version. */
  readonly storage?: boolean;
  /** Whether `status` is written separately from the other fields. Default: true if there is a field `status`. */
  readonly statusSubresource?: boolean;
  readonly columns?: readonly PrinterColumn[];
}

export type Versions = Readonly<Record<string, VersionDefinition>>;

export interface ResourceDefinition<V extends Versions = Versions> {
  readonly group: string;
  readonly kind: string;
  /** As in paths: `widgets`. */
  readonly plural: string;
  /** Default: the kind in lower case. */
  readonly singular?: string;
  readonly scope: 'Namespaced' | 'Cluster';
  readonly shortNames?: readonly string[];
  /** Versions by name, such as `v1`. */
  readonly versions: V;
}

/** A resource that `defineResource` has made. */
export interface Resource<V extends Versions = Versions> extends ResourceDefinition<V> {
  /** Distinguishes resources from a module's other exports. */
  readonly [isResourceKey]: true;
}

const isResourceKey: unique symbol = Symbol('resource');

/**
 * An object of a resource as the API returns it; of all its versions if none is named.
 *
 * @example
 * export type Widget = ObjectOf<typeof widgets>;
 */
export type ObjectOf<
  R extends Resource,
  Name extends keyof R['versions'] = keyof R['versions'],
> = KubeObject & ReadFields<R['versions'][Name]['fields']>;

/** An object as it may be written: fields with defaults are optional. */
export type WrittenObjectOf<
  R extends Resource,
  Name extends keyof R['versions'] = keyof R['versions'],
> = KubeObject & WrittenFields<R['versions'][Name]['fields']>;

/** Returns the definition, typed. It checks nothing: `crdManifest` refuses what the API server would not accept. */
export function defineResource<const V extends Versions>(definition: ResourceDefinition<V>): Resource<V> {
  return { ...definition, [isResourceKey]: true };
}

export function isResource(value: unknown): value is Resource {
  return typeof value === 'object' && value !== null && isResourceKey in value;
}

/** A version, for the client and the reflector. @throws {RampartError} `INPUT` for an unknown one. */
export function resourceType<R extends Resource, Name extends keyof R['versions'] & string>(
  resource: R,
  version: Name,
): ResourceType<ObjectOf<R, Name>> {
  const { group, plural, kind, scope, versions } = resource;
  if (!Object.hasOwn(versions, version)) {
    throw new RampartError(errorCodes.INPUT, { what: `${kind} has no version ${version}` });
  }
  return { group, version, plural, kind, namespaced: scope === 'Namespaced' };
}
