/**
 * The OpenAPI 2.0 document in protocol buffers, which is the only form that kubectl asks for. Field numbers are those of
 * gnostic `openapiv2/OpenAPIv2.proto`.
 *
 * @module
 */
import { isObject, type JsonObject } from '../schema/json.ts';
import { Message } from './protobuf.ts';

/** What the functions of `v2.ts` give. */
export function gnosticDocument(document: JsonObject): Buffer {
  const info = objectOf(document['info']);
  return new Message()
    .text(1, textOf(document['swagger']))
    .message(2, new Message().text(1, textOf(info['title'])).text(2, textOf(info['version'])))
    .message(8, new Message().messages(2, named(document['paths'], pathItem)))
    .message(9, new Message().messages(1, named(document['definitions'], schemaMessage)))
    .bytes();
}

const methods: readonly (readonly [name: string, field: number])[] = [
  ['get', 2],
  ['put', 3],
  ['post', 4],
  ['delete', 5],
  ['patch', 8],
];

function pathItem(item: JsonObject): Message {
  const message = new Message();
  for (const [name, field] of methods) {
    const operation = item[name];
    if (isObject(operation)) message.message(field, operationMessage(operation));
  }
  return message.messages(9, arrayOf(item['parameters']).map(parameterItem));
}

function operationMessage(operation: JsonObject): Message {
  const responses = named(operation['responses'], (response) =>
    new Message().message(
      1,
      new Message()
        .text(1, textOf(response['description']))
        .message(2, new Message().message(1, schemaMessage(objectOf(response['schema'])))),
    ),
  );
  return new Message()
    .texts(1, textsOf(operation['tags']))
    .text(3, textOf(operation['description']))
    .text(5, textOf(operation['operationId']))
    .texts(6, textsOf(operation['produces']))
    .texts(7, textsOf(operation['consumes']))
    .messages(8, arrayOf(operation['parameters']).map(parameterItem))
    .message(9, new Message().messages(1, responses))
    .messages(13, extensions(operation));
}

/** A ParametersItem. */
function parameterItem(parameter: JsonObject): Message {
  const [name, place] = [textOf(parameter['name']), textOf(parameter['in'])];
  const required = parameter['required'] === true;
  if (place === 'body') {
    const body = new Message()
      .text(2, name)
      .text(3, place)
      .flag(4, required)
      .message(5, schemaMessage(objectOf(parameter['schema'])));
    return new Message().message(1, new Message().message(1, body));
  }
  const common = new Message()
    .flag(1, required)
    .text(2, place)
    .text(3, textOf(parameter['description']))
    .text(4, name);
  // Parameters of the query have one field more before these, and so other numbers.
  const isQuery = place === 'query';
  common.text(isQuery ? 6 : 5, textOf(parameter['type']));
  common.flag(isQuery ? 20 : 19, parameter['uniqueItems'] === true);
  const nonBody = new Message().message(isQuery ? 3 : 4, common);
  return new Message().message(1, new Message().message(2, nonBody));
}

function schemaMessage(schema: JsonObject): Message {
  const { additionalProperties, items, properties, type } = schema;
  return new Message()
    .text(1, textOf(schema['$ref']))
    .text(2, textOf(schema['format']))
    .text(3, textOf(schema['title']))
    .text(4, textOf(schema['description']))
    .double(7, numberOf(schema['maximum']))
    .double(9, numberOf(schema['minimum']))
    .whole(11, numberOf(schema['maxLength']))
    .whole(12, numberOf(schema['minLength']))
    .text(13, textOf(schema['pattern']))
    .whole(14, numberOf(schema['maxItems']))
    .whole(15, numberOf(schema['minItems']))
    .flag(16, schema['uniqueItems'] === true)
    .whole(17, numberOf(schema['maxProperties']))
    .whole(18, numberOf(schema['minProperties']))
    .texts(19, textsOf(schema['required']))
    .messages(20, Array.isArray(schema['enum']) ? schema['enum'].map(anyMessage) : [])
    .message(21, additionalMessage(additionalProperties))
    .message(22, typeof type === 'string' ? new Message().texts(1, [type]) : undefined)
    .message(23, isObject(items) ? new Message().message(1, schemaMessage(items)) : undefined)
    .message(
      25,
      isObject(properties) ? new Message().messages(1, named(properties, schemaMessage)) : undefined,
    )
    .messages(31, extensions(schema));
}

function additionalMessage(value: unknown): Message | undefined {
  if (value === true) return new Message().flag(2, true);
  return isObject(value) ? new Message().message(1, schemaMessage(value)) : undefined;
}

/** Messages of a name and a value, as protocol buffers of gnostic have for the fields of an object. */
function* named(value: unknown, make: (field: JsonObject) => Message): Generator<Message, void, undefined> {
  for (const [name, field] of Object.entries(objectOf(value))) {
    if (isObject(field)) yield new Message().text(1, name).message(2, make(field));
  }
}

function* extensions(value: JsonObject): Generator<Message, void, undefined> {
  for (const [name, field] of Object.entries(value)) {
    if (name.startsWith('x-')) yield new Message().text(1, name).message(2, anyMessage(field));
  }
}

/** JSON is YAML. */
function anyMessage(value: unknown): Message {
  return new Message().text(2, `${JSON.stringify(value)}\n`);
}

function objectOf(value: unknown): JsonObject {
  return isObject(value) ? value : {};
}

function arrayOf(value: unknown): readonly JsonObject[] {
  return Array.isArray(value) ? value.filter(isObject) : [];
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function textsOf(value: unknown): readonly string[] {
  return Array.isArray(value) ? value.filter((item) => typeof item === 'string') : [];
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
