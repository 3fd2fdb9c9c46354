/**
 * Defaults have to be what the schema accepts, with nothing in them that it would prune
 * (apiextensions-apiserver `pkg/apiserver/schema/defaulting/validation.go`).
 */
import { checkEmbedded } from './embedded.ts';
import { fieldError, Problems, type Cause } from './field-error.ts';
import { cloneJson } from '../../json/json.ts';
import { metaFields } from './json-schema.ts';
import type { SchemaNode } from './node.ts';
import { pruneObject } from './prune.ts';
import { Validation } from './validate.ts';

/** The causes of all defaults of a schema. Those below `additionalProperties` are not looked at, as in Kubernetes. */
export function defaultCauses(node: SchemaNode, path: string): Cause[] {
  const causes: Cause[] = [];
  visit(node, path, true, false, causes);
  return causes;
}

function visit(
  node: SchemaNode,
  path: string,
  resource: boolean,
  insideMeta: boolean,
  causes: Cause[],
): void {
  const value = node.schema.default;
  if (value !== undefined) checkDefault(value, node, `${path}.default`, insideMeta, causes);
  if (node.items !== undefined) visit(node.items, `${path}.items`, node.items.embedded, insideMeta, causes);
  for (const [name, property] of node.properties) {
    const meta = insideMeta || (resource && metaFields.has(name));
    visit(property, `${path}.properties[${name}]`, property.embedded, meta, causes);
  }
}

function checkDefault(
  value: unknown,
  node: SchemaNode,
  path: string,
  insideMeta: boolean,
  causes: Cause[],
): void {
  if (!insideMeta && pruneObject(cloneJson(value), node, node.embedded).length > 0) {
    causes.push(fieldError.invalid(path, value, 'must not have unknown fields'));
  }
  const problems = new Problems();
  checkEmbedded(value, node, path, problems, false);
  if (problems.causes.length === 0) new Validation(problems, false).check(value, node, undefined);
  for (const problem of problems.causes) {
    // The validator starts at the default, and knows nothing of the way to it.
    const inside = problem.field === '<nil>' ? '' : `.${problem.field}`;
    causes.push(problem.field.startsWith(path) ? problem : { ...problem, field: path + inside });
  }
}
