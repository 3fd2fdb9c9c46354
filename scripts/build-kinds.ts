/**
 * Writes `lib/apiserver/builtin/kinds.json`: the schemas of the built-in kinds, in the form of OpenAPI v3,
 * made of the models of @kubernetes/client-node. The file holds that package's descriptions, so it is
 * generated on each machine and not committed; the product reads it and never the package. `npm ci` does it
 * (`prepare`), or scripts/setup.
 *
 *     node scripts/build-kinds.ts           writes it if it is missing or stale
 *     node scripts/build-kinds.ts --force   writes it
 *
 * A model tells names, types, formats and descriptions, and which fields are required. The rest (list types,
 * defaults, enumerations, which texts are quantities) is in `lib/apiserver/builtin/facts/`.
 */
import { createHash } from 'node:crypto';
import { existsSync, readFileSync, renameSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { kindRoots, modelGroups, type KindRoot } from './kind-roots.ts';

type Schema = Record<string, unknown>;

interface Attribute {
  readonly name: string;
  readonly baseName: string;
  readonly type: string;
  readonly format: string;
}

const top = dirname(import.meta.dirname);
const packageFolder = join(top, 'node_modules/@kubernetes/client-node');
const models = join(packageFolder, 'dist/gen/models');
const target = join(top, 'lib/apiserver/builtin/kinds.json');

const meta = 'io.k8s.apimachinery.pkg.apis.meta.v1';
const names = {
  time: `${meta}.Time`,
  microTime: `${meta}.MicroTime`,
  intOrString: 'io.k8s.apimachinery.pkg.util.intstr.IntOrString',
};

/** Types that are no models; their names in OpenAPI are those of Kubernetes. */
const basics: Readonly<Record<string, Schema>> = {
  [names.time]: {
    type: 'string',
    format: 'date-time',
    description: 'A point in time as in RFC 3339, to the second.',
  },
  [names.microTime]: {
    type: 'string',
    format: 'date-time',
    description: 'A point in time as in RFC 3339, to the microsecond.',
  },
  [names.intOrString]: {
    format: 'int-or-string',
    oneOf: [{ type: 'integer' }, { type: 'string' }],
    description: 'A whole number or a text, such as a percentage or the name of a port.',
  },
  'io.k8s.apimachinery.pkg.api.resource.Quantity': {
    oneOf: [{ type: 'string' }, { type: 'number' }],
    description: 'An amount of a resource: a number with a suffix such as 500m, 2k, 64Mi or 1e3.',
  },
  'io.k8s.apimachinery.pkg.runtime.RawExtension': {
    type: 'object',
    description: 'An object of any kind.',
  },
};

class Models {
  /** By class name: the group and version whose kinds it belongs to. */
  readonly #owners = new Map<string, string>();
  readonly #read = new Map<string, Schema>();

  /** Every unclaimed class that is reachable from a root goes to the root's group. */
  async claim(className: string, owner: string): Promise<void> {
    if (this.#owners.has(className)) return;
    this.#owners.set(className, owner);
    for (const { type } of await attributesOf(className)) {
      for (const used of classesIn(type)) await this.claim(used, modelGroups[used] ?? owner);
    }
  }

  async definitions(roots: readonly KindRoot[]): Promise<Record<string, Schema>> {
    for (const className of this.#owners.keys()) this.#read.set(className, await this.#schema(className));
    for (const { className, kinds } of roots) {
      const schema = this.#read.get(className);
      if (schema !== undefined && kinds.length > 0) schema['x-kubernetes-group-version-kind'] = kinds;
    }
    const named = [...this.#read].map(([className, schema]) => [this.#name(className), schema] as const);
    named.sort(([a], [b]) => (a < b ? -1 : 1));
    return { ...Object.fromEntries(named), ...basics };
  }

  /** `V1PodSpec` -> `io.k8s.api.core.v1.PodSpec`, `EventsV1Event` -> `io.k8s.api.events.v1.Event`. */
  #name(className: string): string {
    const owner = this.#owners.get(className);
    if (owner === undefined) throw new Error(`${className} is used but not reachable`);
    return `${owner}.${className.replace(/^[A-Za-z]*?V\d+(?:(?:alpha|beta)\d+)?(?=[A-Z])/, '')}`;
  }

  async #schema(className: string): Promise<Schema> {
    const [attributes, declared] = [await attributesOf(className), declarationOf(className)];
    const properties: Record<string, Schema> = {};
    const required: string[] = [];
    for (const { name, baseName, type, format } of attributes) {
      const field = declared.fields.get(name);
      if (field === undefined) throw new Error(`${className}: the declaration has no field ${name}`);
      const schema = this.#typed(type, format);
      const [referred] = classesIn(type);
      // The models keep no description of a field that is a model; that of the model is the next best.
      const fallback = referred === type ? declarationOf(type).description : undefined;
      const description = field.description ?? fallback;
      properties[baseName] = description === undefined ? schema : { ...schema, description };
      if (!field.optional) required.push(baseName);
    }
    return {
      type: 'object',
      ...(declared.description === undefined ? {} : { description: declared.description }),
      ...(attributes.length === 0 ? {} : { properties }),
      ...(required.length === 0 ? {} : { required }),
    };
  }

  #typed(type: string, format: string): Schema {
    const item = /^Array<(.+)>$/.exec(type)?.[1];
    if (item !== undefined) return { type: 'array', items: this.#typed(item, format) };
    const value = /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
    if (value !== undefined) return { type: 'object', additionalProperties: this.#typed(value, format) };
    switch (type) {
      case 'any':
        return {};
      case 'boolean':
        return { type };
      case 'string':
        return format === '' ? { type } : { type, format };
      case 'number':
        return format.startsWith('int')
          ? { type: 'integer', format }
          : { type, ...(format === '' ? {} : { format }) };
      case 'Date':
        return reference(names.time);
      case 'V1MicroTime':
        return reference(names.microTime);
      case 'IntOrString':
        return reference(names.intOrString);
      default:
        return reference(this.#name(type));
    }
  }
}

/** In an `allOf`, so that it can have a description and a default. */
function reference(name: string): Schema {
  return { allOf: [{ $ref: `#/components/schemas/${name}` }] };
}

const noModels: ReadonlySet<string> = new Set([
  'any',
  'boolean',
  'string',
  'number',
  'Date',
  'V1MicroTime',
  'IntOrString',
]);

function classesIn(type: string): string[] {
  const inner = /^Array<(.+)>$/.exec(type)?.[1] ?? /^\{ \[key: string\]: (.+); \}$/.exec(type)?.[1];
  if (inner !== undefined) return classesIn(inner);
  return noModels.has(type) ? [] : [type];
}

async function attributesOf(className: string): Promise<readonly Attribute[]> {
  const module = (await import(join(models, `${className}.js`))) as Record<
    string,
    { getAttributeTypeMap(): readonly Attribute[] }
  >;
  const model = module[className];
  if (model === undefined) throw new Error(`${className}.js has no class of that name`);
  return model.getAttributeTypeMap();
}

interface Declaration {
  readonly description: string | undefined;
  readonly fields: ReadonlyMap<
    string,
    { readonly optional: boolean; readonly description: string | undefined }
  >;
}

const declarations = new Map<string, Declaration>();

/** Facts that only the declaration file has: descriptions, and which fields may be absent. */
function declarationOf(className: string): Declaration {
  const known = declarations.get(className);
  if (known !== undefined) return known;
  const text = readFileSync(join(models, `${className}.d.ts`), 'utf8');
  const start = text.indexOf(`export declare class ${className} {`);
  if (start < 0) throw new Error(`${className}.d.ts declares no such class`);
  const description = /\/\*\*\n((?:\* .*\n)+)\*\/\n$/.exec(text.slice(0, start))?.[1];
  const fields = new Map<string, { optional: boolean; description: string | undefined }>();
  const body = text.slice(start);
  for (const [, comment, name = '', mark] of body.matchAll(
    /^(?: {4}\/\*\*\n((?: {4}\* .*\n)+) {4}\*\/\n)? {4}'([^']+)'(\??):/gm,
  )) {
    fields.set(name, { optional: mark === '?', description: comment && plainText(comment) });
  }
  const made = { description: description && plainText(description), fields };
  declarations.set(className, made);
  return made;
}

function plainText(comment: string): string {
  return comment
    .replaceAll(/^ *\* ?/gm, '')
    .trim()
    .replaceAll(/\\(['"])/g, '$1')
    .replaceAll('*_/', '*/');
}

/** Changes with the package, with this program and with its table. */
function keyOfInputs(): string {
  const { version } = JSON.parse(readFileSync(join(packageFolder, 'package.json'), 'utf8')) as {
    version: string;
  };
  const hash = createHash('sha256').update(version);
  for (const source of ['build-kinds.ts', 'kind-roots.ts'])
    hash.update(readFileSync(join(import.meta.dirname, source)));
  return `${version}-${hash.digest('hex').slice(0, 16)}`;
}

/** The key comes first in the file, so that reading it does not require parsing the rest. */
function isFresh(key: string): boolean {
  return existsSync(target) && readFileSync(target, 'utf8').startsWith(`{"key":${JSON.stringify(key)}`);
}

const key = keyOfInputs();
if (!process.argv.includes('--force') && isFresh(key)) {
  process.stdout.write('kinds: already there\n');
} else {
  const read = new Models();
  for (const { className, owner } of kindRoots) await read.claim(className, modelGroups[className] ?? owner);
  const definitions = await read.definitions(kindRoots);
  // Renamed into place: another process may be reading it.
  const temporary = `${target}.${process.pid}`;
  writeFileSync(temporary, JSON.stringify({ key, definitions }));
  renameSync(temporary, target);
  process.stdout.write(`kinds: written, ${Object.keys(definitions).length} schemas\n`);
}
