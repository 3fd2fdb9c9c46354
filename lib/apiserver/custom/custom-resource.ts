/** The kinds that a CustomResourceDefinition defines. */
import { createHash } from 'node:crypto';

import { applyTypeOf } from '../apply/type.ts';
import { statusAloneOf } from '../builtin/subresources.ts';
import {
  allVerbs,
  type OpenApiModel,
  type Resource,
  type ResourceModel,
  type ResourceNames,
  type Strategy,
  type Subresource,
  type Verb,
} from '../resources/resource.ts';
import { compileSchema } from '../schema/compiled-schema.ts';
import type { JsonObject } from '../../json/json.ts';
import { columnsOf } from './columns.ts';
import { type Crd, type CrdVersion, storageVersionOf } from './crd.ts';
import { firstAt, parseJsonPath } from './json-path.ts';
import { definitionName, openApiModelOf } from './open-api.ts';
import { scaleCauses, scaleSubresource } from './scale.ts';
import { type Form, StoredForm } from './stored-form.ts';
import { compareVersions } from '../resources/version-order.ts';

/** Allows and keeps any field: for a version without a schema, which only old data can have. */
const anything: JsonObject = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true };

/** Compiled schemas, keyed by their text: a definition that changes elsewhere need not be compiled again. */
export class SchemaModels {
  #models = new Map<string, ResourceModel>();

  /** The models of a definition's versions. Drops all others. */
  forVersions(versions: readonly CrdVersion[]): ReadonlyMap<string, ResourceModel> {
    const kept = new Map<string, ResourceModel>();
    const byVersion = new Map<string, ResourceModel>();
    for (const { name, schema = anything } of versions) {
      const key = hash(JSON.stringify(schema));
      const model = this.#models.get(key) ?? kept.get(key) ?? new LazyModel(schema);
      kept.set(key, model);
      byVersion.set(name, model);
    }
    this.#models = kept;
    return byVersion;
  }
}

/** Compiled on first use. */
class LazyModel implements ResourceModel {
  readonly #source: JsonObject;
  #schema: ResourceModel['schema'] | undefined;
  #applyType: ResourceModel['applyType'] | undefined;
  readonly patchType = undefined;

  constructor(source: JsonObject) {
    this.#source = source;
  }

  get schema(): ResourceModel['schema'] {
    this.#schema ??= compileSchema(this.#source, { strict: false });
    return this.#schema;
  }

  get applyType(): ResourceModel['applyType'] {
    this.#applyType ??= applyTypeOf(this.#source);
    return this.#applyType;
  }
}

interface CustomResourceOptions {
  /** The accepted names, which differ from those of the spec during a conflict. Default: those of the spec. */
  readonly names?: ResourceNames;
  readonly models?: SchemaModels;
  /**
   * Whether the definition is being deleted, so that no new objects are accepted. Called at each request, so that watches can
   * continue. Default: as in the definition.
   */
  readonly isTerminating?: () => boolean;
  /** Which stored texts have the form of the definition. It is updated to this definition. Default: unknown for all texts. */
  readonly stored?: StoredForm;
}

/**
 * The served versions, the preferred one first; empty if no version is served.
 */
export function resourcesOfCrd(crd: Crd, options: CustomResourceOptions = {}): readonly Resource[] {
  const models = (options.models ?? new SchemaModels()).forVersions(crd.versions);
  const form = formOf(crd, models);
  if (form === undefined) return [];
  const stored = options.stored ?? new StoredForm(form, undefined);
  stored.change(form);
  return crd.versions
    .filter(({ served }) => served)
    .toSorted((a, b) => compareVersions(a.name, b.name))
    .map((version) => {
      const model = models.get(version.name) ?? new LazyModel(anything);
      const { names = crd.names, isTerminating = () => crd.deleting } = options;
      return resourceOf(crd, version, { names, isTerminating, model, stored });
    });
}

/** The form in which a definition stores its objects; `undefined` when no version is stored. */
export function formOf(crd: Crd, models: ReadonlyMap<string, ResourceModel>): Form | undefined {
  const storage = storageVersionOf(crd);
  if (storage === undefined) return undefined;
  return {
    group: crd.group,
    storageVersion: storage.name,
    schemas: new Map([...models].map(([name, model]) => [name, () => model.schema])),
    key: hash(`${storage.name}\n${JSON.stringify(storage.schema ?? anything)}`),
  };
}

