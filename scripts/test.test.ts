import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { copyFileSync, mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { TemporaryDirectory } from '../lib/testing/temporary-directory.fixture.ts';
import { batchesOf } from './test-batches.ts';
import { filesInTurn, turnOf } from './test-turns.ts';

const top = dirname(import.meta.dirname);
const runner = ['test.ts', 'test-batches.ts', 'test-report.ts', 'test-turns.ts'].map(
  (name) => `scripts/${name}`,
);
const parts = [...runner, 'lib/testing/depth.fixture.ts', 'lib/output/printable.ts', 'package.json'];

/** A checkout with nothing but the runner and these test files. */
class Checkout extends TemporaryDirectory {
  constructor(files: Readonly<Record<string, string>>) {
    super();
    for (const [path, text] of Object.entries(files)) this.#write(path, text);
    this.#write('scripts/test-durations.json', '{}');
    this.#write('scripts/test-durations.deep.json', '{}');
    for (const path of parts) {
      mkdirSync(dirname(this.at(path)), { recursive: true });
      copyFileSync(join(top, path), this.at(path));
    }
  }

  #write(path: string, text: string): void {
    mkdirSync(dirname(this.at(path)), { recursive: true });
    writeFileSync(this.at(path), text);
  }

  /** Runs its tests, without what this run has in its environment. */
  run(args: readonly string[] = [], depth = '0.1') {
    const { NODE_TEST_CONTEXT: _, ...environment } = process.env;
    const { status, stdout } = spawnSync(process.execPath, ['scripts/test.ts', ...args], {
      cwd: this.path,
      encoding: 'utf8',
      env: { ...environment, RAMPART_TEST_DEPTH: depth, RAMPART_TEST_SEED: '7' },
    });
    return { status, stdout };
  }
}

const head = "import { test } from 'node:test';\n";
const passing = `${head}test('passes', () => undefined);\n`;

