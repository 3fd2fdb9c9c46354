import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { stringify } from 'yaml';

import * as fc from '../testing/fast-check.fixture.ts';
import { parseManifest } from './document.ts';
import { describeProblem } from './problem.ts';

const problems = (text: string): string[] => parseManifest(text, 'a.yaml').problems.map(describeProblem);
const names = (text: string): (string | undefined)[] =>
  parseManifest(text, 'a.yaml').objects.map(({ object }) => object.metadata.name);

const configMap = (name: string): string => `apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: ${name}\n`;

suite('manifests', () => {
  test('several documents, with nothing or comments between them', () => {
    assert.deepEqual(names(`---\n# first\n${configMap('a')}---\n---\n# none\n---\n${configMap('b')}...\n`), [
      'a',
      'b',
    ]);
    assert.deepEqual(problems(''), []);
    assert.deepEqual(problems('# only a comment\n---\n'), []);
  });

  test('JSON and lists', () => {
    const items = [{ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'x' } }];
    assert.deepEqual(names(JSON.stringify({ apiVersion: 'v1', kind: 'List', items })), ['x']);
    const list = parseManifest(
      `kind: List\nitems:\n- apiVersion: v1\n  kind: A\n  metadata:\n    name: one\n`,
      'a.yaml',
    );
    assert.equal(list.objects[0]?.lineOf('metadata.name'), 6);
  });

  test('an error names its line and document, and does not affect other documents', () => {
    const text = `${configMap('a')}---\nkind: [x\n---\n${configMap('b')}---\na: 1\na: 2\n---\n- 1\n`;
    const [first = '', second = '', ...rest] = problems(text);
    assert.deepEqual(names(text), ['a', 'b']);
    assert.match(first, /^a\.yaml:7: document 2: invalid YAML: /);
    assert.match(second, /^a\.yaml:14: document 4: invalid YAML: .*unique/);
    assert.deepEqual(rest, ['a.yaml:16: document 5: not a Kubernetes object: expected fields']);
  });

  test('missing fields are named', () => {
    assert.deepEqual(problems('kind: A\nmetadata: {name: x}\n'), [
      'a.yaml:1: document 1, apiVersion: apiVersion is missing or not a string',
    ]);
    assert.deepEqual(problems('apiVersion: v1\nkind: A\nmetadata:\n  generateName: x\n'), [
      'a.yaml:3: document 1, metadata.name: a name is required to apply it',
    ]);
    assert.equal(problems('apiVersion: 1\nkind: A\nmetadata: {name: 7}').length, 1);
  });

  test('fields have lines', () => {
    const text =
      'apiVersion: x/v1\nkind: A\nmetadata:\n  name: one\n  labels:\n    a.b/c: d\nspec:\n  traps:\n    - path: /a\n' +
      '    - path: /b\n      matchAny:\n        - pod: x\n';
    const [one] = parseManifest(text, 'a.yaml').objects;
    const lines = {
      'spec.traps[1].path': 10,
      'spec.traps[1].matchAny[0].pod': 12,
      '.spec.traps[0]': 9,
      // A missing field: the line of its parent.
      'spec.traps[1].callback': 10,
      'metadata.labels[a.b/c]': 6,
      'status.x': 1,
      '': 1,
    };
    assert.deepEqual(
      Object.fromEntries(Object.keys(lines).map((field) => [field, one?.lineOf(field)])),
      lines,
    );
  });

  test('scalars are what kubectl reads', () => {
    const text = `${configMap('a')}data: {date: 2026-01-01, yes: yes, octal: 0444, time: 1:20}\n`;
    const [one] = parseManifest(text, 'a').objects;
    assert.ok(one);
    assert.deepEqual((one.object as { data?: unknown }).data, {
      date: '2026-01-01',
      true: true,
      octal: 292,
      time: '1:20',
    });
  });

  test('bombs and depths are problems, not crashes', () => {
    const bomb = ['a: &a [x,x,x,x,x,x,x,x,x]', ...'bcdefghij'.split('')].map((name, index, all) =>
      index === 0 ? name : `${name}: &${name} [${`*${index === 1 ? 'a' : all[index - 1]},`.repeat(9)}]`,
    );
    assert.equal(problems(bomb.join('\n')).length, 1);
    assert.equal(problems('['.repeat(20_000)).length, 1);
  });

  test('nothing that is in a file throws', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.json(),
          fc.object().map((value) => stringify(value)),
        ),
        (text) => {
          const { objects } = parseManifest(text, 'f');
          for (const one of objects) assert.ok(one.lineOf('spec.x[3]') >= 1);
        },
      ),
      { numRuns: 300 },
    );
  });
});
