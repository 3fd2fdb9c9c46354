import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { errorCodes, RampartError } from '../../errors/errors.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import { labelKeyProblems, labelValueProblems } from './label-names.ts';
import {
  labelSelectorOf,
  labelSelectorText,
  labelsMatch,
  parseLabelSelector,
  SelectorError,
  type LabelSelectorObject,
} from './selectors.ts';

function messageOf(attempt: () => unknown): string {
  try {
    attempt();
  } catch (error) {
    assert.ok(error instanceof SelectorError, String(error));
    assert.equal(error.code, errorCodes.INPUT);
    return error.message;
  }
  assert.fail('nothing was thrown');
}

describe('label selectors as text', () => {
  const table: readonly (readonly [string, string])[] = [
    ['', ''],
    ['   ', ''],
    ['app', 'app'],
    ['!app', '!app'],
    ['! app', '!app'],
    ['app=web', 'app=web'],
    ['app = web', 'app=web'],
    ['app==web', 'app==web'],
    ['app!=web', 'app!=web'],
    ['app=', 'app='],
    ['app=,tier', 'app=,tier'],
    ['b=1,a=2', 'a=2,b=1'],
    ['a=2,a=1', 'a=2,a=1'],
    ['app in (b, a,b)', 'app in (a,b)'],
    ['app\tnotin\n( a )', 'app notin (a)'],
    ['app in ()', 'app in ()'],
    ['app in (,a)', 'app in (,a)'],
    ['app in (a,)', 'app in (,a)'],
    ['app in (a,,b)', 'app in (,a,b)'],
    ['app in(a)', 'app in (a)'],
    ['in in (in,notin)', 'in in (in,notin)'],
    ['notin', 'notin'],
    ['x=in', 'x=in'],
    ['n>5,n<7', 'n>5,n<7'],
    ['example.com/role=a_b.C-1', 'example.com/role=a_b.C-1'],
  ];
  for (const [text, canonical] of table) {
    it(`${JSON.stringify(text)} is ${JSON.stringify(canonical)}`, () => {
      assert.equal(labelSelectorText(parseLabelSelector(text)), canonical);
      assert.deepEqual(parseLabelSelector(canonical), parseLabelSelector(text));
    });
  }

  const nameRule =
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')";
  const valueRule =
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')";
  const refusals: readonly (readonly [string, string])[] = [
    ['-app', `unable to parse requirement: <nil>: Invalid value: "-app": ${nameRule}`],
    ['app=-', `unable to parse requirement: values[0][app]: Invalid value: "-": ${valueRule}`],
    ['a=b=c', "found '=', expected: ',' or 'end of string'"],
    ['a==b==c', "found '==', expected: ',' or 'end of string'"],
    ['!a=b', "found '=', expected: ',' or 'end of string'"],
    ['a,', "found '', expected: identifier after ','"],
    ['a,,b', "found ',', expected: identifier after ','"],
    [',a', "found ',', expected: !, identifier, or 'end of string'"],
    ['(a)', "found '(', expected: !, identifier, or 'end of string'"],
    ['!', "unable to parse requirement: found '', expected: identifier"],
    ['!!a', "unable to parse requirement: found '!', expected: identifier"],
    ['a b', "unable to parse requirement: found 'b', expected: in, notin, =, ==, !=, gt, lt"],
    ['a in b', "unable to parse requirement: found 'b' expected: '('"],
    ['a in (', "unable to parse requirement: found '', expected: ',', ')' or identifier"],
    ['a in (b', "unable to parse requirement: found '', expected: ',' or ')'"],
    ['a in (b c)', "unable to parse requirement: found 'c', expected: ',' or ')'"],
    ['a=(b)', "unable to parse requirement: found '(', expected: identifier"],
    [
      'a>x',
      "unable to parse requirement: values[0]: Invalid value: \"x\": for 'Gt', 'Lt' operators, the value must be an integer",
    ],
  ];
  for (const [text, message] of refusals) {
    it(`refuses ${JSON.stringify(text)}`, () =>
      assert.equal(
        messageOf(() => parseLabelSelector(text)),
        message,
      ));
  }

  const labels = { app: 'web', tier: '', n: '7', big: '9223372036854775807' };
  const matches: readonly (readonly [string, boolean])[] = [
    ['', true],
    ['app', true],
    ['!app', false],
    ['!other', true],
    ['app=web', true],
    ['app==web', true],
    ['app=Web', false],
    ['other=', false],
    ['tier=', true],
    ['app!=web', false],
    ['other!=web', true],
    ['app in (db,web)', true],
    ['other in ()', false],
    ['tier in ()', true],
    ['app notin (db)', true],
    ['other notin (db)', true],
    ['app notin (web)', false],
    ['n>6,n<8', true],
    ['n>7', false],
    ['app>1', false],
    ['other>1', false],
    ['big>9223372036854775806', true],
    ['app=web,tier=x', false],
    ['constructor', false],
    ['toString', false],
    ['!hasOwnProperty', true],
  ];
  for (const [text, expected] of matches) {
    it(`${JSON.stringify(text)} ${expected ? 'selects' : 'does not select'}`, () =>
      assert.equal(labelsMatch(parseLabelSelector(text), labels), expected));
  }

  it('an object without labels is selected by what asks for absence only', () => {
    assert.equal(labelsMatch(parseLabelSelector('!a,b!=1'), undefined), true);
    assert.equal(labelsMatch(parseLabelSelector('a'), null), false);
  });
});

