/** A resource that uses all that a schema can say. */
import { conditionList } from './condition-list.ts';
import { ageColumn, defineResource } from './resource.ts';
import {
  anyObject,
  anyValue,
  boolean,
  integer,
  intOrString,
  list,
  mapOf,
  nullable,
  object,
  oneOf,
  optional,
  rule,
  string,
} from './schema.ts';

export const sinkSpec = object(
  {
    name: string({ minLength: 1, maxLength: 63, pattern: '^[a-z]+$', description: 'A name: "on".' }),
    mode: oneOf(['on', 'off'], { default: 'on' }),
    level: oneOf(['1', '2']),
    count: integer({ default: 3, minimum: 1, maximum: 10, format: 'int32' }),
    ratio: optional(integer({ minimum: 0, maximum: 1 })),
    enabled: boolean({ default: true }),
    port: optional(intOrString({ pattern: '^[0-9]+%$', maximum: 65_535, maxLength: 8 })),
    tags: optional(list(string({ maxLength: 20 }), { set: true, maxItems: 8 })),
    rules: list(object({ name: string({ maxLength: 9 }), weight: integer({ default: 1 }) }), {
      mapKeys: ['name'],
      minItems: 1,
      maxItems: 9,
      rules: [rule('self.all(one, one.weight > 0)', 'every weight is above 0')],
    }),
    labels: optional(mapOf(string(), { maxProperties: 4 })),
    selector: optional(object({ key: string() }, { atomic: true })),
    limits: object({ cpu: integer({ default: 1 }) }, { default: {} }),
    parameters: optional(anyObject({ description: 'Whatever the module takes.' })),
    value: optional(anyValue()),
    until: nullable(string({ format: 'date-time' })),
  },
  {
    rules: [
      rule('self.name == oldSelf.name', 'the name stays', { fieldPath: '.name' }),
      rule('!has(self.ratio) || self.enabled', 'a ratio is for what is enabled', {
        reason: 'FieldValueForbidden',
      }),
    ],
  },
);

export const kitchenSinks = defineResource({
  group: 'test.rampart.dev',
  kind: 'KitchenSink',
  plural: 'kitchensinks',
  scope: 'Cluster',
  shortNames: ['ks'],
  versions: {
    v1alpha1: {
      storage: false,
      fields: { spec: optional(object({ title: string() })) },
    },
    v1: {
      storage: true,
      description: 'A kitchen sink.',
      fields: {
        spec: sinkSpec,
        status: optional(object({ replicas: optional(integer()), conditions: optional(conditionList()) })),
      },
      columns: [{ name: 'Mode', type: 'string', jsonPath: '.spec.mode', priority: 1 }, ageColumn],
    },
  },
});
