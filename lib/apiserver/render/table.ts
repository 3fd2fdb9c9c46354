/** Tables: what `kubectl get` prints, made by the server (meta.k8s.io/v1 Table). */
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
 * The columns of a kind: its name comes first unless the kind has a column of that name (events show it last; a column
 * `Name` of a custom resource is another one).
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

/** JSON of a TableRow. `text` is the object's own JSON. */
export function tableRow(resource: Resource, item: Item, format: Format, now: Date): string {
  const { object } = item;
  return rowOf(resource, object, format, now, format.includeObject === 'Object' ? item.text : '');
}

/** The same for an object that is no item: a bookmark. */
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
    // One object that a column cannot read must not hide all others.
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