/** A short key for large texts. */
export function hash(text: string): string {
  return createHash('sha256').update(text).digest('base64url');
}

const terminatingVerbs: ReadonlySet<Verb> = new Set([...allVerbs].filter((verb) => verb !== 'create'));

interface ResourceParts {
  readonly names: ResourceNames;
  readonly isTerminating: () => boolean;
  readonly model: ResourceModel;
  readonly stored: StoredForm;
}

function resourceOf(
  crd: Crd,
  version: CrdVersion,
  { names, isTerminating, model, stored }: ResourceParts,
): Resource {
  const { plural, singular, kind, listKind, shortNames, categories } = names;
  const subject = { group: crd.group, version: version.name, kind, plural, listKind };
  let openApi: OpenApiModel | undefined;
  const made = (): OpenApiModel => (openApi ??= openApiModelOf(subject, version.schema));
  return {
    ...subject,
    singular,
    shortNames,
    categories,
    namespaced: crd.namespaced,
    storeName: crd.name,
    // A request that began before the definition changed has to write the new form.
    get storedApiVersion() {
      return `${crd.group}/${stored.form.storageVersion}`;
    },
    get verbs() {
      return isTerminating() ? terminatingVerbs : allVerbs;
    },
    subresources: subresourcesOf(version, subject),
    columns: columnsOf(version.columns),
    selectableFields: selectableFieldsOf(version.selectableFields),
    strategy: strategyOf(version),
    codec: stored.codec(version.name),
    deprecation: version.deprecated ? deprecationOf(crd, version) : undefined,
    model,
    openApi: {
      name: definitionName(crd.group, version.name, kind),
      get definitions() {
        return made().definitions;
      },
    },
    isCustom: true,
  };
}

type ResourceSubject = Pick<Resource, 'group' | 'kind' | 'plural' | 'version'>;

function subresourcesOf(crdVersion: CrdVersion, resource: ResourceSubject): Map<string, Subresource> {
  const { hasStatus, scale } = crdVersion;
  const { group, version, kind } = resource;
  const made = new Map<string, Subresource>();
  if (hasStatus) {
    made.set('status', { ...statusAloneOf({ group, kind, validate: scaleCheck(crdVersion) }), version });
  }
  if (scale !== undefined) made.set('scale', scaleSubresource(scale, resource));
  return made;
}

function selectableFieldsOf(paths: readonly string[]): Map<string, (object: JsonObject) => string> {
  const fields = new Map<string, (object: JsonObject) => string>();
  for (const text of paths) {
    const path = parseJsonPath(text);
    if (path === undefined) continue;
    fields.set(text.replace(/^\./, ''), (object) => {
      const value = firstAt(object, path);
      const isScalar = typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean';
      return isScalar ? String(value) : '';
    });
  }
  return fields;
}

/** apiextensions-apiserver `pkg/registry/customresource/strategy.go`, `validator.go` */
function strategyOf(version: CrdVersion): Strategy {
  return {
    nameRule: 'dns-subdomain',
    generation: 'all',
    resetFields: version.hasStatus ? ['status'] : [],
    allowUnconditionalUpdate: false,
    validate: scaleCheck(version),
  };
}

function scaleCheck({ scale }: CrdVersion): Strategy['validate'] {
  return scale && ((object) => scaleCauses(object, scale));
}

/** apiextensions-apiserver `pkg/apiserver/customresource_handler.go` */
function deprecationOf({ group, names, versions }: Crd, { name, deprecationWarning }: CrdVersion): string {
  if (deprecationWarning !== undefined) return deprecationWarning;
  const [better] = versions
    .filter((version) => version.served && !version.deprecated && compareVersions(version.name, name) < 0)
    .toSorted((a, b) => compareVersions(a.name, b.name));
  const message = `${group}/${name} ${names.kind} is deprecated`;
  return better === undefined ? message : `${message}; use ${group}/${better.name} ${names.kind}`;
}
