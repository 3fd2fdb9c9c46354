/**
 * Validation of a CustomResourceDefinition: rules, paths and wording of apiextensions-apiserver
 * `pkg/apis/apiextensions/validation/validation.go` as of Kubernetes 1.35.
 *
 * Upstream validates its internal version, where properties that all versions share are at the top level. So messages call
 * a shared schema `spec.validation.openAPIV3Schema`; only if the versions' schemas differ, they call one
 * `spec.versions[1].schema.openAPIV3Schema` (`pkg/apis/apiextensions/v1/conversion.go`).
 */
import { objectAt, objectsAt, textAt, textsAt } from '../../json/fields.ts';
import { fieldError, type Cause } from '../schema/field-error.ts';
import { deepEqual, fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { approvalCauses } from './approval.ts';
import { isTrue, readCrd, sentSchema } from './crd.ts';
import { columnCauses, conversionCauses, nameCauses, subresourceCauses } from './crd-part-causes.ts';
import { schemaCauses, selectableFieldCauses } from './crd-schema-causes.ts';
import { nameProblems } from '../resources/object-names.ts';

/** @param old the stored definition that this one replaces; `undefined` for a new definition. */
export function crdCauses(object: JsonObject, old: JsonObject | undefined): readonly Cause[] {
  const [spec, metadata] = [objectAt(object, 'spec'), objectAt(object, 'metadata')];
  const causes = old === undefined ? [...nameOfCrdCauses(metadata, spec), ...specCauses(spec, {})] : [];
  if (old !== undefined) {
    const oldSpec = objectAt(old, 'spec');
    // An unchanged spec is not validated again: an object that an older release accepted can still be labelled and deleted.
    if (!deepEqual(spec, oldSpec)) {
      causes.push(
        ...specCauses(spec, oldSpec),
        ...changeCauses(spec, oldSpec, isTrue(readCrd(old), 'Established')),
      );
    }
  }
  causes.push(...crdStatusCauses(object), ...storedVersionCauses(object));
  const oldAnnotations = old && objectAt(old, 'metadata', 'annotations');
  causes.push(...approvalCauses(textAt(spec, 'group'), objectAt(metadata, 'annotations'), oldAnnotations));
  const preserved = old !== undefined && fieldOf(objectAt(old, 'spec'), 'preserveUnknownFields') === true;
  if (!preserved && fieldOf(spec, 'preserveUnknownFields') === true) {
    const why =
      'cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead';
    causes.push(fieldError.invalid('spec.preserveUnknownFields', true, why));
  }
  return causes;
}

/** Errors in the status of a CustomResourceDefinition. */
export function crdStatusCauses(object: JsonObject): Cause[] {
  return nameCauses(objectAt(objectAt(object, 'status'), 'acceptedNames'), 'status.acceptedNames');
}

function nameOfCrdCauses(metadata: JsonObject, spec: JsonObject): Cause[] {
  const name = textAt(metadata, 'name');
  if (name === '' || name === `${textAt(objectAt(spec, 'names'), 'plural')}.${textAt(spec, 'group')}`)
    return [];
  return [fieldError.invalid('metadata.name', name, 'must be spec.names.plural+"."+spec.group')];
}

function specCauses(spec: JsonObject, old: JsonObject): Cause[] {
  const names = objectAt(spec, 'names');
  const versions = objectsAt(spec, 'versions');
  const required = ['plural', 'singular', 'kind', 'listKind'].filter((name) => textAt(names, name) === '');
  return [
    ...groupCauses(textAt(spec, 'group')),
    ...scopeCauses(textAt(spec, 'scope')),
    ...versions.flatMap((version, index) =>
      sentSchema(version) === undefined
        ? [fieldError.required(`spec.versions[${index}].schema.openAPIV3Schema`, 'schemas are required')]
        : [],
    ),
    ...versionsCauses(versions),
    ...required.map((name) => fieldError.required(`spec.names.${name}`)),
    ...nameCauses(names, 'spec.names'),
    ...partsCauses(versions, objectsAt(old, 'versions')),
    ...conversionCauses(fieldOf(spec, 'conversion'), versions.length),
  ];
}

function groupCauses(group: string): Cause[] {
  if (group === '') return [fieldError.required('spec.group')];
  const problems = nameProblems('dns-subdomain', group);
  if (problems.length > 0) return [fieldError.invalid('spec.group', group, problems.join(','))];
  return group.includes('.')
    ? []
    : [fieldError.invalid('spec.group', group, 'should be a domain with at least one dot')];
}

function scopeCauses(scope: string): Cause[] {
  if (scope === '') return [fieldError.required('spec.scope')];
  if (scope === 'Cluster' || scope === 'Namespaced') return [];
  return [fieldError.notSupported('spec.scope', scope, ['Cluster', 'Namespaced'])];
}

function versionsCauses(versions: readonly JsonObject[]): Cause[] {
  const causes: Cause[] = [];
  const names = versions.map((version) => textAt(version, 'name'));
  names.forEach((name, index) => {
    const problems = nameProblems('dns1035-label', name);
    if (problems.length > 0) {
      causes.push(fieldError.invalid(`spec.versions[${index}].name`, name, problems.join(',')));
    }
  });
  versions.forEach((version, index) => {
    causes.push(...deprecationCauses(version, `spec.versions[${index}].deprecationWarning`));
  });
  if (new Set(names).size < names.length) {
    causes.push(fieldError.invalid('spec.versions', versions, 'must contain unique version names'));
  }
  if (versions.filter((version) => fieldOf(version, 'storage') === true).length !== 1) {
    const why = 'must have exactly one version marked as storage version';
    causes.push(fieldError.invalid('spec.versions', versions, why));
  }
  return causes;
}

function deprecationCauses(version: JsonObject, path: string): Cause[] {
  const warning = fieldOf(version, 'deprecationWarning');
  if (typeof warning !== 'string') return [];
  if (fieldOf(version, 'deprecated') !== true) {
    return [fieldError.invalid(path, warning, 'can only be set for deprecated versions')];
  }
  const causes: Cause[] = [];
  if (warning.length > 256) causes.push(fieldError.invalid(path, warning, 'must be <= 256 characters long'));
  if (warning === '') causes.push(fieldError.invalid(path, warning, 'must not be an empty string'));
  const at = warning.search(/[^\p{L}\p{M}\p{N}\p{P}\p{S} ]/u);
  if (at >= 0) {
    const why = `must only contain printable UTF-8 characters; non-printable character found at index ${at}`;
    causes.push(fieldError.invalid(path, warning, why));
  }
  return causes;
}

/** A version, and the path by which messages name one of its parts. */
interface Placed {
  readonly version: JsonObject;
  readonly path: string;
}

/** The paths of a part: one at the top level if all versions have the same, otherwise one for each version. */
function placed(
  versions: readonly JsonObject[],
  partOf: (version: JsonObject) => unknown,
  name: string,
  top: string,
): Placed[] {
  const [first] = versions;
  if (first === undefined) return [];
  const common = versions.every((version) => deepEqual(partOf(version) ?? null, partOf(first) ?? null));
  if (common) return [{ version: first, path: `spec.${top}` }];
  return versions.map((version, index) => ({ version, path: `spec.versions[${index}].${name}` }));
}

function partsCauses(versions: readonly JsonObject[], old: readonly JsonObject[]): Cause[] {
  const causes: Cause[] = [];
  const hasStatus = (version: JsonObject): boolean =>
    isObject(fieldOf(objectAt(version, 'subresources'), 'status'));
  const anyStatus = versions.some(hasStatus);
  const schemas = placed(versions, (version) => fieldOf(version, 'schema'), 'schema', 'validation');
  for (const { version, path } of schemas) {
    const schema = sentSchema(version);
    const statusEnabled =
      schemas.length === versions.length && versions.length > 1 ? hasStatus(version) : anyStatus;
    const stored = old.find((one) => textAt(one, 'name') === textAt(version, 'name'));
    const known = stored !== undefined && deepEqual(sentSchema(stored), schema);
    if (schema !== undefined) causes.push(...schemaCauses(schema, path, statusEnabled, known));
  }
  const subresources = 'subresources';
  const partOf = (version: JsonObject): unknown => fieldOf(version, subresources);
  for (const { version, path } of placed(versions, partOf, subresources, subresources)) {
    causes.push(...subresourceCauses(partOf(version), path));
  }
  const columns = 'additionalPrinterColumns';
  for (const { version, path } of placed(versions, (one) => fieldOf(one, columns), columns, columns)) {
    objectsAt(version, columns).forEach((column, index) => {
      causes.push(...columnCauses(column, `${path}[${index}]`));
    });
  }
  const selectable = (version: JsonObject): unknown => [
    fieldOf(version, 'selectableFields') ?? null,
    fieldOf(version, 'schema') ?? null,
  ];
  const haveOneSchema = versions.every((one) =>
    deepEqual(fieldOf(one, 'schema'), fieldOf(versions[0] ?? {}, 'schema')),
  );
  for (const { version, path } of placed(versions, selectable, 'selectableFields', 'selectableFields')) {
    const schema = sentSchema(version);
    const fields = objectsAt(version, 'selectableFields');
    if (fields.length === 0 || schema === undefined) continue;
    // Upstream moves a shared schema to the top level, so that differing selectable fields have no schema beside them.
    if (path !== 'spec.selectableFields' && haveOneSchema) {
      const why = 'may only be set when `version.schema.openAPIV3Schema` is not included';
      causes.push(fieldError.invalid(path, '', why));
    } else causes.push(...selectableFieldCauses(fields, schema, path));
  }
  return causes;
}

function changeCauses(spec: JsonObject, old: JsonObject, established: boolean): Cause[] {
  const [names, oldNames] = [objectAt(spec, 'names'), objectAt(old, 'names')];
  const fields: [string, unknown, unknown][] = [
    ['spec.group', fieldOf(spec, 'group'), fieldOf(old, 'group')],
    ['spec.names.plural', fieldOf(names, 'plural'), fieldOf(oldNames, 'plural')],
  ];
  if (established) {
    fields.unshift(
      ['spec.scope', fieldOf(spec, 'scope'), fieldOf(old, 'scope')],
      ['spec.names.kind', fieldOf(names, 'kind'), fieldOf(oldNames, 'kind')],
    );
  }
  return fields
    .filter(([, value, oldValue]) => !deepEqual(value ?? null, oldValue ?? null))
    .map(([field, value]) => fieldError.invalid(field, value, 'field is immutable'));
}

function storedVersionCauses(object: JsonObject): Cause[] {
  const path = 'status.storedVersions';
  const stored = textsAt(objectAt(object, 'status'), 'storedVersions');
  if (stored.length === 0) return [fieldError.invalid(path, stored, 'must have at least one stored version')];
  const versions = objectsAt(objectAt(object, 'spec'), 'versions');
  const causes: Cause[] = [];
  for (const version of versions) {
    const name = textAt(version, 'name');
    if (fieldOf(version, 'storage') === true && !stored.includes(name)) {
      causes.push(fieldError.invalid(path, stored, `must have the storage version ${name}`));
    }
  }
  stored.forEach((name, index) => {
    if (versions.some((version) => textAt(version, 'name') === name)) return;
    const why =
      `missing from spec.versions; ${name} was previously a storage version, and must remain in spec.versions until a ` +
      `storage migration ensures no data remains persisted in ${name} and removes ${name} from status.storedVersions`;
    causes.push(fieldError.invalid(`${path}[${index}]`, name, why));
  });
  return causes;
}
