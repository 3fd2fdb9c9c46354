/**
 * The labels of stored objects, read without the rest of the object: a list by labels looks at every object.
 *
 * @module
 */
import type { LabelSelector, Labels } from '../../kube/selectors.ts';
import { parseJson } from '../resources/json-text.ts';
import { fieldOf, isObject } from '../schema/json.ts';
import type { StoredObject } from '../store/object.ts';

const none: Labels = {};
const known = new WeakMap<StoredObject, Labels>();

/**
 * Whether an object can have the labels that a selector asks for: those that have to be there stand in its text.
 * Texts are those of `JSON.stringify`, without white space.
 */
export function mayHaveLabels({ requirements }: LabelSelector, { text }: StoredObject): boolean {
  for (const { key, operator, values } of requirements) {
    switch (operator) {
      case 'in':
      case '=':
      case '==':
        if (!values.some((value) => text.includes(`"${key}":"${value}"`))) return false;
        break;
      case 'exists':
      case '>':
      case '<':
        if (!text.includes(`"${key}":"`)) return false;
        break;
      case '!=':
      case 'notin':
      case '!':
        break;
    }
  }
  return true;
}

const labelsField = '","labels":{';

/** The labels of an object, which all who ask for them share. */
export function storedLabels(stored: StoredObject): Labels {
  let labels = known.get(stored);
  if (labels === undefined) known.set(stored, (labels = readLabels(stored)));
  return labels;
}

function readLabels({ text, versionAt, resourceVersion }: StoredObject): Labels {
  const at = versionAt + String(resourceVersion).length;
  // Labels come right behind the version (`orderedMetadata`), and have no braces in them.
  if (text.startsWith(labelsField, at)) {
    const begin = at + labelsField.length - 1;
    const end = text.indexOf('}', begin);
    return JSON.parse(text.slice(begin, end + 1)) as Labels;
  }
  // Without labels, the metadata need not be read, where it has none further behind.
  if (!text.includes('"labels":{', at)) return none;
  const object = parseJson(text);
  const metadata = isObject(object) ? fieldOf(object, 'metadata') : undefined;
  const labels = isObject(metadata) ? fieldOf(metadata, 'labels') : undefined;
  return isObject(labels) ? (labels as Record<string, string>) : none;
}
