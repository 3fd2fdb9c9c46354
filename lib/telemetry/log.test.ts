import assert from 'node:assert/strict';
import { execFileSync, spawnSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { formatLogLine } from './log.ts';

const node = ['--input-type=module-typescript', '--no-warnings', '-e'];
const prelude = `
  import { createLogger } from ${JSON.stringify(import.meta.resolve('./log.ts'))};
  import { errorCodes, RampartError } from ${JSON.stringify(import.meta.resolve('../errors/errors.ts'))};\n`;

function run(program: string, environment: Readonly<Record<string, string>> = {}) {
  const { NO_COLOR: _, RAMPART_LOG: __, ...env } = process.env;
  return spawnSync(process.execPath, [...node, prelude + program], {
    encoding: 'utf8',
    env: { ...env, ...environment },
  });
}

suite('createLogger', { timeout: 300_000 }, () => {
  test('writes JSON lines to stderr, none to stdout, and loses none at exit', () => {
    const { stdout, stderr, status } = run(`
      const log = createLogger();
      log.debug('not this one');
      for (let i = 0; i < 2000; i++) log.info({ i }, 'line');
      log.error({ err: new RampartError(errorCodes.LIMIT, { what: 'too many targets', next: 'Raise it.' }) }, 'no');
      process.exit(3);`);
    assert.equal(status, 3);
    assert.equal(stdout, '');
    const lines = stderr
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    assert.deepEqual(
      lines.slice(0, -1).map((line) => line['i']),
      Array.from({ length: 2000 }, (_, i) => i),
    );
    assert.deepEqual(Object.keys(lines[0] ?? {}), ['level', 'time', 'i', 'msg']);
    assert.equal(lines[0]?.['level'], 'info');
    assert.match(String(lines[0]?.['time']), /^\d{4}-\d\d-\d\dT.*Z$/);
    const err = lines.at(-1)?.['err'] as Record<string, unknown>;
    assert.equal(err['code'], 'RAMPART_LIMIT');
    assert.equal(err['message'], 'too many targets. Raise it');
    assert.equal(err['stack'], undefined);
  });

  test('an unexpected error is logged with its stack', () => {
    const { stderr } = run(`createLogger().error({ err: new TypeError('a fault') }, 'no');`);
    const { err } = JSON.parse(stderr) as { readonly err: Record<string, string> };
    assert.deepEqual([err['type'], err['message']], ['TypeError', 'a fault']);
    assert.match(err['stack'] ?? '', /^TypeError: a fault\n +at /);
  });

  test('RAMPART_LOG sets the level, an option goes before it, an unknown one is refused', () => {
    const program = `const log = createLogger(); log.debug('d'); log.warn('w');`;
    assert.match(run(program, { RAMPART_LOG: 'debug' }).stderr, /"msg":"d"[^]*"msg":"w"/);
    assert.equal(run(program, { RAMPART_LOG: 'error' }).stderr, '');
    assert.doesNotMatch(run(program, { RAMPART_LOG: '' }).stderr, /"msg":"d"/);
    assert.match(
      run(`createLogger({ level: 'trace' }).trace('t')`, { RAMPART_LOG: 'error' }).stderr,
      /"msg":"t"/,
    );
    const refused = run(`try { createLogger(); } catch (e) { console.log(e.code, e.message); }`, {
      RAMPART_LOG: 'loud',
    });
    assert.equal(
      refused.stdout,
      'RAMPART_INPUT RAMPART_LOG="loud" is not a log level. Use one of: trace, debug, info, warn, error, fatal, silent\n',
    );
  });

  test('goes on when stderr fails', () => {
    const program = `${prelude} createLogger().info('x'); createLogger({ json: false }).info('x'); console.log('alive');`;
    const shell = `exec "$0" "$@" 2>/dev/full`;
    const output = execFileSync('sh', ['-c', shell, process.execPath, ...node, program], {
      encoding: 'utf8',
    });
    assert.equal(output, 'alive\n');
  });

  test('on a terminal: one line for a person, coloured unless NO_COLOR', () => {
    const terminal = (environment: Readonly<Record<string, string>>): string =>
      execFileSync('script', ['-qec', `"$NODE" ${node.join(' ')} "$PROGRAM"`, '/dev/null'], {
        encoding: 'utf8',
        stdio: ['ignore', 'pipe', 'pipe'],
        env: {
          ...process.env,
          NODE: process.execPath,
          PROGRAM: `${prelude} createLogger().warn({ lost: 3, why: 'ring full' }, 'records lost');`,
          ...environment,
        },
      });
    assert.match(
      terminal({ NO_COLOR: '1' }),
      /^\d\d:\d\d:\d\d\.\d{3} warn  records lost  lost=3 why="ring full"\r\n$/,
    );
    assert.ok(terminal({ NO_COLOR: '' }).includes(' \u001b[33mwarn \u001b[0m records lost'));
  });
});

suite('formatLogLine', () => {
  const time = new Date(2026, 10, 21, 10, 0, 0, 123).toISOString();

  test('message, fields, error', () => {
    const line = JSON.stringify({
      level: 'info',
      time,
      msg: 'm',
      a: 1,
      b: 'x y',
      c: { d: [1] },
      err: { message: 'why', code: 'E' },
    });
    assert.equal(
      formatLogLine(line, { color: false }),
      '10:00:00.123 info  m  a=1 b="x y" c={"d":[1]}  error: why (E)',
    );
    assert.equal(
      formatLogLine(JSON.stringify({ level: 'error', time }), { color: false }),
      '10:00:00.123 error',
    );
  });

  test('nothing in it reaches the terminal raw, and it stays one line', () => {
    const attack = '\u001b[2J\nroot# \u202e';
    const line = JSON.stringify({
      level: 'info',
      time,
      msg: attack,
      [attack]: attack,
      o: { x: attack },
      err: { message: attack, code: attack },
    });
    assert.doesNotMatch(formatLogLine(line, { color: false }), /\p{C}/u);
  });
});
