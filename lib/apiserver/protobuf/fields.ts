/**
 * The fields of the messages of the built-in kinds, from `fields.json`, which `scripts/proto-fields.ts`
 * writes. There each field is a text: its number, and its type with marks around it.
 *
 * | text               | the field                                                                                  |
 * | ------------------ | ------------------------------------------------------------------------------------------ |
 * | `3 string`         | a value; Go always sends it in protobuf, but omits it in JSON if empty (`omitempty`)       |
 * | `3 string!`        | a value that is never omitted in JSON                                                      |
 * | `3 *string`        | a pointer: a sent value is set, even if it is zero                                         |
 * | `3 []string`       | a list                                                                                     |
 * | `3 {}string`       | a map from texts                                                                           |
 * | `3 core.PodSpec`   | a message, here not a pointer: it is never omitted in JSON                                 |
 * | `3 ...core.Handler`| a message whose fields are inlined in the JSON                                             |
 *
 * The file is read with the first protobuf body, and each message is parsed on first use.
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { errorCodes, messageOf, RampartError } from '../../errors/errors.ts';
import { type Form, forms } from './forms.ts';

export type Scalar = 'string' | 'bool' | 'int32' | 'int64' | 'double' | 'bytes';

export interface Field {
  /** The name in JSON. */
  readonly name: string;
  readonly number: number;
  /** Its index in {@link Message.fields}. */
  readonly index: number;
  readonly form: 'one' | 'list' | 'map';
  /** `undefined` for a message. */
  readonly scalar: Scalar | undefined;
  /** The message's name; '' for a scalar. */
  readonly messageName: string;
  readonly isInline: boolean;
  readonly isPointer: boolean;
  /** For a scalar: whether JSON includes it even if it is zero. */
  readonly isAlways: boolean;
}

export interface Message {
  /** `core.Pod`. */
  readonly name: string;
  /** In the order of the fields in JSON. */
  readonly fields: readonly Field[];
  readonly byNumber: readonly (Field | undefined)[];
  /** Makes the JSON, if that is not an object with the message's fields. */
  readonly toJson: Form | undefined;
}

interface Table {
  readonly kinds: Readonly<Record<string, string>>;
  readonly messages: Readonly<Record<string, Readonly<Record<string, string>>>>;
}

let read: Table | undefined;
const messages = new Map<string, Message>();

function table(): Table {
  read ??= readTable();
  return read;
}

function readTable(): Table {
  try {
    return JSON.parse(readFileSync(join(import.meta.dirname, 'fields.json'), 'utf8')) as Table;
  } catch (cause) {
    throw new RampartError(errorCodes.SYSTEM, {
      what: 'cannot read the fields of the built-in kinds in protobuf',
      why: messageOf(cause),
      cause,
    });
  }
}

/** `undefined` for a kind without a message. @throws {RampartError} `SYSTEM` if the table cannot be read. */
export function messageOfKind(apiVersion: string, kind: string): string | undefined {
  // Every group has this kind.
  if (kind === 'DeleteOptions') return 'meta.DeleteOptions';
  const { kinds } = table();
  const key = `${apiVersion} ${kind}`;
  return Object.hasOwn(kinds, key) ? kinds[key] : undefined;
}

/** The known kinds, as `apiVersion kind`. */
export function knownKinds(): readonly string[] {
  return Object.keys(table().kinds);
}

/** @param name of a message in the table: `core.Pod`. */
export function messageNamed(name: string): Message {
  let message = messages.get(name);
  if (message === undefined) {
    const texts = table().messages[name];
    if (texts === undefined) {
      throw new RampartError(errorCodes.SYSTEM, { what: `the fields contain no message ${name}` });
    }
    message = made(name, texts);
    messages.set(name, message);
  }
  return message;
}

function made(name: string, texts: Readonly<Record<string, string>>): Message {
  const fields = Object.entries(texts).map(([field, text], index) => fieldOf(field, text, index));
  const byNumber: (Field | undefined)[] = [];
  const highest = Math.max(0, ...fields.map(({ number }) => number));
  for (let number = 0; number <= highest; number++) byNumber.push(undefined);
  for (const field of fields) byNumber[field.number] = field;
  return { name, fields, byNumber, toJson: forms.get(name) };
}

const fieldText = /^(\d+) (\*|\[\]|\{\}|\.\.\.)?([\w./]+)(!?)$/;

function fieldOf(name: string, text: string, index: number): Field {
  const match = fieldText.exec(text);
  if (match === null) {
    throw new RampartError(errorCodes.SYSTEM, { what: `invalid field ${name}: ${text}` });
  }
  const [, number, sign, type = '', always] = match;
  const isMessage = type.includes('.');
  return {
    name,
    number: Number(number),
    index,
    form: sign === '[]' ? 'list' : sign === '{}' ? 'map' : 'one',
    scalar: isMessage ? undefined : (type as Scalar),
    messageName: isMessage ? type : '',
    isInline: sign === '...',
    isPointer: sign === '*',
    isAlways: always === '!',
  };
}
