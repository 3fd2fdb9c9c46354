/**
 * The labels of stored objects, read without the rest of the object: a list by labels looks at every object.
 */
import type { Labels } from '../../kube/selectors/selectors.ts';
import { objectAt } from '../../json/fields.ts';
import { parseJson } from '../resources/json-text.ts';
import type { StoredObject } from '../store/object.ts';

const none: Labels = {};
const known = new WeakMap<StoredObject, Labels>();

const labelsField = '","labels":{';

/** The labels of an object, which all who ask for them share. */
export function storedLabels(stored: StoredObject): Labels {
  let labels = known.get(stored);
  if (labels === undefined) known.set(stored, (labels = readLabels(stored)));
  return labels;
}

function readLabels({ text, versionAt, resourceVersion }: StoredObject): Labels {
  const at = versionAt + String(resourceVersion).length;
  // `storedText` puts labels right behind the version, and they have no braces in them.
  if (text.startsWith(labelsField, at)) {
    const begin = at + labelsField.length - 1;
    const end = text.indexOf('}', begin);
    return JSON.parse(text.slice(begin, end + 1)) as Labels;
  }
  // There may be labels further behind: those of a template, or an object that was written in another way.
  if (!text.includes('"labels":{', at)) return none;
  return objectAt(parseJson(text), 'metadata', 'labels') as Labels;
}
