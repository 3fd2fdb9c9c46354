/** A kind of object that the server serves: one `Resource` per version, for built-in and custom kinds alike. */
import type { ApplyType } from '../apply/type.ts';
import type { PatchType } from '../patch/merge-keys.ts';
import type { CompiledSchema } from '../schema/compiled-schema.ts';
import type { Cause } from '../schema/field-error.ts';
import type { JsonObject } from '../../json/json.ts';
import type { StoredObject } from '../store/object.ts';

export { apiVersionOf } from '../../kube/object/object.ts';

export type Verb = 'create' | 'delete' | 'deletecollection' | 'get' | 'list' | 'patch' | 'update' | 'watch';

export const allVerbs: ReadonlySet<Verb> = new Set<Verb>([
  'create',
  'delete',
  'deletecollection',
  'get',
  'list',
  'patch',
  'update',
  'watch',
]);

/** The names of a kind; `plural` is used in paths. */
export interface ResourceNames {
  readonly plural: string;
  readonly singular: string;
  readonly kind: string;
  readonly listKind: string;
  readonly shortNames: readonly string[];
  readonly categories: readonly string[];
}

export interface Resource extends ResourceNames {
  /** '' is the core group. */
  readonly group: string;
  readonly version: string;
  readonly namespaced: boolean;
  /** The name under which the objects are stored, the same for all versions: `pods`, `deployments.apps`. */
  readonly storeName: string;
  /** The apiVersion in stored texts; see {@link codec}. */
  readonly storedApiVersion: string;
  readonly verbs: ReadonlySet<Verb>;
  readonly subresources: ReadonlyMap<string, Subresource>;
  /** Columns of a Table, besides those that all kinds have. */
  readonly columns: readonly Column[];
  /** Fields for field selectors besides `metadata.name` and `metadata.namespace`. Absent fields read as ''. */
  readonly selectableFields: ReadonlyMap<string, (object: JsonObject) => string>;
  readonly strategy: Strategy;
  /**
   * Converts between the stored form and that of this version; `undefined` if both are the same, so that texts can be sent
   * unchanged.
   */
  readonly codec: Codec | undefined;
  /** For a deprecated version, the warning in every answer. */
  readonly deprecation: string | undefined;
  /** Compiled on first use, then kept. */
  readonly model: ResourceModel;
  readonly openApi: OpenApiModel;
  /** Whether a CustomResourceDefinition defines the kind. */
  readonly isCustom: boolean;
}

export interface ResourceModel {
  readonly schema: CompiledSchema;
  /**
   * Converts a sent object as Go would decode it, in place, before defaults are filled in; only for built-in kinds. Throws a
   * `GoTypeError` for a value of the wrong type.
   */
  decode?(object: JsonObject): void;
  readonly applyType: ApplyType;
  /** How strategic merge patches merge lists; `undefined` if they are refused with 415, as for all custom resources. */
  readonly patchType: PatchType | undefined;
}

/** Both directions return a new object, and do not change their argument. */
export interface Codec {
  readonly decode: (stored: JsonObject) => JsonObject;
  readonly encode: (shown: JsonObject) => JsonObject;
  /** Whether this object's stored text is already in the form of the version, so that it can be sent unchanged. Default: never. */
  readonly showsAsStored?: (stored: StoredObject) => boolean;
}

/** An OpenAPI v3 schema, with the schemas to which it refers by `#/components/schemas/NAME`. */
export interface OpenApiModel {
  /** The name of the schema: `io.k8s.api.core.v1.Pod`. */
  readonly name: string;
  /** All schemas that are reachable from `name`, perhaps more: many kinds may share one map. */
  readonly definitions: ReadonlyMap<string, JsonObject>;
}

/** A column of a Table (meta.k8s.io/v1 TableColumnDefinition). */
export interface Column {
  readonly name: string;
  readonly type: 'boolean' | 'date' | 'integer' | 'number' | 'string';
  /** `name` for the column that identifies the object; '' for other columns. */
  readonly format: string;
  readonly description: string;
  /** A column with 0 is always shown, one with more only by `kubectl get -o wide`. */
  readonly priority: number;
  /** Makes the cell; `null` if it is empty. @param now - For ages. */
  readonly cell: (object: JsonObject, now: Date) => boolean | number | string | null;
}

