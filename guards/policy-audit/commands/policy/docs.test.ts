/**
 * The examples of docs/policy-audit.md: what is printed there is what the commands print.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { sampled, seed } from '../../../../lib/testing/depth.fixture.ts';

const top = join(import.meta.dirname, '../../../..');
const guide = readFileSync(join(top, 'docs/policy-audit.md'), 'utf8');

/** The blocks of a language, without their fences. */
function blocks(language: string): string[] {
  return [...guide.matchAll(/^```(\w+)\n([^]*?)^```$/gm)].flatMap(([, name, text = '']) =>
    name === language ? [text] : [],
  );
}

/** `$ command` and what it prints. */
const examples = blocks('console').flatMap((block) =>
  block
    .split(/^\$ /m)
    .slice(1)
    .map((example): readonly [command: string, output: string] => {
      const end = example.indexOf('\n');
      return [example.slice(0, end), example.slice(end + 1)];
    }),
);

suite(`the examples of the guide (RAMPART_TEST_SEED=${seed})`, () => {
  let directory: string;
  before(() => {
    directory = mkdtempSync(join(tmpdir(), 'rampart-guide-'));
    symlinkSync(join(top, 'test'), join(directory, 'test'));
    for (const block of blocks('yaml')) {
      const name = /^# (\S+)\n/.exec(block)?.[1];
      if (name !== undefined) writeFileSync(join(directory, name), block);
    }
  });
  after(() => rmSync(directory, { recursive: true, force: true }));

  test('there is one of each language', () => {
    const commands = examples.map(([command]) => command).join('\n');
    for (const name of [
      'cel.yaml',
      'group.yaml',
      'vap.yaml',
      'map.yaml',
      'rust.wapc',
      'as.wapc',
      '.wasi',
      '.opa',
      '.gatekeeper',
    ])
      assert.ok(commands.includes(name), name);
  });

  for (const [command, output] of sampled(examples, 1)) {
    test(command, () => {
      const { status, stdout, stderr } = spawnSync('sh', ['-c', command], {
        cwd: directory,
        env: { ...process.env, PATH: `${join(top, 'bin')}:${process.env['PATH']}`, HOME: directory },
        encoding: 'utf8',
      });
      const isGood = output.includes(' 0 fail, 0 error');
      assert.deepEqual([stdout, stderr, status], [output, '', isGood ? 0 : 1]);
    });
  }
});
