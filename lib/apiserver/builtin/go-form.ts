/**
 * Built-in objects as the Go types of Kubernetes read and write them: a value of another type is refused, in
 * the words of Go's decoder (sigs.k8s.io/json), and values that Go cannot distinguish from absent ones are
 * omitted: nulls, and empty values of fields with `omitempty`. So an object sent as JSON is stored as if it
 * had come as protobuf.
 */
import { type Field, type Message, messageNamed, messageOfKind, type Scalar } from '../protobuf/fields.ts';
import { GoTypeError, goName } from '../resources/go-decoding.ts';
import { isObject, type JsonObject, setField } from '../../json/json.ts';
import { canonicalAmount, parseQuantity, quantityProblem } from './quantities.ts';
import { canonicalTime } from './times.ts';

/** A place in an object, as Go names it in error messages. */
interface Place {
  /** `PodSpec` */
  readonly struct: string;
  /** The path before a field's name, without indices and map keys: `spec.containers.` */
  readonly path: string;
}

/**
 * Brings an object into that form, in place. Unknown fields stay, so that the caller can report them.
 *
 * @throws {GoTypeError} for a value of the wrong type.
 */
export function takeGoForm(object: JsonObject, apiVersion: string, kind: string): void {
  const name = messageOfKind(apiVersion, kind);
  if (name === undefined) return;
  // Metadata has the same rules for all kinds, and is read by `readMetadata`.
  takeStruct(object, messageNamed(name), '', new Set(['metadata']));
}

function takeStruct(object: JsonObject, message: Message, path: string, except?: ReadonlySet<string>): void {
  const struct = message.name.slice(message.name.indexOf('.') + 1);
  const fields = fieldsOf(message);
  const place = { struct, path };
  for (const name of Object.keys(object)) {
    const field = fields.get(name);
    if (field === undefined || except?.has(name) === true) continue;
    const value = taken(object[name], field, place);
    if (value === undefined) delete object[name];
    else object[name] = value;
  }
}

const knownFields = new Map<Message, ReadonlyMap<string, Field>>();

/** Fields keyed by their JSON names, including those of inlined structs. */
function fieldsOf(message: Message): ReadonlyMap<string, Field> {
  let fields = knownFields.get(message);
  if (fields === undefined) {
    const entries = message.fields.flatMap((field): (readonly [string, Field])[] =>
      field.isInline ? [...fieldsOf(messageNamed(field.messageName))] : [[field.name, field]],
    );
    knownFields.set(message, (fields = new Map(entries)));
  }
  return fields;
}

/** The value to store; `undefined` if the field has to be omitted. */
function taken(value: unknown, field: Field, place: Place): unknown {
  if (value === null) return undefined;
  if (field.form === 'list') {
    if (!Array.isArray(value)) throw mismatch(value, `[]${typeName(field)}`, field, place);
    value.forEach((item, index) => (value[index] = single(item, field, place)));
    return value.length === 0 ? undefined : value;
  }
  if (field.form === 'map') {
    if (!isObject(value)) throw mismatch(value, `map[string]${typeName(field)}`, field, place);
    const names = Object.keys(value);
    for (const name of names) setField(value, name, single(value[name], field, place));
    return names.length === 0 ? undefined : value;
  }
  const one = single(value, field, place);
  const isZero = field.scalar !== undefined && one === zeroes[field.scalar];
  return isZero && !field.isPointer && !field.isAlways ? undefined : one;
}

/** Reads a single value, or an item of a list or map. A null item is the zero value of its type. */
function single(value: unknown, field: Field, place: Place): unknown {
  const { scalar, messageName } = field;
  if (scalar !== undefined) return value === null ? zeroes[scalar] : scalarOf(value, scalar, field, place);
  const take = forms[messageName];
  if (take !== undefined) return take(value, field, place);
  const message = messageNamed(messageName);
  // The other messages with a JSON form of their own hold any JSON, or do not occur in served kinds.
  if (message.toJson !== undefined) return value;
  const struct = value ?? {};
  if (!isObject(struct)) throw mismatch(struct, typeName(field), field, place);
  takeStruct(struct, message, `${place.path}${field.name}.`);
  return struct;
}

