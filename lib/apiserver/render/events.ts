/** Renders events of watches, each as a line of JSON: `{"type":"ADDED","object":{...}}`. */
import { textAt } from '../../json/fields.ts';
import type { Item } from '../resources/item.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import type { JsonObject } from '../../json/json.ts';
import type { ChangeType } from '../store/object.ts';
import type { WatchEvent } from '../verbs/request.ts';
import type { Format } from './format.ts';
import { partialMetadata } from './metadata.ts';
import { layoutOf, rowOf, tableEnd, tableRow, tableStart } from './table.ts';

interface Line {
  readonly type: ChangeType;
  readonly format: Format;
  readonly withColumns: boolean;
  /** The time (in seconds) for which the ages in a Table were computed; 0 if there are no ages. */
  readonly second: number;
  readonly text: string;
}

/** Rendered lines of an item. Watches of a kind share items, so that each line is made only once. */
const linesOfItems = new WeakMap<Item, Line[]>();

/**
 * Renders a batch of events as lines.
 *
 * @param format of the watch; always JSON.
 * @param now for ages in Tables.
 * @param withColumns whether the first Table includes its columns: true for the first batch of a watch; all later
 * events omit them (apiserver `pkg/endpoints/handlers/response.go`, watchEmbeddedEncoder).
 */
export function renderEvents(
  batch: readonly WatchEvent[],
  resource: Resource,
  format: Format,
  now: Date,
  withColumns = true,
): string {
  const [only] = batch;
  if (only !== undefined && batch.length === 1) return lineOf(only, resource, format, now, withColumns);
  return batch
    .map((event, index) => lineOf(event, resource, format, now, withColumns && index === 0))
    .join('');
}

function lineOf(
  event: WatchEvent,
  resource: Resource,
  format: Format,
  now: Date,
  withColumns: boolean,
): string {
  if (event.type === 'BOOKMARK') return bookmarkLine(event, resource, format, now, withColumns);
  const { type, item } = event;
  const isTable = format.shape === 'table';
  const columns = isTable && withColumns;
  const second = isTable ? Math.trunc(now.getTime() / 1000) : 0;
  let lines = linesOfItems.get(item);
  if (lines === undefined) linesOfItems.set(item, (lines = []));
  const at = lines.findIndex(
    (line) => line.type === type && line.format === format && line.withColumns === columns,
  );
  const known = lines[at];
  if (known !== undefined && known.second === second) return known.text;
  const object = objectJson(item, resource, format, now, columns);
  const line = {
    type,
    format,
    withColumns: columns,
    second,
    text: `{"type":"${type}","object":${object}}\n`,
  };
  if (at < 0) lines.push(line);
  else lines[at] = line;
  return line.text;
}

function objectJson(item: Item, resource: Resource, format: Format, now: Date, withColumns: boolean): string {
  if (format.shape === 'object') return item.text;
  if (format.shape === 'metadata') return partialMetadata(item.metadataText, format);
  const row = tableRow(resource, item, format, now);
  return tableOf(row, textAt(item.object, 'metadata', 'resourceVersion'), resource, format, withColumns);
}

function tableOf(
  row: string,
  version: string,
  resource: Resource,
  format: Format,
  withColumns: boolean,
): string {
  const columns = withColumns ? layoutOf(resource).definitions : undefined;
  return `${tableStart(JSON.stringify({ resourceVersion: version }), columns, format)}${row}${tableEnd}`;
}

/** Renders a bookmark: an object of the kind with only a resourceVersion and perhaps an annotation (KEP-3157). */
function bookmarkLine(
  event: Extract<WatchEvent, { readonly type: 'BOOKMARK' }>,
  resource: Resource,
  format: Format,
  now: Date,
  withColumns: boolean,
): string {
  const version = String(event.version);
  const object: JsonObject = {
    kind: resource.kind,
    apiVersion: apiVersionOf(resource),
    metadata: {
      resourceVersion: version,
      ...(event.initialEventsEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {}),
    },
  };
  const text = JSON.stringify(object);
  let shown = text;
  if (format.shape === 'metadata') shown = partialMetadata(JSON.stringify(object['metadata']), format);
  if (format.shape === 'table') {
    const row = rowOf(resource, object, format, now, text);
    shown = tableOf(row, version, resource, format, withColumns);
  }
  return `{"type":"BOOKMARK","object":${shown}}\n`;
}
