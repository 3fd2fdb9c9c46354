/** Makes the resource of a built-in kind: its names and special rules from a table, its schema and types on first use. */
import { applyTypeOf } from '../apply/type.ts';
import { patchTypeOf } from '../patch/merge-keys.ts';
import {
  allVerbs,
  apiVersionOf,
  groupResource,
  type Codec,
  type Column,
  type OpenApiModel,
  type Resource,
  type ResourceModel,
  type Strategy,
  type Subresource,
  type Verb,
} from '../resources/resource.ts';
import { compileSchema } from '../schema/compiled-schema.ts';
import { cloneJson, type JsonObject } from '../../json/json.ts';
import { builtinDefinitions } from './definitions.ts';
import { definitionName, nameOfRef, refTo } from './facts/names.ts';
import { takeGoForm } from './go-form.ts';
import { inlineDefinition } from './inline.ts';

interface KindParts {
  /** Default: v1. */
  readonly version?: string;
  /** Default: {@link pluralOf} the kind. */
  readonly plural?: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  /** Default: true. */
  readonly namespaced?: boolean;
  readonly verbs?: ReadonlySet<Verb>;
  readonly columns: readonly Column[];
  readonly selectableFields?: Readonly<Record<string, (object: JsonObject) => string>>;
  readonly subresources?: readonly Subresource[];
  /** Fills in defaults when an object is created or updated. */
  readonly defaults?: (object: JsonObject) => void;
  /** The status of a created object: the fields that Go writes even for an empty status. */
  readonly newStatus?: JsonObject;
  /** Overrides what follows from the other parts. */
  readonly strategy?: Partial<Strategy>;
  /** Set if the objects are stored as those of another group. */
  readonly stored?: { readonly name: string; readonly apiVersion: string; readonly codec: Codec };
}

/** The model that checks and merges a kind's objects; compiled on first use. */
export class LazyModel implements ResourceModel {
  readonly #definition: string;
  readonly #apiVersion: string;
  readonly #kind: string;
  #schema: ResourceModel['schema'] | undefined;
  #applyType: ResourceModel['applyType'] | undefined;

  /** @param definition `core.Pod`. */
  constructor(definition: string, apiVersion: string, kind: string) {
    this.#definition = definitionName(definition);
    this.#apiVersion = apiVersion;
    this.#kind = kind;
  }

  get schema(): ResourceModel['schema'] {
    this.#schema ??= compileSchema(inlineDefinition(builtinDefinitions(), this.#definition), {
      strict: false,
      numericFormats: true,
      path: refTo(this.#definition),
    });
    return this.#schema;
  }

  get applyType(): ResourceModel['applyType'] {
    const definitions = builtinDefinitions();
    this.#applyType ??= applyTypeOf(definitions.get(this.#definition), (ref) =>
      definitions.get(nameOfRef(ref)),
    );
    return this.#applyType;
  }

  /** @throws {GoTypeError} */
  decode(object: JsonObject): void {
    takeGoForm(object, this.#apiVersion, this.#kind);
  }

  get patchType(): ResourceModel['patchType'] {
    return patchTypeOf(this.#apiVersion, this.#kind);
  }
}

/** The OpenAPI model of a definition; reads the definitions on first use. */
export function openApiOf(definition: string): OpenApiModel {
  return {
    name: definitionName(definition),
    get definitions() {
      return builtinDefinitions();
    },
  };
}

/** The plural, guessed as in apimachinery `pkg/api/meta/restmapper.go`. */
function pluralOf(kind: string): string {
  const singular = kind.toLowerCase();
  if (singular.endsWith('s')) return `${singular}es`;
  return singular.endsWith('y') ? `${singular.slice(0, -1)}ies` : `${singular}s`;
}

/** Makes the resource. Cheap: nothing is read. */
export function kindOf(group: string, kind: string, parts: KindParts): Resource {
  const { plural = pluralOf(kind), subresources = [], stored, defaults, newStatus } = parts;
  const { version = 'v1' } = parts;
  const apiVersion = apiVersionOf({ group, version });
  // `core.Pod`, `rbac.Role`, `admissionregistration/v1beta1.MutatingAdmissionPolicy`
  const owner = group === '' ? 'core' : (group.split('.')[0] ?? '');
  const definition = `${owner}${version === 'v1' ? '' : `/${version}`}.${kind}`;
  return {
    group,
    version,
    kind,
    plural,
    singular: kind.toLowerCase(),
    listKind: `${kind}List`,
    shortNames: parts.shortNames ?? [],
    categories: parts.categories ?? [],
    namespaced: parts.namespaced ?? true,
    storeName: stored?.name ?? groupResource({ group, plural }),
    storedApiVersion: stored?.apiVersion ?? apiVersion,
    verbs: parts.verbs ?? allVerbs,
    subresources: new Map(subresources.map((one) => [one.name, one])),
    columns: parts.columns,
    selectableFields: new Map(Object.entries(parts.selectableFields ?? {})),
    strategy: {
      nameRule: 'dns-subdomain',
      generation: 'none',
      resetFields: subresources.some(({ name }) => name === 'status') ? ['status'] : [],
      prepareForCreate:
        newStatus === undefined
          ? defaults
          : (object) => {
              defaults?.(object);
              object['status'] = cloneJson(newStatus);
            },
      prepareForUpdate: defaults,
      ...parts.strategy,
    },
    codec: stored?.codec,
    deprecation: undefined,
    model: new LazyModel(definition, apiVersion, kind),
    openApi: openApiOf(definition),
    isCustom: false,
  };
}
