/**
 * Checks embedded resources (`x-kubernetes-embedded-resource`): they need an apiVersion, a kind and valid metadata
 * (apiextensions-apiserver `pkg/apiserver/schema/objectmeta/validation.go`).
 */
import { fieldError, type Problems } from './field-error.ts';
import { fieldOf, isObject, jsonType, type JsonObject } from '../../json/json.ts';
import type { SchemaNode } from './node.ts';

/** Does not examine the root of the object, whose metadata are checked elsewhere, whatever the schema says. */
export function checkEmbedded(
  value: unknown,
  node: SchemaNode,
  path: string,
  problems: Problems,
  root = true,
): void {
  if (!node.within.embedded || problems.full) return;
  if (Array.isArray(value)) {
    const items = node.items;
    if (items === undefined) return;
    value.forEach((item, index) => checkEmbedded(item, items, `${path}[${index}]`, problems, false));
    return;
  }
  if (!isObject(value)) return;
  if (node.embedded && !root) checkResource(value, path, problems);
  for (const name of Object.keys(value)) {
    const property = node.properties.get(name);
    const schema = property ?? node.additional;
    if (schema === undefined) continue;
    const field = property === undefined ? `${path}[${name}]` : path === '' ? name : `${path}.${name}`;
    checkEmbedded(value[name], schema, field, problems, false);
  }
}

const dns1035Message =
  "may have mixed case, but should otherwise match: a DNS-1035 label must consist of lower case alphanumeric characters or '-', " +
  "start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', " +
  "regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')";

function checkResource(value: JsonObject, path: string, problems: Problems): void {
  const [apiVersion, kind] = [fieldOf(value, 'apiVersion'), fieldOf(value, 'kind')];
  if (apiVersion === undefined || apiVersion === '') problems.add(fieldError.required(`${path}.apiVersion`));
  else if (typeof apiVersion !== 'string') {
    problems.add(fieldError.invalid(`${path}.apiVersion`, apiVersion, 'must be a string'));
  } else if (apiVersion.split('/').length > 2) {
    problems.add(
      fieldError.invalid(`${path}.apiVersion`, apiVersion, `unexpected GroupVersion string: ${apiVersion}`),
    );
  }
  if (kind === undefined || kind === '') problems.add(fieldError.required(`${path}.kind`));
  else if (typeof kind !== 'string')
    problems.add(fieldError.invalid(`${path}.kind`, kind, 'must be a string'));
  else if (kind.length > 63 || !/^[a-z](?:[-a-z0-9]*[a-z0-9])?$/.test(kind.toLowerCase())) {
    problems.add(fieldError.invalid(`${path}.kind`, kind, dns1035Message));
  }
  const metadata = fieldOf(value, 'metadata');
  if (metadata !== undefined && metadata !== null) checkMetadata(metadata, `${path}.metadata`, problems);
}

const textFields = ['name', 'generateName', 'namespace', 'uid', 'resourceVersion', 'selfLink'];

/** Checks the types of fields that users write, and that the name can be a segment of a path. */
function checkMetadata(metadata: unknown, path: string, problems: Problems): void {
  if (!isObject(metadata)) {
    problems.add(fieldError.invalid(path, metadata, `expected object, got ${jsonType(metadata)}`));
    return;
  }
  for (const name of textFields) {
    const value = fieldOf(metadata, name);
    if (value !== undefined && value !== null && typeof value !== 'string') {
      problems.add(fieldError.invalid(`${path}.${name}`, value, 'must be a string'));
    }
  }
  for (const name of ['labels', 'annotations']) {
    const map = fieldOf(metadata, name);
    if (map === undefined || map === null) continue;
    if (!isObject(map) || Object.values(map).some((value) => typeof value !== 'string')) {
      problems.add(fieldError.invalid(`${path}.${name}`, map, 'must be a map of strings'));
    }
  }
  const name = fieldOf(metadata, 'name');
  if (typeof name !== 'string') return;
  const reason =
    name === '.' || name === '..'
      ? `may not be '${name}'`
      : ['/', '%'].filter((part) => name.includes(part)).map((part) => `may not contain '${part}'`)[0];
  if (reason !== undefined) problems.add(fieldError.invalid(`${path}.name`, name, reason));
}
