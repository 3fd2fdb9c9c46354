import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { Access } from '../../../lib/sensor/access.ts';
import { access, anyAccess, text } from './alert.fixture.ts';
import { formatPretty } from './pretty.ts';

suite('formatPretty', () => {
  const pad = (value: number, width = 2): string => String(value).padStart(width, '0');
  const when = new Date(Number(access.timeNs / 1_000_000n));
  const clock = `${pad(when.getHours())}:${pad(when.getMinutes())}:${pad(when.getSeconds())}.123`;

  test('one line: time, access, path, process', () => {
    assert.equal(
      formatPretty(access, '/secret.txt', { color: false, pathWidth: 13 }),
      `${clock}   read          /secret.txt    /usr/bin/cat /secret.txt -  (pid 176928, uid 0, in /)`,
    );
  });

  test('columns stand under each other whatever the verdict, the access and the colour', () => {
    const lines = [
      formatPretty(access, '/a', { color: false }),
      formatPretty({ ...access, verdict: 'unknown', mask: 42 }, '/b/longer', { color: false }),
      formatPretty({ ...access, verdict: 'denied', mask: 33 }, '/c', { color: false }),
    ];
    assert.equal(new Set(lines.map((line) => line.indexOf('/usr/bin/cat'))).size, 1, lines.join('\n'));
  });

  test('a denied access is marked, and red where colour is on', () => {
    const denied: Access = { ...access, verdict: 'denied' };
    const plain = formatPretty(denied, '/s', { color: false });
    assert.match(plain, /✗ read .*denied/);
    assert.ok(!plain.includes('\u001b'));
    const colored = formatPretty(denied, '/s', { color: true });
    assert.ok(colored.includes('\u001b[31m✗ read'));
    assert.equal(colored.replace('\u001b[31m', '').replace('\u001b[0m', ''), plain);
    assert.ok(!formatPretty(access, '/s', { color: true }).includes('\u001b'));
  });

  test('folded accesses are counted; a process without executable shows its comm', () => {
    assert.match(formatPretty({ ...access, folded: 17 }, '/s', { color: false }), /17 more/);
    assert.match(
      formatPretty({ ...access, executable: '', arguments: '' }, '/s', { color: false }),
      /\[cat\]  \(pid/,
    );
  });

  test('a path that was cut in the kernel says that its beginning is missing', () => {
    const cut = {
      ...access,
      executable: '/deep/cat',
      executableTruncated: true,
      cwd: '/far/down',
      cwdTruncated: true,
    };
    assert.match(formatPretty(cut, '/s', { color: false }), /  …\/deep\/cat .* in …\/far\/down\)$/);
  });

  test('long arguments are cut on a character and marked', () => {
    const line = formatPretty({ ...access, arguments: '🔥'.repeat(500) }, '/s', { color: false });
    assert.ok(line.includes(` ${'🔥'.repeat(120)}…  (`));
    assert.match(
      formatPretty({ ...access, argumentsTruncated: true }, '/s', { color: false }),
      /secret.txt -…/,
    );
  });

  test('an attack through argv, comm, cwd or a file name stays text', () => {
    const attack = '\u001b[2J\u001b]0;owned\u0007\r\nroot# \u009b31m\u202egnp.exe\u2028\u007f';
    const line = formatPretty(
      { ...access, executable: attack, arguments: attack, cwd: attack, comm: attack },
      attack,
      { color: false },
    );
    assert.ok(line.includes('\\x1b[2J\\x1b]0;owned\\x07\\r\\nroot# \\x9b31m\\u{202e}gnp.exe\\u{2028}\\x7f'));
  });

  test('any access: one line without anything a terminal acts on', () => {
    fc.assert(
      fc.property(anyAccess, text, (a, path) => {
        assert.doesNotMatch(formatPretty(a, path, { color: false }), /[\p{C}\p{Zl}\p{Zp}]/u);
      }),
    );
  });
});