suite('npm test', () => {
  test('ends with each test that failed, where it stands, and the command that runs its file again', () => {
    using checkout = new Checkout({
      'lib/a.test.ts': `${head}test('says \\x00 and \\x1b[2J', () => {\n  throw new Error('a NUL: \\x00');\n});\n`,
      'lib/b.test.ts': passing,
      'guards/c d.test.ts': `${head}test('outer', async (t) => {\n  await t.test('inner', () => {\n    throw new Error('no');\n  });\n});\n`,
    });
    const { status, stdout } = checkout.run();
    assert.equal(status, 1);
    const again = 'RAMPART_TEST_DEPTH=0.1 RAMPART_TEST_SEED=7 npm test --';
    const [failed = '', commands = ''] = stdout
      .slice(stdout.indexOf('failed, with details above:\n'))
      .split('again:\n');
    assert.deepEqual(failed.trimEnd().split('\n').slice(1).toSorted(), [
      '  guards/c d.test.ts:3  inner',
      '  lib/a.test.ts:2  says \\x00 and \\x1b[2J',
    ]);
    assert.deepEqual(
      commands
        .split('\n')
        .filter((line) => line.includes('npm test'))
        .toSorted(),
      [`  ${again} 'guards/c d.test.ts'`, `  ${again} lib/a.test.ts`],
    );
    // eslint-disable-next-line no-control-regex -- what grep takes for a binary file
    assert.doesNotMatch(stdout, /[\u0000-\u0008\u000e-\u001f]/);
    assert.match(stdout, /^slowest:$/m);
  });

  test('for a test of a fixture, names the fixture and the file that runs it', () => {
    using checkout = new Checkout({
      'lib/a.suite.fixture.ts': `${head}export const cases = () => test('no', () => {\n  throw new Error('no');\n});\n`,
      'lib/a.test.ts': "import { cases } from './a.suite.fixture.ts';\ncases();\n",
      // By another fixture, and one of the same name elsewhere.
      'lib/b/suite.fixture.ts': "export { cases } from '../a.suite.fixture.ts';\n",
      'lib/b/b.test.ts': "import { cases } from './suite.fixture.ts';\ncases();\n",
      'lib/c/suite.fixture.ts': 'export const none = 0;\n',
      'lib/c/c.test.ts': `import './suite.fixture.ts';\n${passing}`,
    });
    const { stdout } = checkout.run();
    assert.match(stdout, /^ {2}lib\/a\.suite\.fixture\.ts:2 {2}no$/m);
    const again = [...stdout.matchAll(/npm test -- (\S+)$/gm)].map(([, file]) => file);
    assert.deepEqual(new Set(again), new Set(['lib/a.test.ts', 'lib/b/b.test.ts']));
  });

  test('names the files of a process that ended before their tests had, and how it ended', () => {
    for (const [ends, how] of [
      ['process.exit(3)', 'with exit code 3'],
      ["process.kill(process.pid, 'SIGKILL')", 'by SIGKILL'],
    ]) {
      using checkout = new Checkout({
        'lib/a.test.ts': passing,
        'lib/b.test.ts': `${head}test('never ends', async () => {\n  ${ends};\n  await new Promise(() => undefined);\n});\n`,
      });
      const { status, stdout } = checkout.run();
      assert.equal(status, 1);
      assert.ok(
        stdout.includes(`\n  lib/b.test.ts  its process ended before its tests had, ${how}\n`),
        stdout,
      );
      assert.match(stdout, /npm test -- lib\/b\.test\.ts$/m);
    }
  });

  test('passes, and leaves out what repeats for depth unless it is named', () => {
    using checkout = new Checkout({
      'lib/a.test.ts': passing,
      'lib/a.deep.test.ts': `${head}test('deep', () => undefined);\n`,
    });
    const shallow = checkout.run();
    assert.equal(shallow.status, 0, shallow.stdout);
    assert.doesNotMatch(shallow.stdout, /deep \(/);
    assert.match(checkout.run(['lib/a.deep.test.ts']).stdout, /deep \(/);
    assert.match(checkout.run([], '1').stdout, /deep \(/);
  });

  test('has a fifth of the long files of each room, others with the next seed, and says so; what is named runs whole', () => {
    const recorded = {
      'lib/1.test.ts': 9,
      'lib/a/2.test.ts': 9,
      'lib/a/3.test.ts': 9,
      'lib/b/4.test.ts': 9,
      'lib/b/in/5.test.ts': 9,
      'lib/c/6.test.ts': 9,
      'guards/a/node/1.test.ts': 9,
      'guards/a/node/2.test.ts': 9,
      'guards/b/1.test.ts': 9,
      'test/kernel/1.test.ts': 9,
      'test/kernel/2.test.ts': 9,
      'lib/a/short.test.ts': 0.01,
    };
    const files = Object.keys(recorded);
    const runs = [0, 1, 2, 3, 4].map((turn) => filesInTurn(files, { recorded, turn }));
    assert.deepEqual([7, 8, 10, -7, 7.5].map(turnOf), [2, 3, 0, 2, 2]);
    const always = [
      'guards/b/1.test.ts',
      'test/kernel/1.test.ts',
      'test/kernel/2.test.ts',
      'lib/a/short.test.ts',
    ];
    assert.deepEqual(
      runs.map((run) => run.filter((file) => !always.includes(file))),
      [
        ['lib/b/4.test.ts', 'guards/a/node/1.test.ts'],
        ['lib/b/in/5.test.ts', 'guards/a/node/2.test.ts'],
        ['lib/1.test.ts', 'lib/c/6.test.ts', 'guards/a/node/1.test.ts'],
        ['lib/a/2.test.ts', 'guards/a/node/2.test.ts'],
        ['lib/a/3.test.ts', 'guards/a/node/1.test.ts'],
      ],
    );
    for (const run of runs) assert.deepEqual(new Set(always).difference(new Set(run)), new Set());

    using checkout = new Checkout(
      Object.fromEntries(
        files.map((file) => [file, `${head}test(${JSON.stringify(file)}, () => undefined);\n`]),
      ),
    );
    writeFileSync(checkout.at('scripts/test-durations.json'), JSON.stringify(recorded));
    const ran = (stdout: string): number => [...stdout.matchAll(/✔ \S+\.test\.ts \(/g)].length;
    // The seed of a checkout's runs is 7.
    const { status, stdout } = checkout.run();
    assert.equal(status, 0, stdout);
    assert.match(stdout, /^turn 3 of 5: 5 of 12 files have another turn/m);
    assert.equal(ran(stdout), 7);
    assert.equal(ran(checkout.run(['lib', 'guards', 'test']).stdout), 12);
    assert.equal(ran(checkout.run(['--record']).stdout), 12);
  });

  test('that runs no test has failed', () => {
    using checkout = new Checkout({ 'lib/a.test.ts': '' });
    mkdirSync(checkout.at('apps'));
    assert.equal(checkout.run(['apps']).status, 1);
    assert.equal(checkout.run(['elsewhere']).status, 2);
  });

  test('gives a process of its own to what takes long, and to what changes the process; a shared one to what changes its network', () => {
    const files = {
      'lib/a.test.ts': passing,
      'lib/b.test.ts': `${passing}beforeEach(() => undefined);\n`,
      'lib/c.test.ts': `${passing}process.env['HOME'] = '/';\n`,
      'lib/d.test.ts': `${passing}if (process.env['HOME'] === '/') process.stdout.write('');\n`,
      'lib/e.test.ts': passing,
      'lib/f.test.ts': `${passing}  ownNetwork();\n`,
      'lib/g.test.ts': `${passing}  ownNetwork();\n`,
    };
    using checkout = new Checkout(files);
    const batches = batchesOf(Object.keys(files), { top: checkout.path, recorded: { 'lib/e.test.ts': 31 } });
    assert.deepEqual(
      batches.map((batch) => batch.files),
      [
        ['lib/e.test.ts'],
        ['lib/a.test.ts', 'lib/d.test.ts'],
        ['lib/f.test.ts', 'lib/g.test.ts'],
        ['lib/b.test.ts'],
        ['lib/c.test.ts'],
      ],
    );
  });

  test('ends a shared process before it takes long', () => {
    const names = ['a', 'b', 'c', 'd', 'e', 'f'].map((name) => `lib/${name}.test.ts`);
    using checkout = new Checkout(Object.fromEntries(names.map((name) => [name, passing])));
    const recorded = Object.fromEntries(names.map((name) => [name, 12]));
    assert.deepEqual(
      batchesOf(names.toReversed(), { top: checkout.path, recorded }).map((batch) => batch.files),
      [names.slice(0, 5), names.slice(5)],
    );
  });
});
