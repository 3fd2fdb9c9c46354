import assert from 'node:assert/strict';
import { describe, test } from 'node:test';

import { builtinResources, customResourceDefinitions } from '../builtin/builtin.ts';
import { builtinDefinitions } from '../builtin/definitions.ts';
import { definitionName, nameOfRef } from '../builtin/facts/names.ts';
import { apiVersionOf } from '../resources/resource.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { type Field, knownKinds, type Message, messageNamed, messageOfKind } from './fields.ts';
import { forms } from './forms.ts';

const definitions = builtinDefinitions();

/** A schema with its references resolved. */
function resolved(schema: unknown): JsonObject {
  if (!isObject(schema)) return {};
  const [first] = Array.isArray(schema['allOf']) ? (schema['allOf'] as unknown[]) : [];
  const ref = schema['$ref'] ?? (isObject(first) ? first['$ref'] : undefined);
  return typeof ref === 'string' ? (definitions.get(nameOfRef(ref)) ?? {}) : schema;
}

/** The fields of a message, and of the messages in it, that differ from the schema. */
class Comparison {
  readonly problems: string[] = [];
  readonly #seen = new Map<string, unknown>();

  compare(message: Message, schema: JsonObject, path: string): void {
    const known = this.#seen.get(message.name);
    if (known === schema) return;
    this.#seen.set(message.name, schema);
    const properties = (schema['properties'] ?? {}) as JsonObject;
    const names = new Set<string>();
    this.#fields(message, properties, path, names);
    for (const name of Object.keys(properties)) {
      if (!names.has(name) && name !== 'apiVersion' && name !== 'kind') {
        this.problems.push(`${path}.${name} is in the schema only`);
      }
    }
  }

  #fields(message: Message, properties: JsonObject, path: string, names: Set<string>): void {
    for (const field of message.fields) {
      if (field.isInline) {
        this.#fields(messageNamed(field.messageName), properties, path, names);
        continue;
      }
      const at = `${path}.${field.name}`;
      if (names.has(field.name)) this.problems.push(`${at} comes twice`);
      names.add(field.name);
      if (properties[field.name] === undefined) this.problems.push(`${at} is in no schema`);
      else this.#field(field, resolved(properties[field.name]), at);
    }
  }

  #field(field: Field, schema: JsonObject, path: string): void {
    const inner =
      field.form === 'list'
        ? schema['items']
        : field.form === 'map'
          ? schema['additionalProperties']
          : schema;
    const container = field.form === 'list' ? 'array' : 'object';
    if (field.form !== 'one' && schema['type'] !== container)
      this.problems.push(`${path} is no ${container}`);
    const one = resolved(inner);
    if (field.scalar !== undefined) {
      if (one['type'] !== scalarTypes[field.scalar]) this.problems.push(`${path} is ${JSON.stringify(one)}`);
    } else if (forms.has(field.messageName)) {
      if (isObject(one['properties']) && !field.messageName.startsWith('apiextensions.')) {
        this.problems.push(`${path} is an object`);
      }
    } else this.compare(messageNamed(field.messageName), one, path);
  }
}

const scalarTypes = {
  string: 'string',
  bytes: 'string',
  bool: 'boolean',
  int32: 'integer',
  int64: 'integer',
  double: 'number',
} as const;

describe('every field has the name and the type of the schema', () => {
  for (const kind of knownKinds()) {
    test(kind, () => {
      const [apiVersion = '', name = ''] = kind.split(' ');
      const message = messageNamed(messageOfKind(apiVersion, name) ?? '');
      const schema = definitions.get(definitionName(message.name));
      assert.ok(schema !== undefined, message.name);
      const comparison = new Comparison();
      comparison.compare(message, schema, name);
      assert.deepEqual(comparison.problems, []);
    });
  }
});

test('every kind that is served has a message', () => {
  const crds = customResourceDefinitions({ nameRule: 'dns-subdomain', generation: 'all', resetFields: [] });
  const kinds = [...builtinResources().flat(), crds].flatMap((resource) => [
    resource,
    ...resource.subresources.values(),
  ]);
  assert.ok(kinds.length > 30);
  for (const kind of kinds) {
    assert.ok(
      messageOfKind(apiVersionOf(kind), kind.kind) !== undefined,
      `${apiVersionOf(kind)} ${kind.kind}`,
    );
  }
});

test('numbers and places are each of one field', () => {
  const seen = new Set<string>();
  const check = (name: string): void => {
    if (seen.has(name)) return;
    seen.add(name);
    const { fields, byNumber } = messageNamed(name);
    for (const [index, field] of fields.entries()) {
      assert.equal(field.index, index);
      assert.ok(field.number > 0);
      assert.equal(byNumber[field.number], field, `${name}.${field.name}`);
      if (field.messageName !== '') check(field.messageName);
    }
  };
  for (const kind of knownKinds()) {
    const [apiVersion = '', name = ''] = kind.split(' ');
    check(messageOfKind(apiVersion, name) ?? '');
  }
  assert.ok(seen.size > 300);
});
