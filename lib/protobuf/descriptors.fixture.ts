/**
 * A table of messages and methods as @bufbuild/protobuf and Connect take it: an implementation that is not ours, which tests run against ours.
 */
import {
  create,
  createFileRegistry,
  type DescMessage,
  type DescMethod,
  type MessageInitShape,
} from '@bufbuild/protobuf';
import {
  type DescriptorProtoSchema,
  FieldDescriptorProto_Label as Label,
  FieldDescriptorProto_Type as Type,
  FileDescriptorSetSchema,
} from '@bufbuild/protobuf/wkt';

import type { Field, MessageTable } from './message-codec.ts';

type DescriptorInit = MessageInitShape<typeof DescriptorProtoSchema>;

/** Messages have no package of their own on the wire; only the services' names are sent. */
const PACKAGE = 'rampart.messages';
const FILE = 'messages.proto';

const scalars: Readonly<Record<string, Type>> = {
  string: Type.STRING,
  bool: Type.BOOL,
  int32: Type.INT32,
  uint32: Type.UINT32,
  int64: Type.INT64,
  bytes: Type.BYTES,
};

function describeMessage(name: string, fields: Readonly<Record<string, Field>>): DescriptorInit {
  const nestedType: DescriptorInit[] = [];
  const field = Object.entries(fields).map(([fieldName, [number, type, list]]) => {
    if (type === 'map') {
      // A map is a list of entries: https://protobuf.dev/programming-guides/proto3/#backwards
      const entry = `${fieldName.charAt(0).toUpperCase()}${fieldName.slice(1)}Entry`;
      nestedType.push({
        name: entry,
        options: { mapEntry: true },
        field: [
          { name: 'key', number: 1, type: Type.STRING, label: Label.OPTIONAL },
          { name: 'value', number: 2, type: Type.STRING, label: Label.OPTIONAL },
        ],
      });
      const typeName = `.${PACKAGE}.${name}.${entry}`;
      return { name: fieldName, number, type: Type.MESSAGE, typeName, label: Label.REPEATED };
    }
    const label = list === undefined ? Label.OPTIONAL : Label.REPEATED;
    const scalar = scalars[type];
    return scalar === undefined
      ? { name: fieldName, number, type: Type.MESSAGE, typeName: `.${PACKAGE}.${type}`, label }
      : { name: fieldName, number, type: scalar, label };
  });
  return { name, field, nestedType };
}

/** A method: its service, what it takes and what it answers, and whether that is a stream. */
interface Method {
  readonly service: string;
  readonly input: string;
  readonly output: string;
  readonly stream?: true;
}

type MethodTable = Readonly<Record<string, Method>>;

function serviceFiles(methods: MethodTable) {
  const services = Map.groupBy(Object.entries(methods), ([, { service }]) => service);
  return [...services].map(([service, members]) => ({
    name: `${service}.proto`,
    package: service.slice(0, service.lastIndexOf('.')),
    syntax: 'proto3',
    dependency: [FILE],
    service: [
      {
        name: service.slice(service.lastIndexOf('.') + 1),
        method: members.map(([name, { input, output, stream }]) => ({
          name,
          inputType: `.${PACKAGE}.${input}`,
          outputType: `.${PACKAGE}.${output}`,
          serverStreaming: stream === true,
        })),
      },
    ],
  }));
}

export interface Descriptors {
  /** How a method is called. */
  readonly method: (name: string) => DescMethod;
  /** The library's view of a message. */
  readonly message: (name: string) => DescMessage;
}

export function descriptorsOf(messages: MessageTable, methods: MethodTable): Descriptors {
  const registry = createFileRegistry(
    create(FileDescriptorSetSchema, {
      file: [
        {
          name: FILE,
          package: PACKAGE,
          syntax: 'proto3',
          messageType: Object.entries(messages).map(([name, fields]) => describeMessage(name, fields)),
        },
        ...serviceFiles(methods),
      ],
    }),
  );
  return {
    method(name) {
      const service = registry.getService(methods[name]?.service ?? '');
      const found = service?.methods.find((method) => method.name === name);
      if (found === undefined) throw new Error(`no method ${name}`);
      return found;
    },
    message(name) {
      const found = registry.getMessage(`${PACKAGE}.${name}`);
      if (found === undefined) throw new Error(`no message ${name}`);
      return found;
    },
  };
}
