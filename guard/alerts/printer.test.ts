import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { test } from 'node:test';
import { parseAllDocuments } from 'yaml';

import type { LineKind } from '../line-kind.ts';
import { findingLine } from '../stream/finding.ts';
import { LineWriter } from '../../lib/output/lines.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { AlertPrinter } from './printer.ts';
import { patience } from '../../lib/testing/until.fixture.ts';

/** All is written, however slow the disk is. */
const LINGER_MS = 60_000;

function lineOf(kind: string, second: number, verdict: string, guard = 'g'): string {
  return findingLine({
    ...{ guard, kind, node: { name: 'n' }, severity: 'low', object: null, policy: null },
    ...{ time: `2026-11-21T10:00:0${second}Z`, verdict, message: '' },
  });
}

function kindOf(kind: string, offered: string[]): LineKind {
  return {
    kind,
    view({ head }) {
      offered.push(head.verdict);
      return head.verdict === 'foreign' ? undefined : { pretty: () => `${kind}: ${head.verdict}` };
    },
  };
}

test('a line goes to the kind that it begins like, and to no other; kinds are shown in the order of time', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('out');
  const fd = openSync(path, 'w');
  const offered: string[][] = [[], []];
  {
    await using out = new LineWriter(fd, { name: 'out', lingerMs: LINGER_MS });
    const printer = new AlertPrinter({
      out,
      kinds: new Map([['g', offered.map((lines, at) => kindOf('ab'[at] ?? '', lines))]]),
      filter: ({ timeNs }) => timeNs % 60_000_000_000n !== 4_000_000_000n,
      format: 'pretty',
      colour: false,
      tail: 2,
      isTailOfEach: false,
      signal: patience(),
    });
    for (const line of [
      lineOf('b', 3, 'three'),
      lineOf('c', 9, 'other'),
      lineOf('a', 1, 'one'),
      lineOf('a', 2, 'two'),
      lineOf('b', 3, 'cut').slice(0, -2),
      lineOf('b', 3, 'foreign'),
      lineOf('b', 4, 'hidden'),
      lineOf('b', 9, 'of another guard', 'h'),
      ` ${lineOf('a', 5, 'space')}`,
      '',
    ])
      await printer.line(line);
    await printer.live();
    await printer.line(lineOf('a', 5, 'five'));
  }
  closeSync(fd);
  assert.equal(readFileSync(path, 'utf8'), 'a: two\nb: three\na: five\n');
  assert.deepEqual(offered, [
    ['one', 'two', 'five'],
    ['three', 'foreign', 'hidden'],
  ]);
});

test('prints each line as a YAML document', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('out');
  const fd = openSync(path, 'w');
  const lines = [lineOf('a', 1, 'one'), lineOf('a', 2, 'two')];
  {
    await using out = new LineWriter(fd, { name: 'out', lingerMs: LINGER_MS });
    const printer = new AlertPrinter({
      ...{
        out,
        kinds: new Map([['g', [kindOf('a', [])]]]),
        filter: () => true,
        format: 'yaml',
        colour: false,
      },
      ...{ tail: 9, isTailOfEach: false, signal: patience() },
    });
    for (const line of lines) await printer.line(line);
    await printer.live();
  }
  closeSync(fd);
  const documents = parseAllDocuments(readFileSync(path, 'utf8'));
  assert.deepEqual(
    documents.map((document): unknown => document.toJS()),
    lines.map((line): unknown => JSON.parse(line)),
  );
});

test('the last ones of each kind of each guard: many of one do not push out those of another', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('out');
  const fd = openSync(path, 'w');
  {
    await using out = new LineWriter(fd, { name: 'out', lingerMs: LINGER_MS });
    const printer = new AlertPrinter({
      out,
      kinds: new Map(['g', 'h'].map((guard) => [guard, ['a', 'b'].map((kind) => kindOf(kind, []))])),
      filter: () => true,
      format: 'pretty',
      colour: false,
      tail: 2,
      isTailOfEach: true,
      signal: patience(),
    });
    await printer.line(lineOf('a', 1, 'rare', 'h'));
    await printer.line(lineOf('b', 1, 'seldom'));
    for (let second = 2; second < 8; second++) await printer.line(lineOf('a', second, `often ${second}`));
    await printer.live();
  }
  closeSync(fd);
  assert.equal(readFileSync(path, 'utf8'), 'a: rare\nb: seldom\na: often 6\na: often 7\n');
});

test('lines with the same fold that follow each other are one, and how many more', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('out');
  const fd = openSync(path, 'w');
  const kind: LineKind = {
    kind: 'a',
    view: ({ head: { verdict } }) => ({
      pretty: () => verdict,
      ...(verdict.startsWith('x') && { fold: { key: 'x', rest: (count) => `${count} more` } }),
    }),
  };
  {
    await using out = new LineWriter(fd, { name: 'out', lingerMs: LINGER_MS });
    const signal = patience();
    const common = { out, kinds: new Map([['g', [kind]]]), filter: () => true, colour: false, signal };
    const printer = new AlertPrinter({ ...common, format: 'pretty', tail: 10, isTailOfEach: false });
    for (const [at, verdict] of ['x1', 'x2', 'x3', 'y', 'x4'].entries())
      await printer.line(lineOf('a', at, verdict));
    await printer.live();
    for (const verdict of ['x5', 'z', 'x6', 'x7']) await printer.line(lineOf('a', 9, verdict));
    await printer.end();
  }
  closeSync(fd);
  assert.deepEqual(readFileSync(path, 'utf8').trimEnd().split('\n'), [
    ...['x1', '2 more', 'y', 'x4', '1 more', 'z', 'x6', '1 more'],
  ]);
});