const zeroes: Readonly<Record<Scalar, unknown>> = {
  string: '',
  bytes: '',
  bool: false,
  int32: 0,
  int64: 0,
  double: 0,
};

function scalarOf(value: unknown, scalar: Scalar, field: Field, place: Place): unknown {
  const fits =
    scalar === 'bool'
      ? typeof value === 'boolean'
      : scalar === 'string' || scalar === 'bytes'
        ? typeof value === 'string'
        : scalar === 'double'
          ? typeof value === 'number' || typeof value === 'bigint'
          : isInteger(value, scalar === 'int32' ? 2 ** 31 : 2 ** 63);
  if (fits) return value;
  throw mismatch(value, goScalars[scalar], field, place, scalar === 'int32' || scalar === 'int64');
}

function isInteger(value: unknown, limit: number): boolean {
  if (typeof value === 'bigint') return limit > Number.MAX_SAFE_INTEGER;
  return typeof value === 'number' && Number.isInteger(value) && value >= -limit && value < limit;
}

const goScalars: Readonly<Record<Scalar, string>> = {
  string: 'string',
  bytes: '[]uint8',
  bool: 'bool',
  int32: 'int32',
  int64: 'int64',
  double: 'float64',
};

/** The Go type that messages name: `v1.Container`. The packages of the served kinds are called v1, like their versions. */
function typeName({ scalar, messageName }: Field): string {
  if (scalar !== undefined) return goScalars[scalar];
  const [group, name] = messageName.split('.');
  return `${group === 'resource' || group === 'intstr' || group === 'runtime' ? group : 'v1'}.${name}`;
}

/** Types whose Go code decodes JSON itself (`UnmarshalJSON`). */
const forms: Readonly<Record<string, (value: unknown, field: Field, place: Place) => unknown>> = {
  'resource.Quantity': (value, { form }) => {
    if (value === null) return '0';
    if (parseQuantity(value) === undefined) throw new GoTypeError(quantityProblem);
    // Every map of quantities is a ResourceList.
    return form === 'map' ? canonicalAmount(value) : String(value);
  },
  'intstr.IntOrString': (value) => {
    if (value === null) return 0;
    if (typeof value === 'string' || isInteger(value, 2 ** 31)) return value;
    const shown = typeof value === 'number' ? `number ${value}` : goName(value);
    throw new GoTypeError(`json: cannot unmarshal ${shown} into Go value of type int32`);
  },
  'meta.Time': (value) => timeOf(value, false),
  'meta.MicroTime': (value) => timeOf(value, true),
  'apiextensions.JSONSchemaPropsOrArray': schemas,
  'apiextensions.JSONSchemaPropsOrBool': schemas,
  'apiextensions.JSONSchemaPropsOrStringArray': schemas,
};

function schemas(value: unknown, { name }: Field, { path }: Place): unknown {
  for (const one of Array.isArray(value) ? value : [value]) {
    if (isObject(one)) takeStruct(one, messageNamed('apiextensions.JSONSchemaProps'), `${path}${name}.`);
  }
  return value;
}

function timeOf(value: unknown, isMicro: boolean): unknown {
  if (value === null) return null;
  if (typeof value !== 'string') {
    throw new GoTypeError(`json: cannot unmarshal ${goName(value)} into Go value of type string`);
  }
  const time = canonicalTime(value, isMicro);
  if (time !== undefined) return time;
  const [shown, layout] = [JSON.stringify(value), `2006-01-02T15:04:05${isMicro ? '.000000' : ''}Z07:00`];
  throw new GoTypeError(`parsing time ${shown} as "${layout}": cannot parse ${shown} as "2006"`);
}

function mismatch(
  value: unknown,
  type: string,
  { name }: Field,
  { struct, path }: Place,
  isNumbers = false,
): GoTypeError {
  const isNumber = typeof value === 'number' || typeof value === 'bigint';
  const shown = isNumber && isNumbers ? `number ${value}` : goName(value);
  return new GoTypeError(
    `json: cannot unmarshal ${shown} into Go struct field ${struct}.${path}${name} of type ${type}`,
  );
}