describe('label selectors as objects', () => {
  const text = (object: LabelSelectorObject) => labelSelectorText(labelSelectorOf(object));

  it('both forms are joined, sorted by key', () => {
    assert.equal(
      text({
        matchLabels: { z: '1', app: 'web' },
        matchExpressions: [
          { key: 'tier', operator: 'In', values: ['b', 'a'] },
          { key: 'env', operator: 'NotIn', values: ['dev'] },
          { key: 'x', operator: 'Exists' },
          { key: 'y', operator: 'DoesNotExist', values: [] },
        ],
      }),
      'app=web,env notin (dev),tier in (a,b),x,!y,z=1',
    );
  });

  it('none selects nothing, an empty one everything', () => {
    assert.equal(labelsMatch(labelSelectorOf(undefined), {}), false);
    assert.equal(labelsMatch(labelSelectorOf(null), { a: 'b' }), false);
    assert.equal(labelsMatch(labelSelectorOf({}), { a: 'b' }), true);
    assert.equal(labelsMatch(labelSelectorOf({ matchLabels: null, matchExpressions: null }), {}), true);
  });

  const refusals: readonly (readonly [unknown, RegExp])[] = [
    [{ matchExpressions: [{ key: 'a', operator: 'Foo' }] }, /^"Foo" is not a valid label selector operator$/],
    [{ matchExpressions: [{ key: 'a', operator: 'in' }] }, /^"in" is not a valid label selector operator$/],
    [
      { matchExpressions: [{ key: 'a', operator: 'In' }] },
      /^values: Invalid value: \[\]: for 'in', 'notin' operators, values set can't be empty$/,
    ],
    [
      { matchExpressions: [{ key: 'a', operator: 'Exists', values: ['x'] }] },
      /^values: Invalid value: \["x"\]: values set must be empty for exists and does not exist$/,
    ],
    [
      { matchLabels: { 'a b': '!' } },
      /^\[key: Invalid value: "a b": .*, values\[0\]\[a b\]: Invalid value: "!": /,
    ],
    [{ matchLabels: { a: 1 } }, /must be a string/],
    [{ matchLabels: [] }, /must be an object/],
    [{ matchExpressions: {} }, /must be a list/],
    [{ matchExpressions: [null] }, /must be an object/],
    [{ matchExpressions: [{ key: 'a', operator: 'In', values: 'x' }] }, /must be a list/],
    ['app=web', /must be an object/],
  ];
  for (const [object, message] of refusals) {
    it(`refuses ${JSON.stringify(object)}`, () =>
      assert.match(
        messageOf(() => labelSelectorOf(object as LabelSelectorObject)),
        message,
      ));
  }
});

describe('keys and values of labels', () => {
  const long = (length: number) => 'a'.repeat(length);
  const keys: readonly (readonly [string, readonly (string | RegExp)[]])[] = [
    ['a', []],
    [long(63), []],
    [long(64), ['name part must be no more than 63 bytes']],
    [`${long(253)}/a`, []],
    [`${long(254)}/a`, ['prefix part must be no more than 253 bytes']],
    ['', ['name part must be non-empty', /^name part must consist/]],
    ['/a', ['prefix part must be non-empty']],
    ['example.com/', ['name part must be non-empty', /^name part must consist/]],
    ['Example.com/a', [/^prefix part a lowercase RFC 1123 subdomain must consist/]],
    ['a..b/c', [/^prefix part/]],
    ['a/b/c', [/^a qualified name must consist of .* with an optional DNS subdomain prefix and '\/'/]],
    ['é', [/^name part/]],
    ['a\n', [/^name part/]],
  ];
  for (const [key, expected] of keys) {
    it(`the key ${JSON.stringify(key.slice(0, 20))} of ${key.length}`, () => {
      const problems = labelKeyProblems(key);
      assert.equal(problems.length, expected.length, problems.join('; '));
      for (const [index, problem] of problems.entries()) {
        const rule = expected[index];
        if (typeof rule === 'string') assert.equal(problem, rule);
        else assert.match(problem, rule ?? /^$/);
      }
    });
  }

  it('a value may be empty, has at most 63 bytes and starts and ends with a letter or digit', () => {
    for (const value of ['', 'a', 'A_b.c-9', long(63)]) assert.deepEqual(labelValueProblems(value), []);
    for (const value of ['-', 'a.', '_a', 'a b', 'ä', long(64), 'a\n']) {
      assert.equal(labelValueProblems(value).length, 1, value);
    }
  });

  it('a very long key is judged at once', () => {
    assert.equal(labelKeyProblems(`${'a-'.repeat(500_000)}!`).length, 2);
    assert.equal(labelKeyProblems(`${'a.'.repeat(500_000)}!/a`).length, 2);
  });
});

describe('laws', () => {
  const name = fc.stringMatching(/^([A-Za-z0-9][-A-Za-z0-9_.]{0,8})?[A-Za-z0-9]$/);
  const key = fc.oneof(
    name,
    fc.constantFrom('in', 'notin', 'constructor', 'exists'),
    name.map((part) => `example.com/${part}`),
  );
  const value = fc.oneof(name, fc.constantFrom('', 'in', 'notin'));
  const expression = fc.oneof(
    fc.record({
      key,
      operator: fc.constantFrom('In', 'NotIn'),
      values: fc.array(value, { minLength: 1, maxLength: 4 }),
    }),
    fc.record({ key, operator: fc.constantFrom('Exists', 'DoesNotExist') }),
  );
  const object: fc.Arbitrary<LabelSelectorObject> = fc.record({
    matchLabels: fc.dictionary(key, value, { maxKeys: 3 }),
    matchExpressions: fc.array(expression, { maxLength: 4 }),
  });
  const labels = fc.dictionary(key, value, { maxKeys: 5 });

  it('parse(print(selector)) = selector, and both select the same', () => {
    fc.assert(
      fc.property(object, labels, (from, of) => {
        const selector = labelSelectorOf(from);
        const again = parseLabelSelector(labelSelectorText(selector));
        assert.deepEqual(again, selector);
        assert.equal(labelsMatch(again, of), labelsMatch(selector, of));
      }),
    );
  });

  it('an operator and its opposite never agree', () => {
    const opposites = [
      ['In', 'NotIn'],
      ['Exists', 'DoesNotExist'],
    ] as const;
    fc.assert(
      fc.property(key, fc.array(value, { minLength: 1 }), labels, (of, values, on) => {
        for (const [one, other] of opposites) {
          const select = (operator: string) =>
            labelsMatch(
              labelSelectorOf({
                matchExpressions: [{ key: of, operator, values: operator.endsWith('n') ? values : [] }],
              }),
              on,
            );
          assert.notEqual(select(one), select(other));
        }
      }),
    );
  });

  it('no text makes it throw anything but INPUT', () => {
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc
        .array(fc.constantFrom('a', 'in', 'notin', '(', ')', ',', '=', '==', '!', '!=', '>', '<', ' ', '5'), {
          maxLength: 12,
        })
        .map((tokens) => tokens.join('')),
    );
    fc.assert(
      fc.property(text, (input) => {
        try {
          const selector = parseLabelSelector(input);
          assert.deepEqual(parseLabelSelector(labelSelectorText(selector)), selector);
        } catch (error) {
          assert.ok(error instanceof RampartError && error.code === errorCodes.INPUT, String(error));
        }
      }),
      { numRuns: 2000 },
    );
  });

  it('no object makes it throw anything but INPUT', () => {
    const any = fc.oneof(
      fc.jsonValue(),
      fc.record(
        {
          matchLabels: fc.jsonValue({ maxDepth: 1 }),
          matchExpressions: fc.array(
            fc.oneof(
              fc.jsonValue({ maxDepth: 1 }),
              fc.record(
                {
                  key: fc.jsonValue(),
                  operator: fc.constantFrom('In', 'Exists', '', null),
                  values: fc.jsonValue(),
                },
                { requiredKeys: [] },
              ),
            ),
          ),
        },
        { requiredKeys: [] },
      ),
    );
    fc.assert(
      fc.property(any, (input) => {
        try {
          labelSelectorOf(input as LabelSelectorObject);
        } catch (error) {
          assert.ok(error instanceof RampartError && error.code === errorCodes.INPUT, String(error));
        }
      }),
    );
  });
});
