/** Objects without a schema are the same to expressions as literals of what is in them. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { Scope } from '../../../../lib/cel/environment.ts';
import { compile, compileExpression } from '../../../../lib/cel/program.ts';
import { measured } from '../../../../lib/cel/meter.ts';
import { patchTypes, toJson } from './patch-types.ts';

const key = fc.constantFrom('a', 'b', 'c', '__proto__', 'constructor', 'x-y');
const json = fc.letrec<Record<'value', unknown>>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom(null, true, false),
    fc.integer(),
    fc.constantFrom(2 ** 53 - 1, -(2 ** 53) + 1, 0.5, -1e-7, 1e300),
    fc.string({ maxLength: 5 }),
    fc.array(tie('value'), { maxLength: 40 }),
    fc
      .array(fc.tuple(key, tie('value')), { maxLength: 4 })
      .map((entries) => Object.fromEntries(entries) as unknown),
  ),
})).value;

/** As an expression; `dyn` makes lists and maps of several types possible. */
function literal(value: unknown): string {
  if (Array.isArray(value)) return `dyn([${value.map(literal).join(', ')}])`;
  if (typeof value === 'object' && value !== null) {
    const entries = Object.entries(value).map(([name, entry]) => `${quoted(name)}: ${literal(entry)}`);
    return `dyn({${entries.join(', ')}})`;
  }
  if (typeof value === 'string') return `dyn(${quoted(value)})`;
  if (typeof value === 'number' && !(Number.isInteger(value) && Math.abs(value) < 2 ** 63))
    return `dyn(double('${value}'))`;
  return `dyn(${typeof value === 'number' ? BigInt(value) : String(value)})`;
}

const quoted = (text: string): string =>
  `'${Array.from(text, (character) => `\\U${(character.codePointAt(0) ?? 0).toString(16).padStart(8, '0')}`).join('')}'`;

const scope = new Scope({ object: { type: { kind: 'dyn' } } });
scope.declareMessages(patchTypes);

test('an object equals its literal, is in a list of it, and prints the same', () => {
  fc.assert(
    fc.property(json, (value) => {
      const same = literal(value);
      const source = `object == ${same} && object in [dyn(1), ${same}] && ${same} == object &&
        '%s'.format([[object]]) == '%s'.format([[${same}]]) && type(object) == type(${same})`;
      const program = compile(source, 'bool', scope);
      assert.ok(typeof program !== 'string', String(program));
      // As a field, which is where conversions happen.
      const field = compile(source.replaceAll('object', 'object.f'), 'bool', scope);
      assert.ok(typeof field !== 'string', String(field));
      const { value: held, error } = field.run({ object: { f: value } }, Infinity);
      assert.deepEqual([held, error], [true, undefined]);
    }),
    { numRuns: 400 },
  );
});

test('a value that an expression passes on is the JSON that it was', () => {
  const expression = compileExpression('[JSONPatch{op: "add", path: "/a", value: object.f}][0]', scope);
  assert.ok(typeof expression !== 'string', String(expression));
  fc.assert(
    fc.property(json, (f) => {
      const { value, error } = measured(() => expression.run([{ f }]), Infinity);
      assert.equal(error, undefined);
      assert.deepEqual(
        JSON.parse(JSON.stringify(toJson(value))),
        JSON.parse(JSON.stringify({ op: 'add', path: '/a', value: f })),
      );
    }),
    { numRuns: 400 },
  );
});
