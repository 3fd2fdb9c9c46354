/**
 * A small kind with every relation of lists and maps, and a store of one object of it, for tests of apply.
 */
import { isObject, type JsonObject } from '../../json/json.ts';
import { serverSideApply, trackUpdate, type ApplyContext } from './field-manager.ts';
import { applyTypeOf, type ApplyType } from './type.ts';

const text: JsonObject = { type: 'string' };
const number: JsonObject = { type: 'integer' };
const objectOf = (properties: JsonObject, more: JsonObject = {}): JsonObject => ({
  type: 'object',
  properties,
  ...more,
});
const listMap = (items: JsonObject, ...keys: readonly string[]): JsonObject => ({
  type: 'array',
  items,
  'x-kubernetes-list-type': 'map',
  'x-kubernetes-list-map-keys': keys,
});

export const schema: JsonObject = objectOf({
  apiVersion: text,
  kind: text,
  metadata: { type: 'object' },
  data: { type: 'object', additionalProperties: text },
  spec: objectOf({
    replicas: number,
    paused: { type: 'boolean' },
    image: text,
    quantity: { 'x-kubernetes-int-or-string': true },
    nodeSelector: { type: 'object', additionalProperties: text },
    selector: objectOf(
      { matchLabels: { type: 'object', additionalProperties: text } },
      { 'x-kubernetes-map-type': 'atomic' },
    ),
    args: { type: 'array', items: text },
    zones: { type: 'array', items: text, 'x-kubernetes-list-type': 'set' },
    containers: listMap(
      objectOf({
        name: text,
        image: text,
        command: { type: 'array', items: text },
        env: listMap(objectOf({ name: text, value: text }), 'name'),
        ports: listMap(
          objectOf({ containerPort: number, protocol: { type: 'string', default: 'TCP' }, name: text }),
          'containerPort',
          'protocol',
        ),
        resources: objectOf({ limits: { type: 'object', additionalProperties: text } }),
      }),
      'name',
    ),
    strategy: objectOf({ type: text, rollingUpdate: objectOf({ maxSurge: number }) }),
    free: { type: 'object', 'x-kubernetes-preserve-unknown-fields': true },
  }),
  status: objectOf({
    phase: text,
    conditions: listMap(objectOf({ type: text, status: text }), 'type'),
  }),
});

export const thing: ApplyType = applyTypeOf(schema);

/** The text of a configuration's rest, made whole. */
export function configuration(rest: JsonObject): JsonObject {
  const metadata = isObject(rest['metadata']) ? rest['metadata'] : {};
  return { apiVersion: 'example.com/v1', kind: 'Thing', ...rest, metadata: { name: 'x', ...metadata } };
}

export const spec = (fields: JsonObject): JsonObject => ({ spec: fields });

/** A change that sets these fields of the spec. */
export const withSpec = (fields: JsonObject) => (object: JsonObject) => ({
  ...object,
  spec: { ...(object['spec'] as JsonObject), ...fields },
});

/** One object and its writers; the clock goes on by a second with each write. */
export class Store {
  object: JsonObject | undefined;
  readonly #type: ApplyType;
  #seconds = 0;

  constructor(type: ApplyType = thing) {
    this.#type = type;
  }

  #context(manager: string): ApplyContext {
    this.#seconds++;
    return {
      type: this.#type,
      manager,
      apiVersion: 'example.com/v1',
      now: new Date(Date.UTC(2024, 0, 1, 0, 0, this.#seconds)),
    };
  }

  /** @returns whether anything changed. */
  apply(manager: string, rest: JsonObject, more: Partial<ApplyContext> = {}): boolean {
    const result = serverSideApply(this.object, configuration(rest), { ...this.#context(manager), ...more });
    this.object = result.object;
    return result.isChanged;
  }

  /** Writes the object as a change makes it. */
  update(
    manager: string,
    change: (object: JsonObject) => JsonObject,
    more: Partial<ApplyContext> = {},
  ): void {
    const updated = change(this.object ?? configuration({}));
    this.object = trackUpdate(this.object, updated, { ...this.#context(manager), ...more });
  }

  /** A part of the object. */
  get(...names: readonly string[]): unknown {
    return names.reduce<unknown>((value, name) => (isObject(value) ? value[name] : undefined), this.object);
  }

  /** The fields that a manager owns: the fieldsV1 of its entry. */
  owned(manager: string, operation = 'Apply', subresource?: string): unknown {
    return this.entries.find(
      (entry) =>
        entry['manager'] === manager &&
        entry['operation'] === operation &&
        entry['subresource'] === subresource,
    )?.['fieldsV1'];
  }

  get entries(): readonly JsonObject[] {
    return (this.get('metadata', 'managedFields') ?? []) as readonly JsonObject[];
  }
}
