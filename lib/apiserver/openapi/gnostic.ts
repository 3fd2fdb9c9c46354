/**
 * The OpenAPI 2.0 document in protocol buffers, the only form that kubectl requests. Field numbers are those of
 * gnostic `openapiv2/OpenAPIv2.proto`.
 */
import { objectAt, objectsAt, textsAt } from '../../json/fields.ts';
import { isObject, type JsonObject } from '../../json/json.ts';
import { MessageWriter } from '../../protobuf/writer.ts';

/** @param document as `openApiV2` makes it. */
export function gnosticDocument(document: JsonObject): Buffer {
  const writer = new MessageWriter();
  const gnostic = new Gnostic(writer);
  const info = objectAt(document['info']);
  writer.text(1, textOf(document['swagger']));
  writer.message(2, () => {
    writer.text(1, textOf(info['title']));
    writer.text(2, textOf(info['version']));
  });
  writer.message(8, () => gnostic.named(2, document['paths'], (item) => gnostic.pathItem(item)));
  writer.message(9, () => gnostic.named(1, document['definitions'], (schema) => gnostic.schema(schema)));
  return writer.bytes();
}

const methods: readonly (readonly [name: string, field: number])[] = [
  ['get', 2],
  ['put', 3],
  ['post', 4],
  ['delete', 5],
  ['patch', 8],
];

class Gnostic {
  readonly #writer: MessageWriter;

  constructor(writer: MessageWriter) {
    this.#writer = writer;
  }

  pathItem(item: JsonObject): void {
    const writer = this.#writer;
    for (const [name, field] of methods) {
      const operation = item[name];
      if (isObject(operation)) writer.message(field, () => this.#operation(operation));
    }
    writer.messages(9, objectsAt(item['parameters']), (parameter) => this.#parameterItem(parameter));
  }

  #operation(operation: JsonObject): void {
    const writer = this.#writer;
    writer.texts(1, textsAt(operation['tags']));
    writer.text(3, textOf(operation['description']));
    writer.text(5, textOf(operation['operationId']));
    writer.texts(6, textsAt(operation['produces']));
    writer.texts(7, textsAt(operation['consumes']));
    writer.messages(8, objectsAt(operation['parameters']), (parameter) => this.#parameterItem(parameter));
    writer.message(9, () =>
      this.named(1, operation['responses'], (response) => writer.message(1, () => this.#response(response))),
    );
    this.#extensions(13, operation);
  }

  #response(response: JsonObject): void {
    const writer = this.#writer;
    writer.text(1, textOf(response['description']));
    writer.message(2, () => writer.message(1, () => this.schema(objectAt(response['schema']))));
  }

  /** A ParametersItem: it contains a Parameter, which contains a BodyParameter or a NonBodyParameter. */
  #parameterItem(parameter: JsonObject): void {
    const writer = this.#writer;
    const isBody = parameter['in'] === 'body';
    writer.message(1, () => {
      if (isBody) writer.message(1, () => this.#bodyParameter(parameter));
      else writer.message(2, () => this.#nonBodyParameter(parameter));
    });
  }

  #bodyParameter(parameter: JsonObject): void {
    const writer = this.#writer;
    writer.text(2, textOf(parameter['name']));
    writer.text(3, textOf(parameter['in']));
    writer.flag(4, parameter['required'] === true);
    writer.message(5, () => this.schema(objectAt(parameter['schema'])));
  }

  #nonBodyParameter(parameter: JsonObject): void {
    const writer = this.#writer;
    // QueryParameterSubSchema has one more field before these than PathParameterSubSchema, so the numbers are shifted by one.
    const shift = parameter['in'] === 'query' ? 1 : 0;
    writer.message(4 - shift, () => {
      writer.flag(1, parameter['required'] === true);
      writer.text(2, textOf(parameter['in']));
      writer.text(3, textOf(parameter['description']));
      writer.text(4, textOf(parameter['name']));
      writer.text(5 + shift, textOf(parameter['type']));
      writer.flag(19 + shift, parameter['uniqueItems'] === true);
    });
  }

  schema(schema: JsonObject): void {
    const writer = this.#writer;
    const { additionalProperties, enum: values, items, properties, type } = schema;
    writer.text(1, textOf(schema['$ref']));
    writer.text(2, textOf(schema['format']));
    writer.text(3, textOf(schema['title']));
    writer.text(4, textOf(schema['description']));
    writer.double(7, numberOf(schema['maximum']));
    writer.double(9, numberOf(schema['minimum']));
    writer.whole(11, numberOf(schema['maxLength']));
    writer.whole(12, numberOf(schema['minLength']));
    writer.text(13, textOf(schema['pattern']));
    writer.whole(14, numberOf(schema['maxItems']));
    writer.whole(15, numberOf(schema['minItems']));
    writer.flag(16, schema['uniqueItems'] === true);
    writer.whole(17, numberOf(schema['maxProperties']));
    writer.whole(18, numberOf(schema['minProperties']));
    writer.texts(19, textsAt(schema['required']));
    if (Array.isArray(values)) writer.messages(20, values as readonly unknown[], (value) => this.#any(value));
    if (additionalProperties === true) writer.message(21, () => writer.flag(2, true));
    else if (isObject(additionalProperties)) {
      writer.message(21, () => writer.message(1, () => this.schema(additionalProperties)));
    }
    if (typeof type === 'string') writer.message(22, () => writer.texts(1, [type]));
    if (isObject(items)) writer.message(23, () => writer.message(1, () => this.schema(items)));
    if (isObject(properties)) {
      writer.message(25, () => this.named(1, properties, (property) => this.schema(property)));
    }
    this.#extensions(31, schema);
  }

  /** Writes each field of an object as a message with a name and a value. */
  named(field: number, value: unknown, write: (value: JsonObject) => void): void {
    const writer = this.#writer;
    writer.messages(field, Object.entries(objectAt(value)), ([name, inner]) => {
      writer.text(1, name);
      if (isObject(inner)) writer.message(2, () => write(inner));
    });
  }

  #extensions(field: number, value: JsonObject): void {
    const writer = this.#writer;
    for (const [name, inner] of Object.entries(value)) {
      if (!name.startsWith('x-')) continue;
      writer.message(field, () => {
        writer.text(1, name);
        writer.message(2, () => this.#any(inner));
      });
    }
  }

  /** Writes an Any, which contains YAML: JSON is valid YAML. */
  #any(value: unknown): void {
    this.#writer.text(2, `${JSON.stringify(value)}\n`);
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function numberOf(value: unknown): number | undefined {
  return typeof value === 'number' ? value : undefined;
}
