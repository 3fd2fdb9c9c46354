/**
 * The parts of an OpenAPI schema that every custom resource has: apiVersion, kind, metadata. They are those of the
 * built-in kinds.
 */
import { valueAt } from '../../json/fields.ts';
import { builtinDefinitions } from '../builtin/definitions.ts';
import { collectRefs, refTo } from '../builtin/facts/names.ts';
import { isObject, type JsonObject } from '../../json/json.ts';

const prefix = 'io.k8s.apimachinery.pkg.apis.meta.v1';

interface MetaSchemas {
  /** `apiVersion` and `kind`. */
  readonly typeMeta: Readonly<JsonObject>;
  readonly objectMeta: Readonly<JsonObject>;
  readonly listMeta: Readonly<JsonObject>;
  /** All that the others refer to, by name. */
  readonly definitions: ReadonlyMap<string, JsonObject>;
}

let made: MetaSchemas | undefined;

/** Made when they are first asked for, then shared by all: never changed. */
export function metaSchemas(): MetaSchemas {
  if (made !== undefined) return made;
  const all = builtinDefinitions();
  const any = all.get('io.k8s.api.core.v1.ConfigMap') ?? {};
  const anyList = all.get('io.k8s.api.core.v1.ConfigMapList') ?? {};
  const definitions = new Map<string, JsonObject>();
  for (const name of ['ObjectMeta', 'ListMeta']) reach(`${prefix}.${name}`, all, definitions);
  made = {
    typeMeta: {
      apiVersion: property(any, 'apiVersion') ?? { type: 'string' },
      kind: property(any, 'kind') ?? { type: 'string' },
    },
    objectMeta: property(any, 'metadata') ?? { allOf: [{ $ref: refTo(`${prefix}.ObjectMeta`) }] },
    listMeta: property(anyList, 'metadata') ?? { allOf: [{ $ref: refTo(`${prefix}.ListMeta`) }] },
    definitions,
  };
  return made;
}

function property(definition: JsonObject, name: string): JsonObject | undefined {
  const found = valueAt(definition, 'properties', name);
  return isObject(found) ? found : undefined;
}

/** Takes a definition and all that it refers to. */
function reach(name: string, all: ReadonlyMap<string, JsonObject>, into: Map<string, JsonObject>): void {
  const definition = all.get(name);
  if (definition === undefined || into.has(name)) return;
  into.set(name, definition);
  const referred: string[] = [];
  collectRefs(definition, referred);
  for (const one of referred) reach(one, all, into);
}
