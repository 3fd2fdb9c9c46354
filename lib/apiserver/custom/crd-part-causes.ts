/**
 * Validation of names, subresources, printer columns and the conversion of a CustomResourceDefinition. Paths
 * and wording: apiextensions-apiserver `pkg/apis/apiextensions/validation/validation.go`.
 */
import { textAt, textsAt, valueAt } from '../../json/fields.ts';
import { fieldError, type Cause } from '../schema/field-error.ts';
import { fieldOf, isObject, type JsonObject } from '../../json/json.ts';
import { readColumn, readNames } from './crd.ts';
import { nameProblems } from '../resources/object-names.ts';

/** @param path `spec.names`, `status.acceptedNames` */
export function nameCauses(names: JsonObject, path: string): Cause[] {
  const { plural, singular, kind, listKind, shortNames, categories } = readNames(names);
  const causes: Cause[] = [];
  const check = (field: string, name: string, mixedCase: boolean): void => {
    const problems = nameProblems('dns1035-label', mixedCase ? name.toLowerCase() : name);
    if (problems.length === 0) return;
    const before = mixedCase ? 'may have mixed case, but should otherwise match: ' : '';
    causes.push(fieldError.invalid(`${path}.${field}`, name, before + problems.join(',')));
  };
  if (plural !== '') check('plural', plural, false);
  if (singular !== '') check('singular', singular, false);
  if (kind !== '') check('kind', kind, true);
  if (listKind !== '') check('listKind', listKind, true);
  shortNames.forEach((name, index) => check(`shortNames[${index}]`, name, false));
  if (kind !== '' && kind === listKind) {
    causes.push(fieldError.invalid(`${path}.listKind`, listKind, 'kind and listKind may not be the same'));
  }
  categories.forEach((name, index) => check(`categories[${index}]`, name, false));
  return causes;
}

/** @param path `spec.subresources`, or that of a version */
export function subresourceCauses(subresources: unknown, path: string): Cause[] {
  const scale = valueAt(subresources, 'scale');
  if (!isObject(scale)) return [];
  const check = (name: string, under: readonly string[], required: boolean): Cause[] =>
    scalePathCauses(textAt(scale, name), `${path}.scale.${name}`, under, required);
  return [
    ...check('specReplicasPath', ['.spec'], true),
    ...check('statusReplicasPath', ['.status'], true),
    ...check('labelSelectorPath', ['.spec', '.status'], false),
  ];
}

function scalePathCauses(path: string, field: string, under: readonly string[], required: boolean): Cause[] {
  if (path === '') return required ? [fieldError.required(field)] : [];
  const malformed = pathCauses(path, field);
  if (malformed.length > 0 || under.some((top) => path.startsWith(`${top}.`))) return malformed;
  const where = under.length === 1 ? under[0] : `either ${under.join(' or ')}`;
  return [fieldError.invalid(field, path, `should be a json path under ${where}`)];
}

function pathCauses(path: string, field: string): Cause[] {
  return path.startsWith('.')
    ? []
    : [fieldError.invalid(field, path, 'must be a simple json path starting with .')];
}

const columnTypes = ['boolean', 'date', 'integer', 'number', 'string'];
const columnFormats = ['byte', 'date', 'date-time', 'double', 'float', 'int32', 'int64', 'password'];

/** @param path `spec.additionalPrinterColumns[0]`, or that of a version */
export function columnCauses(column: JsonObject, path: string): Cause[] {
  const { name, type, format, jsonPath } = readColumn(column);
  const causes: Cause[] = [];
  if (name === '') causes.push(fieldError.required(`${path}.name`));
  const types = `must be one of ${columnTypes.join(',')}`;
  if (type === '') causes.push(fieldError.required(`${path}.type`, types));
  else if (!columnTypes.includes(type)) causes.push(fieldError.invalid(`${path}.type`, type, types));
  if (format !== '' && !columnFormats.includes(format)) {
    causes.push(fieldError.invalid(`${path}.format`, format, `must be one of ${columnFormats.join(',')}`));
  }
  // As in Kubernetes, the message has the field's name in the internal version: `JSONPath`.
  if (jsonPath === '') causes.push(fieldError.required(`${path}.JSONPath`));
  else causes.push(...pathCauses(jsonPath, `${path}.JSONPath`));
  return causes;
}

/**
 * A conversion webhook converts between versions. This server never calls it, so it accepts one only if no conversion is ever needed.
 */
export function conversionCauses(conversion: unknown, versionCount: number): Cause[] {
  if (!isObject(conversion)) return [];
  const path = 'spec.conversion';
  const strategy = textAt(conversion, 'strategy');
  const config = valueAt(conversion, 'webhook', 'clientConfig');
  const reviews = textsAt(conversion, 'webhook', 'conversionReviewVersions');
  if (strategy === '') return [fieldError.required(`${path}.strategy`)];
  if (strategy === 'None') {
    const why = 'should not be set when strategy is not set to Webhook';
    return [
      ...(isObject(config) ? [fieldError.forbidden(`${path}.webhookClientConfig`, why)] : []),
      ...(reviews.length > 0 ? [fieldError.forbidden(`${path}.conversionReviewVersions`, why)] : []),
    ];
  }
  if (strategy !== 'Webhook') {
    return [fieldError.notSupported(`${path}.strategy`, strategy, ['None', 'Webhook'])];
  }
  if (versionCount > 1) {
    const why =
      'this server calls no conversion webhooks: a definition with several versions must use "None" here';
    return [fieldError.invalid(`${path}.strategy`, strategy, why)];
  }
  return webhookCauses(config, reviews, path);
}

function webhookCauses(config: unknown, reviews: readonly string[], path: string): Cause[] {
  const causes: Cause[] = [];
  const field = `${path}.webhookClientConfig`;
  if (!isObject(config)) causes.push(fieldError.required(field, 'required when strategy is set to Webhook'));
  else if ((fieldOf(config, 'url') === undefined) === (fieldOf(config, 'service') === undefined)) {
    causes.push(fieldError.required(field, 'exactly one of url or service is required'));
  }
  if (reviews.length === 0) causes.push(fieldError.required(`${path}.conversionReviewVersions`));
  else if (!reviews.some((version) => version === 'v1' || version === 'v1beta1')) {
    const why = 'must include at least one of v1, v1beta1';
    causes.push(fieldError.invalid(`${path}.conversionReviewVersions`, reviews, why));
  }
  return causes;
}
