import assert from 'node:assert/strict';
import { closeSync, openSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import type { LineKind } from '../line-kind.ts';
import { LineWriter } from '../../lib/output/lines.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { AlertPrinter } from './printer.ts';

/** Lines `a 2 text`: the kind, the time, the text. */
function kindOf(name: string, offered: string[]): LineKind {
  return {
    start: `${name} `,
    parse(line) {
      offered.push(line);
      const [, time = '', text = ''] = line.split(' ');
      if (text === '') return undefined;
      return {
        timeNs: BigInt(time),
        policy: [undefined, text],
        pod: [undefined, ''],
        pretty: () => `${name}: ${text}`,
      };
    },
  };
}

test('a line goes to the kind that it begins like, and to no other; kinds are shown in the order of time', async () => {
  using directory = new TemporaryDirectory();
  const path = directory.at('out');
  const fd = openSync(path, 'w');
  const offered: string[][] = [[], []];
  {
    await using out = new LineWriter(fd, { name: 'out' });
    const printer = new AlertPrinter({
      out,
      kinds: offered.map((lines, at) => kindOf('ab'[at] ?? '', lines)),
      filter: ({ policy: [, name] }) => name !== 'hidden',
      format: 'pretty',
      colour: false,
      tail: 2,
      signal: AbortSignal.timeout(30_000),
    });
    for (const line of [
      'b 3 three',
      'c 9 other',
      'a 1 one',
      'a 2 two',
      'b cut',
      'b 4 hidden',
      ' a 5 space',
      '',
    ])
      await printer.line(line);
    await printer.live();
    await printer.line('a 5 five');
  }
  closeSync(fd);
  assert.equal(readFileSync(path, 'utf8'), 'a: two\nb: three\na: five\n');
  assert.deepEqual(offered, [
    ['a 1 one', 'a 2 two', 'a 5 five'],
    ['b 3 three', 'b cut', 'b 4 hidden'],
  ]);
});
