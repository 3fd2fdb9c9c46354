import assert from 'node:assert/strict';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { suite, test } from 'node:test';

import { deepTest, isDeep } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { labObstacle } from '../lab/obstacle.ts';
import { startThrowawayNode } from '../lab/throwaway-node.ts';
import { type Block, blocksOf, missingLine, plainBlocksOf } from './guide.fixture.ts';
import { notRun } from './not-run.fixture.ts';
import { Shell } from './shell.fixture.ts';

const top = dirname(dirname(import.meta.dirname));
const documents = [
  'README.md',
  ...globSync('docs/*.md', { cwd: top }).toSorted(),
  'deploy/README.md',
  'examples/README.md',
].map((file) => {
  const text = readFileSync(join(top, file), 'utf8');
  return { file, blocks: blocksOf(text), plain: plainBlocksOf(text) };
});
const hasServer = ({ blocks }: (typeof documents)[number]): boolean =>
  blocks.some(({ way }) => way === 'server');
const guides = documents.filter(hasServer);
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

  test('each shell block runs, or it is said why not, or which test runs it', () => {
    for (const { file, plain } of documents) {
      const left = [...(notRun[file] ?? [])];
      for (const first of plain) {
        const at = left.findIndex(([beginning]) => first.startsWith(beginning));
        assert.notEqual(
          at,
          -1,
          `${file}: mark this block with "run", or say in not-run.fixture.ts why not: ${first}`,
        );
        left.splice(at, 1);
      }
      assert.deepEqual(left, [], `${file}: there are no such blocks`);
    }
    const known = new Set(documents.map(({ file }) => file));
    assert.deepEqual(
      Object.keys(notRun).filter((file) => !known.has(file)),
      [],
    );
    const tests = Object.values(notRun).flatMap((blocks) => blocks.map(([, why]) => why));
    for (const why of tests) if (why.endsWith('.ts')) assert.ok(existsSync(join(top, why)), why);
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
    const inList = `1. One:\n\n   ${fence}sh run cluster\n   cat <<E\n     a\n   E\n   ${fence}\n\n${fence}sh\n# x\ny\n${fence}\n`;
    assert.deepEqual(blocksOf(inList), [
      { line: 3, script: 'cat <<E\n  a\nE\n', way: 'cluster', output: undefined },
    ]);
    assert.deepEqual(plainBlocksOf(inList), ['y']);
    assert.throws(() => blocksOf(`${fence}text output\nc\n${fence}\n`), /line 1/);
    assert.throws(() => blocksOf(`${fence}sh run often\nc\n${fence}\n`), /line 1/);
  });
});

suite('the guides run as they are', { skip: labObstacle() ?? sensorSkip, timeout: 1_200_000 }, () => {
  test('on one node, one after the other', async (t) => {
    await using node = await startThrowawayNode();
    await using server = new Shell(node);
    let isServing = false;
    for (const { file, blocks } of guides) {
      if (!isDeep && file !== short) continue;
      await t.test(file, async () => {
        await using stack = new AsyncDisposableStack();
        const shell = stack.use(new Shell(node));
        for (const block of blocks) {
          if (block.way === 'server') {
            if (!isServing) await server.start(block.script, 'serving https://');
            isServing = true;
          } else if (block.way === 'beside') await startBeside(stack.use(new Shell(node)), block);
          else if (block.way !== 'cluster') await check(shell, block, file);
        }
      });
    }
  });

  deepTest('without a server: lines that go on until Ctrl-C', async () => {
    await using node = await startThrowawayNode();
    await using shell = new Shell(node);
    for (const { file, blocks } of documents.filter((one) => !hasServer(one)))
      for (const block of blocks) if (block.way === 'each') await check(shell, block, file);
  });

  deepTest('in a cluster, one after the other', async (t) => {
    await using node = await startThrowawayNode();
    await using server = new Shell(node);
    const [api] = documents.find(({ file }) => file === 'docs/apiserver.md')?.blocks ?? [];
    assert.ok(api?.way === 'beside');
    await startBeside(server, api);
    const kubeconfig = '/var/lib/rampart-api/kubeconfig';
    await using kubelet = new Shell(node);
    const running = kubelet.run(`${process.execPath} test/docs/kubelet-process.fixture.ts ${kubeconfig}\n`);
    // By then it is ended with the node.
    running.catch(() => undefined);
    // As beside a clone, and in it.
    const prelude = `
      cd "$(mktemp -d)"
      ln -s ${top} rampart
      ln -s ${top}/deploy ${top}/examples .
      export KUBECONFIG=${kubeconfig}
      kubectl apply -k deploy/
      kubectl apply -f ${top}/test/docs/products.yaml
    `;
    for (const { file, blocks } of documents) {
      const inCluster = blocks.filter(({ way }) => way === 'cluster');
      if (inCluster.length === 0) continue;
      await t.test(file, async () => {
        await using shell = new Shell(node);
        await check(shell, { line: 0, script: prelude, way: 'once', output: undefined }, file);
        for (const block of inCluster) await check(shell, block, file);
      });
    }
  });
});

/** Starts a block that goes on, and waits for the first line of its output. */
async function startBeside(shell: Shell, { script, output = '', line }: Block): Promise<void> {
  // On a terminal, messages begin with the name of the command.
  const said = output.split('\n', 1)[0]?.replace(/^rampart: /, '') ?? '';
  assert.notEqual(said, '', `line ${line}: what does it say when it is ready?`);
  await shell.start(script, said);
}

async function check(shell: Shell, block: Block, file: string): Promise<void> {
  const { script, output, way, line } = block;
  let said = '';
  const look = async (): Promise<boolean> => {
    const { text, isWell } = await shell.run(way === 'each' ? untilItPrints(script) : script);
    said = text;
    return output === undefined ? isWell : missingLine(output, text) === undefined;
  };
  const isRight = way === 'again' ? await until(look).catch(() => false) : await look();
  const missing = output === undefined ? 'each command to end with 0' : missingLine(output, said);
  assert.ok(isRight, `${file}:${line}: expected ${missing}\n${script}printed\n${said}`);
}

/** Each line by itself, until Ctrl-C: with job control, a command in the background takes it as one in front does. */
function untilItPrints(script: string): string {
  return `until_it_prints() {
  log="$(mktemp)"
  set -m
  eval "$1" > "$log" 2>&1 &
  until [ -s "$log" ]; do sleep 0.05; done
  kill -INT -- "-$!"
  wait "$!"
  ended=$?
  set +m
  cat "$log"
  return $ended
}
${script.replaceAll(/^(.*\S.*)$/gm, (line) => `until_it_prints ${quoted(line)}`)}`;
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}
