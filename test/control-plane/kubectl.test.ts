// Advanced use of kubectl: an operator with a large definition, installed in one go, used, removed.
import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { after, before, describe, test } from 'node:test';

import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { kustomization, largeDefinition, manifests } from './operator.fixture.ts';

interface Run {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

const missing = spawnSync('kubectl', ['version', '--client']).status !== 0 && 'kubectl is not installed';

describe('kubectl', { skip: missing }, () => {
  const directory = new TemporaryDirectory();
  let server: RampartProcess | undefined;
  let environment: NodeJS.ProcessEnv;
  before(async () => {
    mkdirSync(directory.at('operator'));
    for (const [name, text] of Object.entries({ ...manifests, 'kustomization.yaml': kustomization })) {
      writeFileSync(directory.at(`operator/${name}`), text);
    }
    server = await RampartProcess.apiServer('--data', directory.at('data'), '--listen', '127.0.0.1:0');
    environment = { PATH: process.env['PATH'], HOME: directory.path, KUBECONFIG: await server.ready };
  });
  after(async () => {
    await server?.[Symbol.asyncDispose]();
    directory[Symbol.dispose]();
  });

  const start = (args: readonly string[]) =>
    spawn('kubectl', args, { env: environment, stdio: ['pipe', 'pipe', 'pipe'], timeout: 120_000 });

  async function run(args: readonly string[], input = ''): Promise<Run> {
    const running = start(args);
    let [stdout, stderr] = ['', ''];
    running.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text));
    running.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text));
    running.stdin.on('error', () => undefined);
    running.stdin.end(input);
    const [code] = (await once(running, 'close')) as [number | null];
    return { code, stdout, stderr };
  }

  /** Has to succeed. */
  async function kubectl(...args: string[]): Promise<string> {
    const { code, stdout, stderr } = await run(args);
    assert.equal(code, 0, `kubectl ${args.join(' ')}: ${stderr}`);
    return stdout;
  }

  test('apply -k of a definition and an object of its kind: the second time does it, the third changes nothing', async () => {
    assert.ok(manifests['definition.yaml'].length > 100_000);
    const all = directory.at('operator');
    const first = await run(['apply', '-k', all]);
    // As with every cluster: the kind is looked up before the definition is sent.
    assert.equal(first.code, 1);
    assert.match(first.stderr, /no matches for kind "Monitor"/);
    const [namespace, definition] = ['namespace', 'definition'].map((name) => `${all}/${name}.yaml`) as [
      string,
      string,
    ];
    await kubectl('apply', '-f', namespace, '-f', definition);
    await kubectl(
      'wait',
      `crd/${largeDefinition.metadata.name}`,
      '--for=condition=Established',
      '--timeout=60s',
    );
    const second = await kubectl('apply', '-k', all);
    assert.match(second, /monitor\.suite\.example\.com\/main created/);
    assert.match(second, /namespace\/monitoring (unchanged|configured)/);
    const third = (await kubectl('apply', '-k', all)).trim().split('\n');
    // A kubectl from before batch/v1 had CronJobs sends their lists whole.
    const changed = third.filter((line) => !line.endsWith(' unchanged') && !line.startsWith('cronjob.'));
    assert.deepEqual(changed, []);
    assert.ok(third.length >= 10, third.join('\n'));
  });

  test('apply --server-side after that, and diff of both kinds finds nothing', async () => {
    const all = directory.at('operator');
    await kubectl('apply', '--server-side', '--force-conflicts', '-k', all);
    for (const how of sampled([[], ['--server-side'], ['--server-side', '--force-conflicts']], 1)) {
      const { code, stdout, stderr } = await run(['diff', ...how, '-k', all]);
      assert.equal(code, 0, `${how.join(' ')}: ${stdout}${stderr}`);
    }
  });

  test('diff and get -w show a change; scale; get --raw', async () => {
    const changed = manifests['monitor.yaml'].replace('v1.0', 'v1.1');
    const { code, stdout } = await run(['diff', '-n', 'monitoring', '-f', '-'], changed);
    assert.equal(code, 1);
    assert.match(stdout, /^\+ +version: v1\.1$/m);

    const watching = start(['get', 'monitors', '-n', 'monitoring', '-w']);
    const lines: string[] = [];
    createInterface({ input: watching.stdout }).on('line', (line) => lines.push(line));
    try {
      await until('the watch shows the object', () => lines.length >= 2);
      await kubectl(
        'patch',
        '-n',
        'monitoring',
        'monitor/main',
        '--type=merge',
        '-p',
        '{"spec":{"version":"v2"}}',
      );
      await until('the watch shows the change', () => lines.length >= 3);
    } finally {
      watching.kill();
      await once(watching, 'close');
    }
    assert.match(lines[0] ?? '', /^NAME +VERSION +READY *$/);
    assert.match(lines[1] ?? '', /^main +v1\.0/);
    assert.match(lines[2] ?? '', /^main +v2/);

    await kubectl('scale', '-n', 'monitoring', 'monitor/main', '--replicas=4');
    const raw = await kubectl(
      'get',
      '--raw',
      '/apis/suite.example.com/v1/namespaces/monitoring/monitors/main',
    );
    assert.equal((JSON.parse(raw) as { spec: { shards: number } }).spec.shards, 4);
  });

  test('replace --force makes another object of the same name', async () => {
    const uid = (): Promise<string> =>
      kubectl('get', '-n', 'monitoring', 'monitor/main', '-o', 'jsonpath={.metadata.uid}');
    const old = await uid();
    await kubectl('replace', '--force', '-n', 'monitoring', '-f', directory.at('operator/monitor.yaml'));
    assert.notEqual(await uid(), old);
  });

  test('get all, and every kind that is listed can be got', async () => {
    const all = await kubectl('get', 'all', '-n', 'monitoring');
    for (const name of [
      'service/operator',
      'deployment.apps/operator',
      'cronjob.batch/backup',
      'monitor.suite.example.com/main',
    ]) {
      assert.ok(all.includes(name), `${name} is not in\n${all}`);
    }
    const kinds = (await kubectl('api-resources', '--verbs=list', '-o', 'name')).trim().split('\n');
    assert.ok(kinds.length > 20);
    await kubectl('get', kinds.join(','), '--ignore-not-found');
  });

  test('explain goes into a large definition', async () => {
    assert.match(await kubectl('explain', 'monitor.spec.f0.f1'), /f2/);
  });

  test('access reviews get an answer, or a clear refusal', async () => {
    const questions = [
      ['auth', 'can-i', 'create', 'pods'],
      ['auth', 'can-i', '--list'],
      ['create', 'token', 'operator', '-n', 'monitoring'],
    ];
    for (const args of sampled(questions, 1)) {
      const { code, stdout, stderr } = await run(args);
      assert.ok(
        code === 0
          ? stdout !== ''
          : /the server could not find|unknown command|not enabled|must specify/i.test(stderr),
        stderr,
      );
    }
  });

  test('delete -f of everything leaves nothing', async () => {
    // In the namespace they go by themselves, so some may be gone before they are asked for.
    await kubectl('delete', '-k', directory.at('operator'), '--ignore-not-found', '--timeout=90s').catch(
      () => undefined,
    );
    await until('the namespace is gone', async () => {
      const { code, stderr } = await run(['get', 'ns', 'monitoring']);
      return code === 1 && /NotFound/.test(stderr);
    });
    for (const kinds of [
      ['crd,clusterroles,clusterrolebindings'],
      ['deployments,cronjobs,networkpolicies,configmaps', '-A'],
    ]) {
      assert.equal(await kubectl('get', ...kinds, '-o', 'name'), '');
    }
    assert.doesNotMatch(server?.stderr ?? '', /"level":"(error|fatal)"/);
  });
});
