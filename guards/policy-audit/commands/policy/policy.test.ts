/**
 * `rampart policy` as people and CI have it: what it prints, and what it exits with.
 */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { deepTest, sampled } from '../../../../lib/testing/depth.fixture.ts';
import { Commands } from '../../../../apps/commands.fixture.ts';

const top = join(import.meta.dirname, '../../../..');
const modules = join(top, 'test/policies');
const labels = join(modules, 'labels.wapc.wasm');
const wantsTeam = ['--settings', '{required: [team]}'];

suite('rampart policy', () => {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-policy-'));
  const commands = new Commands(directory);
  before(() => {
    const pod = (name: string, more = ''): string =>
      `apiVersion: v1\nkind: Pod\nmetadata: {name: ${name}, namespace: shop${more}}\nspec: {}\n`;
    write('manifests/bad.yaml', `# No team.\n${pod('"<web>"')}`);
    write('manifests/below/good.yml', pod('api', ', labels: {team: a}'));
    write('manifests/README.md', 'not a manifest\n');
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
  });

  function write(path: string, text: string): void {
    mkdirSync(dirname(join(directory, path)), { recursive: true });
    writeFileSync(join(directory, path), text);
  }

  interface Ended {
    readonly code: number | null;
    readonly stdout: string;
    readonly stderr: string;
  }

  const environment = { HOME: directory, XDG_CACHE_HOME: '', DOCKER_CONFIG: '' };

  async function policy(args: readonly string[]): Promise<Ended> {
    const { code, stdout, stderr } = await commands.run(['policy', ...args], environment);
    return { code, stdout, stderr };
  }

  /** In a process of its own, which has to end. */
  function policyProcess(args: readonly string[], input = ''): Ended {
    const env = { ...process.env, ...environment };
    const { status, stdout, stderr } = spawnSync(join(top, 'bin/rampart'), ['policy', ...args], {
      ...{ cwd: directory, env, input },
      encoding: 'utf8',
    });
    return { code: status, stdout, stderr };
  }

  const line = (output: string, from: string): string[] => [
    ...['run', labels, '-r', from, ...wantsTeam, '-o', output],
  ];
  const run = (output: string): Promise<Ended> => policy(line(output, 'manifests'));
  const runOnInput = (output: string, input = ''): Ended => policyProcess(line(output, '-'), input);

  test('run: a directory as JSON, JUnit and SARIF; each with exit code 1', async () => {
    const json = await run('json');
    assert.deepEqual([json.code, json.stderr], [1, '']);
    const { summary, results } = JSON.parse(json.stdout) as { summary: object; results: object[] };
    assert.deepEqual(summary, { pass: 1, fail: 1, error: 0, skip: 0 });
    assert.partialDeepStrictEqual(results, [
      { result: 'fail', object: 'Pod shop/<web>', message: 'label team is missing', line: 3 },
      { result: 'pass', object: 'Pod shop/api', file: 'manifests/below/good.yml' },
    ]);
    const junit = await run('junit');
    assert.equal(junit.code, 1);
    assert.match(
      junit.stdout,
      /^<\?xml version="1\.0" encoding="UTF-8"\?>\n<testsuites>\n {2}<testsuite name="labels\.wapc" tests="2" failures="1" errors="0" skipped="0">\n {4}<testcase name="Pod shop\/&lt;web&gt;" classname="labels\.wapc" file="manifests\/bad\.yaml"><failure message="label team is missing">/,
    );
    const sarif = await run('sarif');
    assert.equal(sarif.code, 1);
    const { version, runs } = JSON.parse(sarif.stdout) as { version: string; runs: { results: object[] }[] };
    assert.equal(version, '2.1.0');
    assert.partialDeepStrictEqual(runs[0]?.results, [
      {
        ruleId: 'labels.wapc',
        level: 'error',
        message: { text: 'Pod shop/<web>: label team is missing' },
        locations: [
          { physicalLocation: { artifactLocation: { uri: 'manifests/bad.yaml' }, region: { startLine: 3 } } },
        ],
      },
    ]);
  });

  const good = (): string => readFileSync(join(directory, 'manifests/below/good.yml'), 'utf8');

  test('run: standard input: manifests', () => {
    const failing = runOnInput(
      'table',
      `${good()}---\n${readFileSync(join(directory, 'manifests/bad.yaml'), 'utf8')}`,
    );
    assert.equal(failing.code, 1);
    assert.match(
      failing.stdout,
      /fail +labels\.wapc +Pod shop\/<web> +-:\d+\n.*label team is missing\n1 pass, 1 fail/,
    );
  });

  deepTest('run: standard input: what passes, and nothing', () => {
    const passing = runOnInput('json', good());
    assert.deepEqual([passing.code, /"file": ?"-"/.test(passing.stdout)], [0, true], passing.stderr);
    const nothing = runOnInput('json');
    assert.deepEqual([nothing.code, nothing.stdout], [2, '']);
    assert.match(nothing.stderr, /^rampart: there are no objects in -\. /);
  });
  test('inspect: a table for people, JSON for programs, and files that are not modules', async () => {
    const table = await policy(['inspect', labels]);
    assert.equal(table.code, 0, table.stderr);
    for (const [name, value] of [
      ['runtime', 'wapc'],
      ['mutating', 'no'],
      ['rule', '.*"resources":\\["pods"\\].*'],
      ['io\\.kubewarden\\.policy\\.title', 'labels'],
      ['imports', 'wapc\\.__guest_request, .*'],
    ])
      assert.match(table.stdout, new RegExp(`^${name} +${value}$`, 'm'));
    const runtimes = [
      'denied-rust.wapc',
      'denied-rust.wasi',
      'labels.wasi',
      'denied-as.opa',
      'labels.gatekeeper',
    ];
    for (const name of sampled(runtimes, 1)) {
      const { stdout } = await policy(['inspect', join(modules, `${name}.wasm`), '-o', 'json']);
      const { runtime, sizeBytes } = JSON.parse(stdout) as { runtime: string; sizeBytes: number };
      assert.deepEqual(
        [runtime, sizeBytes],
        [name.split('.')[1], readFileSync(join(modules, `${name}.wasm`)).length],
      );
    }
    const missing = await policy(['inspect', './none.wasm']);
    assert.deepEqual(missing, {
      ...{ code: 2, stdout: '' },
      stderr: 'rampart: cannot read ./none.wasm: it does not exist\n',
    });
    const other = await policy(['inspect', 'manifests/bad.yaml']);
    assert.deepEqual([other.code, /is not a WebAssembly module/.test(other.stderr)], [2, true], other.stderr);
  });

  test('pull: the module, byte for byte; 2 if it cannot be fetched', async () => {
    const { code, stdout, stderr } = await policy(['pull', `file://${labels}`, '-o', 'pulled.wasm']);
    assert.equal(code, 0, stderr);
    assert.match(stdout, /^sha256:[0-9a-f]{64} {2}file:\/\/\S+labels\.wapc\.wasm\n$/);
    assert.deepEqual(readFileSync(join(directory, 'pulled.wasm')), readFileSync(labels));
    const away = await policy(['pull', 'registry://127.0.0.1:1/policies/labels:v1']);
    assert.deepEqual([away.code, away.stdout], [2, ''], away.stderr);
    assert.match(
      away.stderr,
      /^rampart: cannot fetch 127\.0\.0\.1:1\/policies\/labels:v1 from .*: 127\.0\.0\.1 is loopback; to call it, configure/,
    );
  });

  test('test: a directory of cases', async () => {
    const file = (allowed: boolean): string =>
      `policy: ${labels}\nsettings: {required: [team]}\ncases:\n  - name: a pod without a team\n` +
      `    object: {apiVersion: v1, kind: Pod, metadata: {name: web}}\n    expected: {allowed: ${allowed}}\n`;
    write('cases/right.yaml', file(false));
    const right = await policy(['test', 'cases']);
    assert.deepEqual(right, { code: 0, stdout: 'ok a pod without a team\n1 of 1 as expected\n', stderr: '' });
    write('cases/below/wrong.yaml', file(true));
    const wrong = await policy(['test', 'cases']);
    assert.equal(wrong.code, 1);
    assert.match(
      wrong.stdout,
      /not ok a pod without a team\n +cases\/below\/wrong\.yaml:4: refused: label team is missing\n/,
    );
    assert.match(wrong.stdout, /\n1 of 2 as expected\n$/);
    const json = await policy(['test', 'cases', '-o', 'json']);
    const { schema, failed, cases } = JSON.parse(json.stdout) as Record<string, unknown>;
    assert.deepEqual([json.code, schema, failed], [1, 'rampart.dev/policy-test/v1', 1]);
    const problems = (cases as { problem: string | null }[]).map(({ problem }) => problem ?? 'none');
    assert.deepEqual(new Set(problems), new Set(['none', 'refused: label team is missing']));
    assert.equal((await policy(['test', 'nowhere'])).code, 2);
  });

  deepTest(
    'bench: 0 with verdicts, also those that refuse, 1 without, 2 with settings that are refused',
    async () => {
      const bench = (module: string, settings: string): Promise<Ended> =>
        policy([
          'bench',
          join(modules, module),
          '-r',
          'manifests',
          '--settings',
          settings,
          '--seconds',
          '0.1',
        ]);
      const well = await bench('labels.wapc.wasm', '{required: [team]}');
      assert.equal(well.code, 0, well.stderr);
      assert.match(well.stdout, /^POLICY +RUNTIME.*\nlabels\.wapc +wapc .* 0\n/);
      const trapped = await bench('unruly.wapc.wasm', '{do: trap}');
      assert.equal(trapped.code, 1);
      assert.match(trapped.stdout, /\nunruly\.wapc +wapc .* [1-9]\d*\n/);
      const refused = await bench('labels.wapc.wasm', '{}');
      assert.deepEqual(refused, {
        ...{ code: 2, stdout: '' },
        stderr: 'rampart: the policy rejects its settings: settings need a list named required\n',
      });
    },
  );
});
