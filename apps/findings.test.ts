/**
 * The published schema and examples of findings. Real lines of the guards are checked against the schema in
 * their own tests.
 */
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { assertFinding } from '../guard/stream/finding-schema.fixture.ts';
import { findingLine } from '../guard/stream/finding.ts';
import { type ReadFinding, readFinding } from '../guard/stream/read-finding.ts';
import { guards } from './guards.ts';

const docs = join(import.meta.dirname, '../docs');

/** As lines. */
function examplesIn(page: string): string[] {
  return [...page.matchAll(/^ *```json\n([^]*?)^ *```$/gm)].map(([, text = '']) =>
    JSON.stringify(JSON.parse(text)),
  );
}

const page = readFileSync(join(docs, 'findings.md'), 'utf8');
const examples = examplesIn(page).map((line) => {
  const finding = readFinding(line);
  assert.ok(finding, line);
  return { line, finding };
});

test('the examples of the guides are findings, too', () => {
  for (const guide of ['watch.md', 'file-integrity.md', 'network-policy.md']) {
    const lines = examplesIn(readFileSync(join(docs, guide), 'utf8')).filter((line) => readFinding(line));
    assert.equal(lines.length, 1, guide);
    for (const line of lines) assertFinding(line);
  }
});

suite('docs/findings.md', () => {
  for (const { line, finding } of examples) {
    const { kind, guard } = finding.head;
    test(`the example of a ${kind} is one, and as rampart alerts shows it`, async () => {
      assertFinding(line);
      assert.equal(Object.keys(finding.keys).slice(0, 9).join(), Object.keys(finding.head).join());
      const kinds = (await guards.find(({ name }) => name === guard)?.lines?.()) ?? [];
      const view = kinds.find((one) => one.kind === kind)?.view(finding);
      assert.match(view?.pretty({ colour: false, nowMs: 0 }) ?? '', /^\d{4}-\d\d-\d\d /);
    });
  }

  test('has an example of each kind of each guard', async () => {
    const kinds = await Promise.all(guards.map(async ({ lines }) => (await lines?.()) ?? []));
    for (const own of kinds) assert.ok(own.length > 0);
    assert.deepEqual(
      examples.map(({ finding }) => finding.head.kind).toSorted(),
      kinds.flatMap((own) => own.map(({ kind }) => kind)).toSorted(),
    );
  });

  test('each verdict and severity of its table is one of the schema', () => {
    let guard = '';
    const rows = [...page.matchAll(/^\| +(\S*) +\| `([a-z-]+)` +\|[^|]*\| ([a-z]+)/gm)].filter(
      ([, , verdict]) => verdict !== 'guard',
    );
    const reported = new Set<string>();
    for (const [, name = '', verdict = '', severity = ''] of rows) {
      guard = name === '' ? guard : name;
      const ofGuard = examples.filter(({ finding }) => finding.head.guard === guard);
      const [first] = ofGuard;
      if (first === undefined) continue;
      reported.add(guard);
      // Each kind has verdicts of its own.
      const { finding } = ofGuard.find((one) => one.finding.head.verdict === verdict) ?? first;
      assertFinding(changed(finding, { verdict, severity: severity === 'the' ? 'medium' : severity }));
    }
    assert.deepEqual([...reported].toSorted(), guards.map(({ name }) => name).toSorted());
  });

  test('the schema refuses lines that are not findings', () => {
    for (const { finding } of examples) {
      const { head, keys } = finding;
      assert.throws(() => assertFinding(changed(finding, { verdict: 'fine' })), /verdict/);
      assert.throws(() => assertFinding(findingLine(head)), /required/);
      for (const key of Object.keys(head)) {
        const { [key]: _without, ...rest } = keys;
        assert.throws(() => assertFinding(JSON.stringify(rest)), /required/, key);
      }
    }
  });
});

function changed({ keys }: ReadFinding, head: object): string {
  return JSON.stringify({ ...keys, ...head });
}
