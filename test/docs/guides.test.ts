import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { isDeep } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { startThrowawayNode } from '../lab/throwaway-node.ts';
import { type Block, blocksOf, missingLine } from './guide.fixture.ts';
import { Shell } from './shell.fixture.ts';

const top = dirname(dirname(import.meta.dirname));
const guides = ['README.md', ...globSync('docs/*.md', { cwd: top }).toSorted()]
  .map((file) => ({ file, blocks: blocksOf(readFileSync(join(top, file), 'utf8')) }))
  .filter(({ blocks }) => blocks.length > 0);
/** In `npm test` one guide stands for all. */
const short = 'docs/file-access.md';

suite('the guides', () => {
  test('one for each example; each begins with the same two commands', () => {
    const beginnings = new Set(
      guides.map(({ blocks: [one, two] }) => `${one?.way} ${one?.script}${two?.script}`),
    );
    assert.deepEqual(
      [...beginnings],
      [
        'server rampart standalone --data /var/lib/rampart -f examples/\nexport KUBECONFIG=/var/lib/rampart/kubeconfig\n',
      ],
    );
    const files = new Set(guides.map(({ file }) => basename(file, '.md')));
    const examples = globSync('*.yaml', { cwd: join(top, 'examples') }).map((file) =>
      basename(file, '.yaml'),
    );
    assert.deepEqual(
      examples.filter((name) => !files.has(name)),
      [],
    );
  });

  test('lines of output are compared without what the day changes', () => {
    const output = 'NAME  AGE\ndb    5s\n05:26:20.897  by cat (pid 21656, [...])\n';
    const printed = 'first\nNAME   AGE\nother  1s\ndb     12s\n23:00:00.001   by cat (pid 1, uid 0)\n';
    assert.equal(missingLine(output, printed), undefined);
    assert.equal(missingLine('db 5s\nNAME AGE\n', printed), 'NAME AGE');
    assert.equal(missingLine('5 frames\n', '6 frames\n'), '5 frames');
    assert.equal(missingLine('a.b\n', 'axb\n'), 'a.b');
  });

  test('blocks of a guide', () => {
    const fence = '```';
    const text = `${fence}sh run\na\n${fence}\n\n${fence}yaml\nb\n${fence}\n\n${fence}text output\nc\n${fence}\n`;
    assert.deepEqual(blocksOf(text), [{ line: 1, script: 'a\n', way: 'once', output: 'c\n' }]);
    assert.throws(() => blocksOf(`${fence}text output\nc\n${fence}\n`), /line 1/);
    assert.throws(() => blocksOf(`${fence}sh run often\nc\n${fence}\n`), /line 1/);
  });
});

suite('the guides run as they are', { skip: labObstacle() ?? sensorSkip, timeout: 600_000 }, () => {
  test('on one node, one after the other', async (t) => {
    await using node = await startThrowawayNode();
    await using server = new Shell(node);
    let isServing = false;
    for (const { file, blocks } of guides) {
      if (!isDeep && file !== short) continue;
      await t.test(file, async () => {
        await using shell = new Shell(node);
        for (const block of blocks) {
          if (block.way !== 'server') await check(shell, block, file);
          else if (!isServing) {
            await server.start(block.script, 'serving https://');
            isServing = true;
          }
        }
      });
    }
  });
});

async function check(shell: Shell, block: Block, file: string): Promise<void> {
  const { script, output, way, line } = block;
  let said = '';
  const look = async (): Promise<boolean> => {
    const { text, isWell } = await shell.run(script);
    said = text;
    return output === undefined ? isWell : missingLine(output, text) === undefined;
  };
  const isRight = way === 'again' ? await until(look).catch(() => false) : await look();
  const missing = output === undefined ? 'each command to end with 0' : missingLine(output, said);
  assert.ok(isRight, `${file}:${line}: expected ${missing}\n${script}printed\n${said}`);
}
