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
  /** Under which the store has the objects, the same for all versions: `pods`, `deployments.apps`. */
  readonly storeName: string;
  /** The apiVersion that stored texts have; see {@link codec}. */
  readonly storedApiVersion: string;
  readonly verbs: ReadonlySet<Verb>;
  readonly subresources: ReadonlyMap<string, Subresource>;
  /** Columns of a Table besides those of every kind; their cells are computed for each object. */
  readonly columns: readonly Column[];
  /** Fields for field selectors besides `metadata.name` and `metadata.namespace`. Absent fields read as ''. */
  readonly selectableFields: ReadonlyMap<string, (object: JsonObject) => string>;
  readonly strategy: Strategy;
  /**
   * Converts between stored and shown form; `undefined` if both are the same, so that the text can be sent
   * unchanged.
   */
  readonly codec: Codec | undefined;
  /** For a deprecated version: the warning that every answer carries. */
  readonly deprecation: string | undefined;
  /** Compiled on first use, then kept. */
  readonly model: ResourceModel;
  readonly openApi: OpenApiModel;
  /** Whether a CustomResourceDefinition made it. */
  readonly isCustom: boolean;
}

export interface ResourceModel {
  readonly schema: CompiledSchema;
  /**
   * Converts a sent object into its stored form, in place, before defaults: built-in kinds have Go's types. Throws a
   * `GoTypeError` for a value of another type.
   */
  decode?(object: JsonObject): void;
  readonly applyType: ApplyType;
  /** `undefined`: strategic merge patches are refused with 415, as for all custom resources. */
  readonly patchType: PatchType | undefined;
}

/** Both directions return another object, and do not change their argument. */
export interface Codec {
  readonly decode: (stored: JsonObject) => JsonObject;
  readonly encode: (shown: JsonObject) => JsonObject;
  /** Whether the version shows this object's text unchanged, so that it can be sent so. Default: never. */
  readonly showsAsStored?: (stored: StoredObject) => boolean;
}

/** An OpenAPI v3 schema, with the schemas that it refers to by `#/components/schemas/NAME`. */
export interface OpenApiModel {
  /** As `io.k8s.api.core.v1.Pod`. */
  readonly name: string;
  /** At least what is reachable from `name`; may be one map for many kinds. */
  readonly definitions: ReadonlyMap<string, JsonObject>;
}

/** A column of a Table (meta.k8s.io/v1 TableColumnDefinition). */
export interface Column {
  readonly name: string;
  readonly type: 'boolean' | 'date' | 'integer' | 'number' | 'string';
  /** `name` marks the identifier; '' for other columns. */
  readonly format: string;
  readonly description: string;
  /** 0 is always shown, above is shown by `kubectl get -o wide`. */
  readonly priority: number;
  /** The cell; `null` for nothing. `now` is for ages. */
  readonly cell: (object: JsonObject, now: Date) => boolean | number | string | null;
}

export type NameRule = 'dns1035-label' | 'dns-label' | 'dns-subdomain' | 'path-segment';

/**
 * The special rules of a kind. Metadata, the schema, `status` and the generation are handled elsewhere. All
 * functions get objects of this version; those that prepare change the object in place.
 */
export interface Strategy {
  readonly nameRule: NameRule;
  /**
   * Which changes `metadata.generation` counts: all except metadata and `resetFields`; `none`: it is unset.
   */
  readonly generation: 'all' | 'none';
  /** Top fields that only a subresource writes; usually `status` if the kind has that subresource. */
  readonly resetFields: readonly string[];
  /** A create may set `resetFields`, too: a kubelet creates its node with a status. Default: false. */
  readonly createKeepsResetFields?: boolean;
  /** PUT of an object that does not exist creates it. */
  readonly allowCreateOnUpdate?: boolean;
  /** PUT without a resourceVersion is refused if this is false. Default: true. */
  readonly allowUnconditionalUpdate?: boolean;
  /** Fills in fields that a client may omit and the schema cannot default; before validation. */
  readonly prepareForCreate?: ((object: JsonObject) => void) | undefined;
  readonly prepareForUpdate?: ((object: JsonObject, old: JsonObject) => void) | undefined;
  /** Rules beyond the schema. `old` is absent for a create. */
  readonly validate?: ((object: JsonObject, old: JsonObject | undefined) => readonly Cause[]) | undefined;
  /** For Warning headers. */
  readonly warnings?: (object: JsonObject, old: JsonObject | undefined) => readonly string[];
  /**
   * How long an object that is being deleted stays, in seconds, when nothing else was asked for; 0 to remove it at
   * once. Pods that run on a node have such a time.
   */
  readonly gracePeriodSeconds?: (object: JsonObject, asked: number | undefined) => number;
  /** Finalizers of the kind itself, outside of `metadata.finalizers`: a namespace's `spec.finalizers`. */
  readonly hasOwnFinalizers?: (object: JsonObject) => boolean;
  /** Marks an object that is being deleted and has finalizers, as by a namespace's phase. In place. */
  readonly markDeleted?: (object: JsonObject) => void;
}

/** A part of an object with a path of its own. */
export interface Subresource {
  /** `status`, `scale`, `finalize`. */
  readonly name: string;
  readonly verbs: ReadonlySet<'get' | 'patch' | 'update'>;
  /** The kind that is read and written, which for `scale` is another one. */
  readonly group: string;
  readonly version: string;
  readonly kind: string;
  /** The object to return, made from the stored one or the same. */
  readonly read: (object: JsonObject) => JsonObject;
  /**
   * The object with what the subresource may change taken from `sent`. Another object; both arguments stay. Metadata
   * is the object's; {@link keptMetadata} says what the caller does with it.
   */
  readonly write: (object: JsonObject, sent: JsonObject) => JsonObject;
  /**
   * Metadata that a write keeps, besides what the server alone sets; everything if absent, as for custom
   * resources (apimachinery ResetObjectMetaForStatus).
   */
  readonly keptMetadata?: readonly ('labels' | 'ownerReferences')[];
  /** Fills in what a decode does of the metadata that was sent; it may change the object that it gets. */
  readonly fillMetadata?: (object: JsonObject) => void;
  /** Model of the sent object, if its kind differs from the object's. */
  readonly model: ResourceModel | undefined;
  readonly openApi: OpenApiModel | undefined;
  /** Top fields of the object that this does not write. */
  readonly resetFields: (object: JsonObject) => readonly string[];
  readonly validate?: ((object: JsonObject, old: JsonObject) => readonly Cause[]) | undefined;
  /** Where GET gives a text that may go on for as long as it likes, and no object: what may be asked of it. */
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
