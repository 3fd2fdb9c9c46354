/** Converts stored objects into the form of a version of their kind, and back. */
import { isObject, type JsonObject } from '../../json/json.ts';
import type { Change, ChangeType, StoredObject, VersionedText } from '../store/object.ts';
import { jsonText, parseJson } from './json-text.ts';
import { metadataText } from './metadata-text.ts';
import type { Codec, Resource } from './resource.ts';

/** An object in an answer. Object and text are made from each other on demand. */
export class Item {
  readonly resource: Resource;
  readonly #stored: StoredObject | undefined;
  readonly #codec: Codec | undefined;
  #object: JsonObject | undefined;
  #text: string | undefined;

  private constructor(
    resource: Resource,
    stored: StoredObject | undefined,
    codec: Codec | undefined,
    object: JsonObject | undefined,
  ) {
    this.resource = resource;
    this.#stored = stored;
    this.#codec = codec;
    this.#object = object;
    if (stored !== undefined && codec === undefined) this.#text = stored.text;
  }

  static ofStored(resource: Resource, stored: StoredObject): Item {
    const { codec } = resource;
    return new Item(resource, stored, codec?.showsAsStored?.(stored) === true ? undefined : codec, undefined);
  }

  /** An item for an object that is not stored: the result of a dry run, a subresource. */
  static ofObject(resource: Resource, object: JsonObject): Item {
    return new Item(resource, undefined, undefined, object);
  }

  /** The stored object from which the item was made; `undefined` for {@link ofObject}. */
  get stored(): StoredObject | undefined {
    return this.#stored;
  }

  /** The object. It is shared by all readers, so never change it. */
  get object(): JsonObject {
    this.#object ??= this.#decode();
    return this.#object;
  }

  get text(): string {
    this.#text ??= jsonText(this.object);
    return this.#text;
  }

  /** JSON of the object's metadata. */
  get metadataText(): string {
    const isShown = this.#stored !== undefined && this.#codec === undefined;
    return (isShown ? metadataText(this.#stored) : undefined) ?? jsonText(this.object['metadata'] ?? {});
  }

  #decode(): JsonObject {
    if (this.#stored === undefined) throw new TypeError('an item of nothing');
    const object = parseJson(this.#stored.text);
    if (!isObject(object)) throw new TypeError('stored JSON that is no object');
    return this.#codec?.decode(object) ?? object;
  }
}

export interface ItemChange {
  readonly type: ChangeType;
  readonly item: Item;
}

/** Items of a stored object, one for each requested version of the kind. */
const itemsOfObjects = new WeakMap<StoredObject, Item[]>();

/** The item of a stored object, the same for all callers with the same version of the kind, so that its text is made only once. */
export function sharedItem(resource: Resource, stored: StoredObject): Item {
  let items = itemsOfObjects.get(stored);
  if (items === undefined) itemsOfObjects.set(stored, (items = []));
  for (const item of items) if (item.resource === resource) return item;
  const item = Item.ofStored(resource, stored);
  items.push(item);
  return item;
}

/** The item of a change, the same for all watches of a version of the kind. */
export function itemOf(resource: Resource, change: Change): Item {
  return sharedItem(resource, change.object);
}

/** The beginning of all stored texts of a kind. */
export function textHead(apiVersion: string, kind: unknown): string {
  return `{"apiVersion":${JSON.stringify(apiVersion)},"kind":${JSON.stringify(kind)},`;
}

/**
 * The text as which an object is stored: `apiVersion`, `kind`, then `metadata`, in which `resourceVersion` comes first, where
 * the store inserts the version, and then the labels, which selectors search for in the text.
 *
 * @param object in the form of this version; its `resourceVersion` is ignored.
 */
export function storedText(resource: Resource, object: JsonObject): VersionedText {
  const encoded = resource.codec?.encode(object) ?? object;
  const { apiVersion: _version, kind, metadata, ...rest } = encoded;
  const { resourceVersion: _replaced, labels, ...others } = isObject(metadata) ? metadata : {};
  const meta = labels === undefined ? others : { labels, ...others };
  const before = `${textHead(resource.storedApiVersion, kind)}"metadata":{"resourceVersion":"`;
  const metaText = jsonText(meta);
  const restText = jsonText(rest);
  const after = `"${metaText === '{}' ? '}' : `,${metaText.slice(1)}`}${restText === '{}' ? '}' : `,${restText.slice(1)}`}`;
  return { before, after };
}
