/**
 * Bodies in protobuf, as Kubernetes wraps them (apimachinery `pkg/runtime/serializer/protobuf`): four bytes, then a
 * message runtime.Unknown with the kind of the object and its bytes.
 */
import { MessageReader, wireTypes } from '../../protobuf/reader.ts';
import { BodyMistake, bodyMistake } from '../body/body-mistake.ts';
import type { JsonObject } from '../../json/json.ts';
import { messageOfKind } from './fields.ts';
import { decodeMessage } from './message.ts';

const prefix = Buffer.from('k8s\0', 'latin1');

/**
 * The object as a client in Go would send it in JSON: `kind` and `apiVersion` first, then the fields that are not empty
 * or that its JSON always has. Integers that a `number` cannot hold are `bigint`.
 *
 * Unknown fields are skipped, as in Kubernetes.
 *
 * @throws {BodyMistake} for other bytes, and for a kind without a protobuf message, such as a custom resource.
 * @throws {RampartError} `SYSTEM` if the table of fields cannot be read.
 */
export function decodeProtobuf(bytes: Buffer): JsonObject {
  if (bytes.length === 0) throw new BodyMistake('empty data');
  if (!bytes.subarray(0, prefix.length).equals(prefix)) {
    throw new BodyMistake(
      `provided data does not appear to be a protobuf message, expected prefix [${[...prefix].join(' ')}]`,
    );
  }
  if (bytes.length === prefix.length) throw new BodyMistake('empty body');
  const { kind, apiVersion, raw, contentEncoding } = readEnvelope(bytes.subarray(prefix.length));
  if (kind === '') throw new BodyMistake("Object 'Kind' is missing in the protobuf message");
  if (apiVersion === '') throw new BodyMistake("Object 'apiVersion' is missing in the protobuf message");
  if (contentEncoding !== '') {
    throw new BodyMistake(`the protobuf message has an unknown encoding: ${JSON.stringify(contentEncoding)}`);
  }
  const name = messageOfKind(apiVersion, kind);
  if (name === undefined) {
    throw new BodyMistake(
      `no kind ${JSON.stringify(kind)} is registered for version ${JSON.stringify(apiVersion)} in protobuf`,
    );
  }
  return { kind, apiVersion, ...decodeMessage(raw, name) };
}

interface Envelope {
  apiVersion: string;
  kind: string;
  raw: Buffer;
  contentEncoding: string;
}

/** The numbers are those of apimachinery `pkg/runtime/generated.proto`; all fields are texts, messages or bytes. */
const unknownFields = { typeMeta: 1, raw: 2, contentEncoding: 3, contentType: 4 } as const;
const typeMetaFields = { apiVersion: 1, kind: 2 } as const;

function readEnvelope(bytes: Buffer): Envelope {
  const envelope: Envelope = { apiVersion: '', kind: '', raw: Buffer.alloc(0), contentEncoding: '' };
  const wire = new MessageReader(bytes, bodyMistake);
  while (wire.at < wire.end) {
    const number = nextField(wire, 'Unknown', Object.keys(unknownFields).length);
    if (number === unknownFields.typeMeta) wire.within(() => readTypeMeta(wire, envelope));
    else if (number === unknownFields.raw) envelope.raw = wire.bytes();
    else if (number === unknownFields.contentEncoding)
      envelope.contentEncoding = wire.text('contentEncoding');
    else wire.skip();
  }
  return envelope;
}

function readTypeMeta(wire: MessageReader, envelope: Envelope): void {
  while (wire.at < wire.end) {
    const number = nextField(wire, 'TypeMeta', Object.keys(typeMetaFields).length);
    if (number === typeMetaFields.apiVersion) envelope.apiVersion = wire.text('apiVersion');
    else if (number === typeMetaFields.kind) envelope.kind = wire.text('kind');
    else wire.skip();
  }
}

/** Reads the tag of the next field and returns its number; the value follows. */
function nextField(wire: MessageReader, message: string, known: number): number {
  wire.tag(message);
  if (wire.fieldNumber <= known && wire.wireType !== wireTypes.bytes) {
    throw new BodyMistake(
      `proto: ${message}: wrong wireType = ${wire.wireType} for field ${wire.fieldNumber}`,
    );
  }
  return wire.fieldNumber;
}
