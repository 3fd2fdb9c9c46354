/** Renders Tables, from which `kubectl get` prints (meta.k8s.io/v1 Table). */
import { textAt } from '../../json/fields.ts';
import { nameColumn } from '../builtin/columns/column.ts';
import type { Item } from '../resources/item.ts';
import { jsonText } from '../resources/json-text.ts';
import type { Column, Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import type { Format } from './format.ts';
import { partialMetadata } from './metadata.ts';

interface Layout {
  readonly columns: readonly Column[];
  /** JSON of the TableColumnDefinitions. */
  readonly definitions: string;
}

const layouts = new WeakMap<Resource, Layout>();

/**
 * The columns of a kind. The object's name comes first, unless a built-in kind has its own column `Name` (events have it
 * last). In a custom resource, a printer column `Name` is an additional column.
 */
export function layoutOf(resource: Resource): Layout {
  let layout = layouts.get(resource);
  if (layout === undefined) {
    const { columns: own, isCustom } = resource;
    const isNamed = !isCustom && own.some(({ name }) => name === 'Name');
    const columns = isNamed ? own : [nameColumn, ...own];
    const definitions = JSON.stringify(
      columns.map(({ name, type, format, description, priority }) => ({
        name,
        type,
        format,
        description,
        priority,
      })),
    );
    layouts.set(resource, (layout = { columns, definitions }));
  }
  return layout;
}

/** The beginning of a Table, before its rows. */
export function tableStart(metadata: string, columns: string | undefined, format: Format): string {
  const definitions = columns === undefined ? '[]' : columns;
  return (
    `{"kind":"Table","apiVersion":"meta.k8s.io/${format.metaVersion}","metadata":${metadata},` +
    `"columnDefinitions":${definitions},"rows":[`
  );
}

export const tableEnd = ']}';

/** JSON of a TableRow for an item. */
export function tableRow(resource: Resource, item: Item, format: Format, now: Date): string {
  const { object } = item;
  return rowOf(resource, object, format, now, format.includeObject === 'Object' ? item.text : '');
}

/** JSON of a TableRow for an object that is not an item, such as a bookmark. @param text - JSON of the object. */
export function rowOf(
  resource: Resource,
  object: JsonObject,
  format: Format,
  now: Date,
  text: string,
): string {
  const { columns } = layoutOf(resource);
  let cells = '';
  for (const column of columns) cells += `${cells === '' ? '' : ','}${cellOf(column, object, now)}`;
  const conditions = conditionsOf(resource, object);
  return `{"cells":[${cells}]${conditions},"object":${shownObject(object, format, text)}}`;
}

function shownObject(object: JsonObject, format: Format, text: string): string {
  if (format.includeObject === 'None') return 'null';
  return format.includeObject === 'Object'
    ? text
    : partialMetadata(jsonText(object['metadata'] ?? {}), format);
}

function cellOf(column: Column, object: JsonObject, now: Date): string {
  try {
    return JSON.stringify(column.cell(object, now)) ?? 'null';
  } catch {
    // An object that a column cannot read must not hide all others.
    return '"<invalid>"';
  }
}

/**
 * Rows of finished pods are marked (kubernetes `pkg/printers/internalversion/printers.go`, podSuccessConditions and
 * podFailedConditions).
 */
function conditionsOf(resource: Resource, object: JsonObject): string {
  if (resource.plural !== 'pods' || resource.group !== '') return '';
  const phase = textAt(object, 'status', 'phase');
  if (phase === 'Succeeded') return completed('Succeeded', 'The pod has completed successfully.');
  if (phase === 'Failed') return completed('Failed', 'The pod failed.');
  return '';
}

function completed(reason: string, message: string): string {
  return `,"conditions":[{"type":"Completed","status":"True","reason":"${reason}","message":"${message}"}]`;
}