export type NameRule = 'dns1035-label' | 'dns-label' | 'dns-subdomain' | 'path-segment';

/**
 * The special rules of a kind. Metadata, the schema, `status` and the generation are handled elsewhere. All functions get
 * objects in the form of this version; the `prepare` functions change the object in place.
 */
export interface Strategy {
  readonly nameRule: NameRule;
  /**
   * Which changes `metadata.generation` counts. `all`: all changes except those of metadata and `resetFields`; `none`: the
   * field is not set.
   */
  readonly generation: 'all' | 'none';
  /** Top-level fields that only a subresource writes; usually `status` if the kind has that subresource. */
  readonly resetFields: readonly string[];
  /** Whether a create may set `resetFields`: a kubelet creates its node with a status. Default: false. */
  readonly createKeepsResetFields?: boolean;
  /** Whether PUT creates an object that does not exist. */
  readonly allowCreateOnUpdate?: boolean;
  /** Whether PUT may omit the resourceVersion. Default: true. */
  readonly allowUnconditionalUpdate?: boolean;
  /** Called before validation; fills in fields that a client may omit and for which the schema has no default. */
  readonly prepareForCreate?: ((object: JsonObject) => void) | undefined;
  readonly prepareForUpdate?: ((object: JsonObject, old: JsonObject) => void) | undefined;
  /** Checks the rules that the schema does not express. `old` is undefined for a create. */
  readonly validate?: ((object: JsonObject, old: JsonObject | undefined) => readonly Cause[]) | undefined;
  /** Returns texts for Warning headers. */
  readonly warnings?: (object: JsonObject, old: JsonObject | undefined) => readonly string[];
  /**
   * The grace period of a deletion in seconds, given the requested one; 0 to remove the object at once. Only pods that run on a
   * node have a grace period.
   */
  readonly gracePeriodSeconds?: (object: JsonObject, asked: number | undefined) => number;
  /** Whether the object has finalizers outside of `metadata.finalizers`: a namespace's `spec.finalizers`. */
  readonly hasOwnFinalizers?: (object: JsonObject) => boolean;
  /** Marks an object that is being deleted and has such finalizers, in place: a namespace gets the phase `Terminating`. */
  readonly markDeleted?: (object: JsonObject) => void;
}

/** A part of an object with its own path. */
export interface Subresource {
  /** `status`, `scale`, `finalize`. */
  readonly name: string;
  readonly verbs: ReadonlySet<'get' | 'patch' | 'update'>;
  /** The kind that is read and written. For `scale`, it differs from the object's. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** Returns the object of the subresource, made from the stored one, or that one itself. */
  readonly read: (object: JsonObject) => JsonObject;
  /**
   * Returns a new object in which the fields that the subresource may change are from `sent`; the arguments are not changed.
   * Its metadata are those of `object`: see {@link keptMetadata}.
   */
  readonly write: (object: JsonObject, sent: JsonObject) => JsonObject;
  /**
   * Metadata that a write cannot change, besides what only the server sets; if absent, it can change no metadata, as for custom
   * resources (apimachinery ResetObjectMetaForStatus).
   */
  readonly keptMetadata?: readonly ('labels' | 'ownerReferences')[];
  /** Fills in defaults that depend on the sent metadata, which decoding would fill in; may change the object in place. */
  readonly fillMetadata?: (object: JsonObject) => void;
  /** The model of the sent object; `undefined` if it has the same kind as the stored one. */
  readonly model: ResourceModel | undefined;
  readonly openApi: OpenApiModel | undefined;
  /** Top-level fields of the object that the subresource does not write. */
  readonly resetFields: (object: JsonObject) => readonly string[];
  readonly validate?: ((object: JsonObject, old: JsonObject) => readonly Cause[]) | undefined;
  /** If GET returns a text, which may never end, instead of an object: the query parameters for it. */
  readonly text?: readonly TextParameter[];
}

interface TextParameter {
  readonly name: string;
  readonly type: 'boolean' | 'integer' | 'string';
  readonly about: string;
}

/** `pods`, `deployments.apps`. */
export function groupResource({
  group,
  plural,
}: {
  readonly group: string;
  readonly plural: string;
}): string {
  return group === '' ? plural : `${plural}.${group}`;
}
