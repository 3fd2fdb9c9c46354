/** Reads the fields of `metadata` that a client has sent. */
import { apiTime } from '../../kube/object/api-time.ts';
import { isObject, type JsonObject, setField } from '../../json/json.ts';
import { goName } from './go-decoding.ts';

export interface OwnerReference {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly name?: string;
  readonly uid?: string;
  readonly controller?: boolean;
  readonly blockOwnerDeletion?: boolean;
}

/** `metadata` whose fields have the right types, without empty fields (`''`, `{}`, `[]`). */
export interface Metadata {
  name?: string | undefined;
  generateName?: string | undefined;
  namespace?: string | undefined;
  uid?: string | undefined;
  resourceVersion?: string | undefined;
  generation?: number | undefined;
  creationTimestamp?: string | undefined;
  deletionTimestamp?: string | undefined;
  deletionGracePeriodSeconds?: number | undefined;
  labels?: Readonly<Record<string, string>> | undefined;
  annotations?: Readonly<Record<string, string>> | undefined;
  ownerReferences?: readonly OwnerReference[] | undefined;
  finalizers?: readonly string[] | undefined;
  managedFields?: readonly JsonObject[] | undefined;
}

/** The error for a field of the wrong type, with the message of Go's decoder. */
export class MetadataTypeError extends TypeError {
  constructor(found: unknown, field: string, type: string) {
    const shown = type === 'int64' && typeof found === 'number' ? `number ${found}` : goName(found);
    super(
      `json: cannot unmarshal ${shown} into Go struct field ObjectMeta.metadata.${field} of type ${type}`,
    );
    this.name = 'MetadataTypeError';
  }
}

interface ReadMetadata {
  readonly metadata: Metadata;
  /** Paths of unknown fields, such as `metadata.foo`, which were omitted. */
  readonly unknown: readonly string[];
}

/**
 * Does not change `sent`; the result shares its maps and lists.
 *
 * @throws {MetadataTypeError}
 */
export function readMetadata(sent: unknown): ReadMetadata {
  const reader = new FieldReader();
  if (sent !== undefined && sent !== null) {
    if (!isObject(sent)) {
      throw new TypeError(
        `json: cannot unmarshal ${goName(sent)} into Go struct field .metadata of type v1.ObjectMeta`,
      );
    }
    for (const name of Object.keys(sent)) {
      const value = sent[name];
      if (value !== null) reader.read(name, value);
      else if (!fields.has(name)) reader.unknown.push(`metadata.${name}`);
    }
  }
  return { metadata: reader.finish(), unknown: reader.unknown };
}

/** The metadata of a stored object, whose fields are known to be valid. Shared with the object. */
export function storedMetadata(object: JsonObject): Metadata {
  const { metadata } = object;
  return isObject(metadata) ? metadata : {};
}

class FieldReader {
  readonly unknown: string[] = [];
  readonly #found: Metadata = {};

  read(name: string, value: unknown): void {
    switch (name) {
      case 'name':
      case 'generateName':
      case 'namespace':
      case 'resourceVersion':
      case 'uid': {
        if (typeof value !== 'string') {
          throw new MetadataTypeError(value, name, name === 'uid' ? 'types.UID' : 'string');
        }
        if (value !== '') this.#found[name] = value;
        return;
      }
      case 'generation':
      case 'deletionGracePeriodSeconds': {
        if (typeof value !== 'number' || !Number.isSafeInteger(value)) {
          throw new MetadataTypeError(value, name, 'int64');
        }
        this.#found[name] = value;
        return;
      }
      case 'creationTimestamp':
      case 'deletionTimestamp':
        if (typeof value !== 'string') throw new MetadataTypeError(value, name, 'v1.Time');
        this.#found[name] = wholeSeconds(value);
        return;
      case 'labels':
      case 'annotations': {
        const map = textMap(value, name);
        if (map !== undefined) this.#found[name] = map;
        return;
      }
      case 'ownerReferences':
        this.#owners(value);
        return;
      case 'finalizers': {
        if (!isListOf(value, (item): item is string => typeof item === 'string')) {
          throw new MetadataTypeError(value, name, '[]string');
        }
        if (value.length > 0) this.#found.finalizers = value;
        return;
      }
      case 'managedFields': {
        if (!isListOf(value, isObject)) throw new MetadataTypeError(value, name, '[]v1.ManagedFieldsEntry');
        this.#found.managedFields = value;
        return;
      }
      case 'selfLink':
        // Dropped: Kubernetes ignores `selfLink` since 1.20.
        return;
      default:
        this.unknown.push(`metadata.${name}`);
    }
  }

