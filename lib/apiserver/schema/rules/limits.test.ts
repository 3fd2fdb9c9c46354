/** Limits: apiserver `pkg/apis/cel/config.go`. */
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compileSchema } from '../compiled-schema.ts';
import { lines, resource } from '../schema.fixture.ts';

suite('the message of Kubernetes about it', () => {
  const names = { type: 'array', maxItems: 200, items: { type: 'string', maxLength: 9 } };
  const source = "self.all(x, self.all(y, self.all(z, x + y + z != '')))";
  const schema = compileSchema(
    resource({ ...names, 'x-kubernetes-validations': [{ rule: source }, { rule: 'false' }] }),
    {
      strict: false,
    },
  );
  const limit = `'operation cancelled: actual cost limit exceeded': no further validation rules will be run due to call cost exceeds limit for rule: ${source}`;

  test('a rule over its limit ends the validation', () => {
    const spec = Array.from({ length: 200 }, (_, index) => `${index}.`);
    assert.deepEqual(lines(schema.validate({ spec })), [`spec: Invalid value: "array": ${limit}`]);
  });

  test('all rules of an object have one budget', () => {
    const each = 'self.split("").all(x, self.split("").all(y, x + y != ""))';
    const many = compileSchema(
      resource({ type: 'array', items: { type: 'string', 'x-kubernetes-validations': [{ rule: each }] } }),
      { strict: false },
    );
    const spec = Array.from({ length: 100 }, () => 'x'.repeat(200));
    const problems = lines(many.validate({ spec }));
    assert.equal(problems.length, 1);
    assert.match(
      problems[0] ?? '',
      /^spec\[\d+\]: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run$/,
    );
  });
});
