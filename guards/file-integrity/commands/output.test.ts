/** Output of a check besides its report. */
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { progressLine, ProgressBar } from './progress-bar.ts';
import { coloured } from './report-output.ts';

test('the line of the progress says how far it is, and fits the terminal', () => {
  const facts = { bytesPerSecond: 2_500_000, elapsedMs: 10_000, columns: 99, colour: false };
  const half = { files: 50_000, bytes: 500 << 20, expectedFiles: 100_000, expectedBytes: 1000 << 20 };
  assert.equal(
    progressLine(half, facts),
    `${'━'.repeat(12)}${'─'.repeat(12)}  50 %  50,000 files  500 MiB  2.4 MiB/s  0:10 left`,
  );
  assert.equal(progressLine({ files: 7, bytes: 0 }, facts), '7 files  0 B  2.4 MiB/s');
  for (let columns = 0; columns < 90; columns++)
    assert.ok(progressLine(half, { ...facts, columns }).length <= columns);
  assert.equal(progressLine(half, { ...facts, columns: 39 }), ' 50 %  50,000 files  500 MiB  2.4 MiB/s');
  assert.equal(progressLine(half, { ...facts, columns: 19 }), ' 50 %  50,000 files');
  assert.equal(progressLine(half, { ...facts, columns: 18 }), ' 50 %  ');
  // More than the baseline had is not more than all.
  assert.match(progressLine({ ...half, files: 1e6, bytes: 2 ** 40 }, facts), / 99 % /);
});

test('the progress is shown after a second, ten times a second at most, and on terminals only', () => {
  let now = 0;
  const written: string[] = [];
  const terminal = { isTTY: true, columns: 80, write: (text: string) => written.push(text) };
  {
    using bar = new ProgressBar(terminal, () => now);
    for (; now < 3000; now += 10) bar.show({ files: now, bytes: now });
  }
  assert.equal(written.length, 21);
  assert.equal(written.at(-1), '\r\u001b[K');
  written.length = 0;
  {
    using bar = new ProgressBar({ ...terminal, isTTY: false }, () => now);
    for (; now < 9000; now += 10) bar.show({ files: now, bytes: now });
    using short = new ProgressBar(terminal, () => now);
    short.show({ files: 1, bytes: 1 });
  }
  assert.deepEqual(written, []);
});

test('colours are for what AIDE says, whatever files are called', () => {
  const text = 'f+++++++++++++++++: /a\nf > ...    .H     : /b: f---\n/x: AIDE found differences\n';
  assert.equal(coloured(text, false), text);
  assert.equal(
    coloured(text, true),
    '\u001b[32mf+++++++++++++++++\u001b[39m: /a\n\u001b[33mf > ...    .H     \u001b[39m: /b: f---\n/x: AIDE found differences\n',
  );
});
