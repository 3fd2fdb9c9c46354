/**
 * The schemas of the built-in kinds: read from `kinds.json`, which `scripts/build-kinds.ts` makes, and completed with
 * the facts in `facts/`. Read on first use.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { defaultValues, notRequired, zeroDefaulted } from './facts/defaults.ts';
import { enumerations } from './facts/enums.ts';
import { atomicFields, atomicTypes, listMaps, listSets } from './facts/lists.ts';
import { definitionName, quantityName, refTo } from './facts/names.ts';
import { quantityFields } from './facts/quantities.ts';

let read: ReadonlyMap<string, JsonObject> | undefined;

/** Keyed by name in OpenAPI; shared, so never changed. @throws {RampartError} `SYSTEM` for a missing or bad file. */
export function builtinDefinitions(): ReadonlyMap<string, JsonObject> {
  read ??= completed(readFile());
  return read;
}

function readFile(): Map<string, JsonObject> {
  const path = join(import.meta.dirname, 'kinds.json');
  try {
    const { definitions } = JSON.parse(readFileSync(path, 'utf8')) as {
      definitions: Record<string, JsonObject>;
    };
    return new Map(Object.entries(definitions));
  } catch (cause) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'cannot read the schemas of the built-in kinds',
      why: messageOf(cause),
      next: 'In a checkout, scripts/setup creates them',
      cause,
    });
  }
}

function completed(definitions: Map<string, JsonObject>): ReadonlyMap<string, JsonObject> {
  const facts = new Facts(definitions);
  for (const [type, fields] of Object.entries(listMaps)) {
    for (const [field, keys] of Object.entries(fields)) {
      const property = facts.property(type, field);
      property['x-kubernetes-list-type'] = 'map';
      property['x-kubernetes-list-map-keys'] = keys;
    }
  }
  for (const [type, fields] of Object.entries(listSets)) {
    for (const field of fields) facts.property(type, field)['x-kubernetes-list-type'] = 'set';
  }
  for (const type of atomicTypes) facts.definition(type)['x-kubernetes-map-type'] = 'atomic';
  for (const [type, fields] of Object.entries(atomicFields)) {
    for (const field of fields) facts.property(type, field)['x-kubernetes-map-type'] = 'atomic';
  }
  for (const [type, fields] of Object.entries(quantityFields)) {
    for (const field of fields) makeQuantity(facts.property(type, field));
  }
  for (const [type, fields] of Object.entries(enumerations)) {
    for (const [field, values] of Object.entries(fields)) {
      const property = facts.property(type, field);
      const target = isObject(property['items']) ? property['items'] : property;
      target['enum'] = values;
    }
  }
  for (const [type, fields] of Object.entries(notRequired)) {
    for (const field of fields) facts.makeOptional(type, field);
  }
  for (const [type, fields] of Object.entries(defaultValues)) {
    for (const [field, value] of Object.entries(fields)) facts.property(type, field)['default'] = value;
  }
  for (const type of zeroDefaulted) facts.defaultToZero(type);
  return definitions;
}

const zeroes: Readonly<Record<string, unknown>> = { string: '', integer: 0, boolean: false };

/** A fact about a definition or field that does not exist is an error in a table: the models have changed since. */
class Facts {
  readonly #definitions: ReadonlyMap<string, JsonObject>;

  constructor(definitions: ReadonlyMap<string, JsonObject>) {
    this.#definitions = definitions;
  }

  definition(type: string): JsonObject {
    const definition = this.#definitions.get(definitionName(type));
    if (definition === undefined) throw unknown(type);
    return definition;
  }

  property(type: string, field: string): JsonObject {
    const properties = this.definition(type)['properties'];
    const property = isObject(properties) ? properties[field] : undefined;
    if (!isObject(property)) throw unknown(`${type}.${field}`);
    return property;
  }

  makeOptional(type: string, field: string): void {
    const definition = this.definition(type);
    const required = requiredOf(definition).filter((name) => name !== field);
    if (required.length > 0) definition['required'] = required;
    else delete definition['required'];
  }

  defaultToZero(type: string): void {
    for (const field of requiredOf(this.definition(type))) {
      const property = this.property(type, field);
      const zero = zeroes[String(property['type'])];
      if (zero !== undefined) property['default'] = zero;
    }
  }
}

function unknown(name: string): RampartError {
  return new RampartError(errorCodes.SYSTEM, {
    what: `cannot complete the schemas of the built-in kinds: there is no ${name}`,
    next: 'Recreate kinds.json (scripts/setup), or correct the tables in lib/apiserver/builtin/facts',
  });
}

function requiredOf(definition: JsonObject): readonly string[] {
  return (definition['required'] as readonly string[] | undefined) ?? [];
}

function makeQuantity(property: JsonObject): void {
  const quantity = { allOf: [{ $ref: refTo(quantityName) }] };
  if (property['type'] === 'object') property['additionalProperties'] = quantity;
  else {
    delete property['type'];
    property['allOf'] = quantity.allOf;
  }
}
