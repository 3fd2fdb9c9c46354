/** Random objects of the kind in field-manager.fixture.ts. */
import * as fc from '../../testing/fast-check.fixture.ts';
import type { JsonObject } from '../../json/json.ts';

export const letter = fc.constantFrom('a', 'b', 'c');
const optional = (fields: Readonly<Record<string, fc.Arbitrary<unknown>>>) =>
  fc.record(fields, { requiredKeys: [], noNullPrototype: true }) as fc.Arbitrary<JsonObject>;
const keyed = (
  key: string,
  of: fc.Arbitrary<unknown>,
  fields: Readonly<Record<string, fc.Arbitrary<unknown>>>,
) =>
  fc.uniqueArray(
    fc.record(
      { [key]: of, ...fields },
      { requiredKeys: [key], noNullPrototype: true },
    ) as fc.Arbitrary<JsonObject>,
    { selector: (item) => item[key], maxLength: 3 },
  );
const texts = fc.dictionary(letter, letter, { maxKeys: 3, noNullPrototype: true });
/** Things with any of their fields. */
export const things: fc.Arbitrary<JsonObject> = optional({
  data: texts,
  metadata: optional({ labels: texts, finalizers: fc.uniqueArray(letter) }),
  spec: optional({
    replicas: fc.constantFrom(1, 2),
    paused: fc.boolean(),
    quantity: fc.constantFrom(1, '1'),
    nodeSelector: texts,
    selector: optional({ matchLabels: texts }),
    args: fc.array(letter, { maxLength: 2 }),
    zones: fc.uniqueArray(letter),
    strategy: optional({ type: letter, rollingUpdate: optional({ maxSurge: fc.constantFrom(1, 2) }) }),
    free: fc.constantFrom({}, { a: { b: 1 } }, { a: { c: [1] } }, { a: 1 }),
    containers: keyed('name', letter, {
      image: letter,
      command: fc.array(letter, { maxLength: 2 }),
      env: keyed('name', letter, { value: letter }),
      ports: keyed('containerPort', fc.constantFrom(80, 81), {
        protocol: fc.constantFrom('TCP', 'UDP'),
        name: letter,
      }),
      resources: optional({ limits: texts }),
    }),
  }),
});
