/** Which objects a list or a watch selects: by labels, by fields, by name. */
import {
  type FieldSelector,
  fieldsMatch,
  parseFieldSelector,
  requiredFieldValue,
} from '../../kube/selectors/field-selectors.ts';
import {
  type Labels,
  type LabelSelector,
  labelsMatch,
  parseLabelSelector,
} from '../../kube/selectors/selectors.ts';
import { apiErrors } from '../resources/api-error.ts';
import type { Item } from '../resources/item.ts';
import type { Resource } from '../resources/resource.ts';
import type { StoredObject } from '../store/object.ts';
import type { ResourceRequest } from './request.ts';
import { objectAt } from '../../json/fields.ts';
import { parseJson } from '../resources/json-text.ts';

export interface Selection {
  /** `undefined` for all namespaces. */
  readonly namespace: string | undefined;
  /** The only name that can match; `undefined` if several can. */
  readonly name: string | undefined;
  /** Whether only one object can match, because its name and, for a namespaced kind, its namespace are given. */
  readonly isOne: boolean;
  /** Whether more than an object's name and namespace has to be examined. */
  readonly looksInside: boolean;
  /** Whether all objects of the namespace match. */
  readonly isAll: boolean;
  matches(item: Item): boolean;
}

/** @throws {ApiError} 400 */
export function selectionOf(request: ResourceRequest): Selection {
  const { resource, namespace, name, query } = request;
  const labels = query.get('labelSelector') ?? '';
  const fields = query.get('fieldSelector') ?? '';
  const within = namespace === '' ? undefined : namespace;
  if (labels === '' && fields === '' && name === '') return everything(within);
  const labelSelector = parseLabelSelector(labels);
  const fieldSelector = parseFieldSelector(fields, (field) => isSelectable(resource, field));
  if (
    name !== '' &&
    fieldSelector.length > 0 &&
    requiredFieldValue(fieldSelector, 'metadata.name') !== name
  ) {
    throw apiErrors.badRequest("fieldSelector metadata.name doesn't match requested name");
  }
  return selecting(resource, within, name, labelSelector, fieldSelector);
}

const always = (): boolean => true;

function everything(namespace: string | undefined): Selection {
  return { namespace, name: undefined, isOne: false, looksInside: false, isAll: true, matches: always };
}

function isSelectable({ namespaced, selectableFields }: Resource, field: string): boolean {
  if (field === 'metadata.name') return true;
  return field === 'metadata.namespace' ? namespaced : selectableFields.has(field);
}

function selecting(
  resource: Resource,
  within: string | undefined,
  pathName: string,
  labels: LabelSelector,
  fields: FieldSelector,
): Selection {
  const name = pathName === '' ? requiredFieldValue(fields, 'metadata.name') : pathName;
  // With a field selector for the namespace, only this namespace is read.
  const namespace =
    within ?? (resource.namespaced ? requiredFieldValue(fields, 'metadata.namespace') : undefined);
  const ofKey = fields.filter(({ field }) => field === 'metadata.name' || field === 'metadata.namespace');
  const inside = fields.filter((term) => !ofKey.includes(term));
  const hasLabels = labels.requirements.length > 0;
  const isOne = name !== undefined && name !== '' && (!resource.namespaced || namespace !== undefined);
  return {
    namespace: namespace === '' ? within : namespace,
    name,
    isOne: isOne && namespace !== '',
    looksInside: hasLabels || inside.length > 0,
    isAll: false,
    matches: (item) => {
      const { stored } = item;
      if (stored === undefined) return false;
      if (pathName !== '' && stored.name !== pathName) return false;
      if (ofKey.length > 0 && !fieldsMatch(ofKey, (field) => keyField(stored, field))) return false;
      if (hasLabels && !labelsMatch(labels, storedLabels(stored))) return false;
      if (inside.length === 0) return true;
      return fieldsMatch(inside, (field) => resource.selectableFields.get(field)?.(item.object));
    },
  };
}

function keyField(stored: StoredObject, field: string): string {
  return field === 'metadata.name' ? stored.name : stored.namespace;
}

const none: Labels = {};
const known = new WeakMap<StoredObject, Labels>();

const labelsField = '","labels":{';

/** The labels of an object, cached and read without parsing the rest: a list by labels examines every object. */
function storedLabels(stored: StoredObject): Labels {
  let labels = known.get(stored);
  if (labels === undefined) known.set(stored, (labels = readLabels(stored)));
  return labels;
}

function readLabels({ text, versionAt, resourceVersion }: StoredObject): Labels {
  const at = versionAt + String(resourceVersion).length;
  // `storedText` puts labels directly after the version, and labels cannot contain braces.
  if (text.startsWith(labelsField, at)) {
    const begin = at + labelsField.length - 1;
    const end = text.indexOf('}', begin);
    return JSON.parse(text.slice(begin, end + 1)) as Labels;
  }
  // There may be labels elsewhere: those of a template, or of an object that was not written by `storedText`.
  if (!text.includes('"labels":{', at)) return none;
  return objectAt(parseJson(text), 'metadata', 'labels') as Labels;
}
