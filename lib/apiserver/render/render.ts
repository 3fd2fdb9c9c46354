/** Renders objects and lists as the text of an answer. Events of watches are in events.ts. */
import { textAt } from '../../json/fields.ts';
import { type Item, textHead } from '../resources/item.ts';
import { jsonText, parseJson } from '../resources/json-text.ts';
import { apiVersionOf, type Resource } from '../resources/resource.ts';
import type { ItemList } from '../verbs/request.ts';
import type { Format } from './format.ts';
import { listMetadata, partialMetadata } from './metadata.ts';
import { layoutOf, tableEnd, tableRow, tableStart } from './table.ts';
import { Document, isScalar, visit } from 'yaml';

/** Characters in a part of a list of stored texts: few enough that the first part is sent soon, but enough to be worth a write. */
const textPartSize = 256 * 1024;
/**
 * Characters in a part of any other list, which takes longer to render: the event loop has to be free again after a few milliseconds.
 */
const madePartSize = 32 * 1024;

/** Renders a single object. @param now - For ages in Tables. */
export function renderItem(item: Item, format: Format, now: Date): string {
  return inEncoding(itemJson(item, format, now), format);
}

/** Renders an answer that is not an item: a Status. As in Kubernetes, it has the same form whatever shape was requested. */
export function renderBody(body: object, format: Pick<Format, 'encoding' | 'pretty'>): string {
  if (format.encoding === 'yaml') return toYaml(body);
  return format.pretty ? `${jsonText(body, 2)}\n` : jsonText(body);
}

/**
 * Renders a list in consecutive parts. If whole objects were requested, stored texts are joined unchanged, without parsing.
 * Items of custom kinds have `kind` and `apiVersion`; those of built-in kinds do not, as Go's list types omit them.
 */
export function* renderList(list: ItemList, format: Format, now: Date): Generator<string, void, undefined> {
  if (format.encoding === 'yaml' || format.pretty) {
    yield inEncoding([...listJson(list, format, now)].join(''), format);
    return;
  }
  yield* listJson(list, format, now);
}

function itemJson(item: Item, format: Format, now: Date): string {
  if (format.shape === 'metadata') return partialMetadata(item.metadataText, format);
  if (format.shape === 'object') return item.text;
  const { resource } = item;
  const metadata = JSON.stringify({ resourceVersion: textAt(item.object, 'metadata', 'resourceVersion') });
  const start = tableStart(metadata, layoutOf(resource).definitions, format);
  return `${start}${tableRow(resource, item, format, now)}${tableEnd}`;
}

function* listJson(list: ItemList, format: Format, now: Date): Generator<string, void, undefined> {
  const [start, end] = frameOf(list, format);
  const partSize = format.shape === 'object' ? textPartSize : madePartSize;
  let part: string[] = [];
  let size = 0;
  let separator = start;
  for (const item of list.items) {
    const text = elementJson(list, item, format, now);
    part.push(separator, text);
    separator = ',';
    size += text.length;
    if (size < partSize) continue;
    yield part.join('');
    part = [];
    size = 0;
  }
  if (separator === start) part.push(start);
  part.push(end);
  yield part.join('');
}

function frameOf(list: ItemList, format: Format): readonly [string, string] {
  const { resource } = list;
  const metadata = listMetadata(list);
  if (format.shape === 'table') {
    return [tableStart(metadata, layoutOf(resource).definitions, format), tableEnd];
  }
  if (format.shape === 'object') return listFrame(list);
  return framed('PartialObjectMetadataList', `meta.k8s.io/${format.metaVersion}`, metadata);
}

/** The text before and after the items of a list of objects. */
export function listFrame(list: ItemList): readonly [string, string] {
  return framed(list.resource.listKind, apiVersionOf(list.resource), listMetadata(list));
}

function framed(kind: string, apiVersion: string, metadata: string): readonly [string, string] {
  return [
    `{"kind":${JSON.stringify(kind)},"apiVersion":${JSON.stringify(apiVersion)},"metadata":${metadata},"items":[`,
    ']}',
  ];
}

function elementJson(list: ItemList, item: Item, format: Format, now: Date): string {
  if (format.shape === 'object') return itemText(list.resource, item);
  return format.shape === 'metadata'
    ? partialMetadata(item.metadataText, format)
    : tableRow(list.resource, item, format, now);
}

function itemText(resource: Resource, item: Item): string {
  if (resource.isCustom) return item.text;
  const head = textHead(apiVersionOf(resource), resource.kind);
  if (item.text.startsWith(head)) return `{${item.text.slice(head.length)}`;
  const { apiVersion: _version, kind: _kind, ...rest } = item.object;
  return jsonText(rest);
}

function inEncoding(json: string, format: Format): string {
  if (format.encoding === 'json' && !format.pretty) return json;
  return renderBody(parseJson(json) as object, format);
}

/** Plain texts that Go's YAML library, but not the one used here, reads as other values: octal numbers of YAML 1.2, `=` and `<<` of 1.1. */
const ambiguous = /^(?:[-+]?0[oO].*|=|<<)$/;

const mergeTag = 'tag:yaml.org,2002:merge';

/** YAML with the same meaning in 1.1 (Go's, which kubectl uses) and 1.2: `yes` and `1_0` are quoted. */
export function toYaml(value: unknown): string {
  const document = new Document(value, {
    version: '1.1',
    aliasDuplicateObjects: false,
    // Without the merge tag, with which every `<<` would be a merge, even a quoted one.
    customTags: (tags) => tags.filter((tag) => typeof tag === 'string' || tag.tag !== mergeTag),
  });
  visit(document, {
    Scalar(_key, node) {
      if (isScalar(node) && typeof node.value === 'string' && ambiguous.test(node.value)) {
        node.type = 'QUOTE_DOUBLE';
      }
    },
  });
  return document.toString({ lineWidth: 0, directives: false });
}