  #owners(value: unknown): void {
    if (!isListOf(value, isObject))
      throw new MetadataTypeError(value, 'ownerReferences', '[]v1.OwnerReference');
    const owners = value.map((owner, index) => this.#owner(owner, index));
    if (owners.length > 0) this.#found.ownerReferences = owners;
  }

  #owner(sent: JsonObject, index: number): OwnerReference {
    const owner: Record<string, unknown> = {};
    for (const name of Object.keys(sent)) {
      const type = ownerFields.get(name);
      const value = sent[name];
      if (type === undefined) this.unknown.push(`metadata.ownerReferences[${index}].${name}`);
      else if (value === null) continue;
      else if (typeof value === type) owner[name] = value;
      else throw new MetadataTypeError(value, `ownerReferences.${name}`, type === 'boolean' ? 'bool' : type);
    }
    return owner;
  }

  finish(): Metadata {
    return orderedMetadata(this.#found);
  }
}

const order = [
  'labels',
  'name',
  'generateName',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'annotations',
  'ownerReferences',
  'finalizers',
  'managedFields',
] as const;
const fields: ReadonlySet<string> = new Set([...order, 'selfLink']);

/** The metadata with its fields in the order in which they are stored. */
export function orderedMetadata(found: Metadata): Metadata {
  const ordered: Record<string, unknown> = {};
  for (const name of order) {
    const value = found[name];
    if (value !== undefined) ordered[name] = value;
  }
  return ordered;
}

const ownerFields: ReadonlyMap<string, 'string' | 'boolean'> = new Map([
  ['apiVersion', 'string'],
  ['kind', 'string'],
  ['name', 'string'],
  ['uid', 'string'],
  ['controller', 'boolean'],
  ['blockOwnerDeletion', 'boolean'],
]);

function textMap(value: unknown, field: string): Readonly<Record<string, string>> | undefined {
  if (!isObject(value)) throw new MetadataTypeError(value, field, 'map[string]string');
  const names = Object.keys(value);
  let hasNulls = false;
  for (const name of names) {
    const text = value[name];
    if (text === null) hasNulls = true;
    else if (typeof text !== 'string') throw new MetadataTypeError(text, field, 'string');
  }
  if (names.length === 0) return undefined;
  if (!hasNulls) return value as Record<string, string>;
  // Go reads a null as the empty text.
  const map: JsonObject = {};
  for (const name of names) setField(map, name, value[name] ?? '');
  return map as Record<string, string>;
}

function isListOf<T>(value: unknown, isItem: (item: unknown) => item is T): value is readonly T[] {
  return Array.isArray(value) && value.every(isItem);
}

const rfc3339 =
  /^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]+)?(?:Z|[-+][0-9]{2}:[0-9]{2})$/;

/** @throws {TypeError} with Go's words. */
function wholeSeconds(text: string): string {
  const milliseconds = rfc3339.test(text) ? Date.parse(text) : Number.NaN;
  if (Number.isNaN(milliseconds)) {
    const shown = JSON.stringify(text);
    throw new TypeError(
      `parsing time ${shown} as "2006-01-02T15:04:05Z07:00": cannot parse ${shown} as "2006"`,
    );
  }
  return apiTime(milliseconds);
}
