import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

suite('descriptorSink', { timeout: 300_000 }, () => {
  test('a terminal gets every line, more than its buffer holds, and its flags are left alone', () => {
    const program = `
      import { readFileSync } from 'node:fs';
      import { isatty } from 'node:tty';
      import { LineWriter } from ${JSON.stringify(import.meta.resolve('./lines.ts'))};
      const flags = () => /flags:\\s+(\\d+)/.exec(readFileSync('/proc/self/fdinfo/1', 'utf8'))[1];
      const before = flags();
      {
        await using out = new LineWriter(1, { lingerMs: 30_000 });
        for (let i = 0; i < 3000; i++) out.write(i + ' ' + 'x'.repeat(50));
        await out.flush();
        out.write('terminal ' + isatty(1) + ' flags ' + (flags() === before));
      }`;
    // script(1) gives the program a pseudo-terminal and copies what comes out of it.
    const output = execFileSync(
      'script',
      ['-qec', `"$NODE" --input-type=module-typescript --no-warnings -e "$PROGRAM"`, '/dev/null'],
      {
        encoding: 'utf8',
        env: { ...process.env, NODE: process.execPath, PROGRAM: program },
        stdio: ['ignore', 'pipe', 'pipe'],
      },
    );
    const lines = output.split('\r\n');
    assert.equal(lines.pop(), '');
    assert.equal(lines.pop(), 'terminal true flags true');
    assert.deepEqual(
      lines,
      Array.from({ length: 3000 }, (_, i) => `${i} ${'x'.repeat(50)}`),
    );
  });
});
