// A guard of which nothing but its own folder knows, through all that runs guards.
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import type { Command } from 'commander';

import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { guards } from '../../apps/guards.ts';
import { programOf } from '../../apps/program.ts';
import { installResources } from '../../apps/resources.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { findCondition } from '../../lib/kube/object/conditions.ts';
import { customResourceDefinitions } from '../../lib/kube/crd/established.ts';
import { type KubeObject, namespaces } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { guardMetricsTable, healthTable, rightsTable } from '../../scripts/docs.ts';
import { differences, writeManifests } from '../../scripts/manifests.ts';
import { type Door, doorType, doorWatch } from './guard.fixture.ts';

const program = [process.execPath, join(import.meta.dirname, 'rampart.fixture.ts')] as const;

function start(...args: readonly string[]): RampartProcess {
  return new RampartProcess(args, {}, program);
}

function run(...args: readonly string[]): { status: number | null; stdout: string; stderr: string } {
  const [command, ...before] = program;
  return spawnSync(command, [...before, ...args], { encoding: 'utf8', timeout: 60_000 });
}

/** The output of a command's `--help`. */
function help(...names: readonly string[]): string {
  const command = names.reduce<Command>(
    (outer, name) => outer.commands.find((one) => one.name() === name) ?? assert.fail(`no ${name}`),
    programOf([...guards, doorWatch]),
  );
  let text = '';
  command.configureOutput({ writeOut: (part) => void (text += part) }).outputHelp();
  return text;
}

function clientOf(kubeconfig: string): KubeClient {
  return new KubeClient(findClusterAccess({ path: kubeconfig }));
}

const door = (name: string): Door => ({
  metadata: { namespace: 'default', name },
  spec: { greeting: `Hello ${name}` },
});

async function get(url: string): Promise<string> {
  return await fetch(url).then(
    (answer) => answer.text(),
    () => '',
  );
}

/** Where a process that was started with `--metrics 0` serves them. */
async function metricsUrl(process: RampartProcess): Promise<string> {
  return await until('the address of the metrics', () => {
    return /metrics on (http:\/\/[^/\s]+)\/metrics/.exec(process.stderr)?.[1] ?? false;
  });
}

suite('a guard that is one folder', () => {
  test('runs in standalone, alone, with its flags, health, metrics, lines, status and command', async () => {
    using directory = new TemporaryDirectory();
    const data = directory.at('data');
    await using standalone = start(
      ...['standalone', '--data', data, '--listen', '127.0.0.1:0', '--metrics', '0'],
      ...['--guards', 'door-watch', '--door-greeter', 'the test', '--node-name', 'n1'],
    );
    const kubeconfig = join(data, 'kubeconfig');
    await until('the API', () => /serving https/.test(standalone.stderr));
    using client = clientOf(kubeconfig);
    await client.create(doorType, door('front'));
    assert.match(await standalone.ready, /Hello front, says the test/);
    // Its own directory, by its own name.
    assert.ok(existsSync(join(data, 'doors', 'default.front')));
    await until('the operator counts', async () => {
      return (await client.get(doorType, { namespace: 'default', name: 'front' })).status?.seen === 1;
    });
    // Only what it needs is installed.
    const { items } = await client.list<KubeObject>(customResourceDefinitions);
    assert.deepEqual(
      items.map(({ metadata }) => metadata.name),
      [
        'clusterpolicyreports.wgpolicyk8s.io',
        'clusterreports.openreports.io',
        'doors.toys.example.com',
        'policyreports.wgpolicyk8s.io',
        'reports.openreports.io',
      ],
    );
    const url = await metricsUrl(standalone);
    const ready = await until('readiness', async () => {
      const text = await get(`${url}/readyz`);
      return text.endsWith('\nready\n') && text;
    });
    for (const part of ['door-watch', 'door-watch-node', 'door-watch-node-doors', 'door-watch-lease']) {
      assert.ok(ready.includes(`[+] ${part}\n`), ready);
    }
    assert.doesNotMatch(ready, /file-|container-runtime/);
    const metrics = await get(`${url}/metrics`);
    assert.match(metrics, /^rampart_door_watch_greeted_total 1$/m);
    assert.match(metrics, /^rampart_guard_running\{guard="door-watch",part="node"\} 1$/m);
    assert.match(metrics, /^rampart_agent_ready 1$/m);
    assert.doesNotMatch(metrics, /rampart_file_/);

    const status = run('status', '--data', data);
    assert.match(status.stdout, /1 doors are greeted\./, status.stderr);
    assert.match(status.stdout, /DOOR +SEEN\ndefault\/front +1/);
    const json = JSON.parse(run('status', '--data', data, '--format', 'json').stdout) as {
      doors: string[];
      guards: { name: string; state: string }[];
    };
    assert.deepEqual(json.doors, ['front']);
    assert.equal(json.guards.find(({ name }) => name === 'door-watch')?.state, 'on');
    const doors = run('door', 'list', '--data', data);
    assert.deepEqual([doors.status, doors.stdout], [0, 'default/front: Hello front\n'], doors.stderr);
    const alerts = run('alerts', '--data', data, '--format', 'pretty');
    assert.equal(alerts.stdout, 'default/front: Hello front, says the test\n', alerts.stderr);
  });

  deepTest(
    'waits for its CRD in agent and operator, starts when it comes, and says where it cannot work',
    async () => {
      using directory = new TemporaryDirectory();
      const data = directory.at('data');
      await using _server = await RampartProcess.apiServer('--data', data, '--listen', '127.0.0.1:0');
      const kubeconfig = join(data, 'kubeconfig');
      using client = clientOf(kubeconfig);
      await client.create(namespaces, { metadata: { name: 'default' } }).catch(() => undefined);
      const common = ['--kubeconfig', kubeconfig, '--metrics', '0', '--guards', 'door-watch'];
      const agent = (node: string, ...more: string[]): RampartProcess =>
        start(
          ...['agent', ...common, '--node-name', node, '--door-directory', directory.at(node)],
          ...['--alerts-socket', directory.at(`${node}.sock`), ...more],
        );
      await using operator = start('operator', ...common);
      await using first = agent('n1');
      const readyUrl = `${await metricsUrl(first)}/readyz`;
      await until('it waits', async () =>
        (await get(readyUrl)).includes(
          '[-] door-watch-node: the API does not serve doors.toys.example.com/v1: its CustomResourceDefinition is not installed',
        ),
      );
      await installResources(client, [doorWatch], AbortSignal.timeout(60_000));
      await client.create(doorType, door('back'));
      assert.match(await first.ready, /Hello back, says toy/);
      await until('it is ready', async () => (await get(readyUrl)).endsWith('\nready\n'));
      assert.ok(existsSync(join(directory.path, 'n1', 'default.back')));
      await until('the operator counts', async () => {
        return (await client.get(doorType, { namespace: 'default', name: 'back' })).status?.seen === 1;
      });
      await until('the operator is ready', async () =>
        (await get(`${await metricsUrl(operator)}/readyz`)).includes('[+] door-watch-doors\n'),
      );

      // It is the only guard there: the agent ends with the reason, and the object has it.
      await using broken = agent('n2', '--door-greeter', 'broken');
      const { code, stderr } = await broken.ended;
      assert.equal(code, 2, stderr);
      assert.match(stderr, /nobody greets here: the greeter is broken/);
    },
  );

  deepTest(
    'that cannot work on a node says so at its objects and in status, and takes no other with it',
    async () => {
      using directory = new TemporaryDirectory();
      const data = directory.at('data');
      await using standalone = start(
        ...['standalone', '--data', data, '--listen', '127.0.0.1:0', '--node-name', 'n1'],
        ...['--metrics', '0', '--guards', 'door-watch,file-integrity', '--door-greeter', 'broken'],
      );
      await until('the API', () => /serving https/.test(standalone.stderr));
      using client = clientOf(join(data, 'kubeconfig'));
      await client.create(doorType, door('front'));
      const served = await until('the condition', async () => {
        const { status } = await client.get(doorType, { namespace: 'default', name: 'front' });
        return findCondition(status?.conditions, 'Served') ?? false;
      });
      assert.deepEqual(
        [served.status, served.reason, served.message],
        ['False', 'GuardUnavailable', 'node n1: nobody greets here: the greeter is broken'],
      );
      const metrics = await get(`${await metricsUrl(standalone)}/metrics`);
      assert.match(metrics, /^rampart_agent_ready 0$/m);
      assert.match(metrics, /^rampart_guard_running\{guard="door-watch",part="node"\} 0$/m);
      assert.match(metrics, /^rampart_guard_running\{guard="file-integrity",part="node"\} 1$/m);
      const { status, stdout } = run('status', '--data', data);
      assert.equal(status, 1, stdout);
      assert.match(
        stdout,
        /node n1: door-watch is not available: nobody greets here: the greeter is\s+broken/,
      );
      const lines = standalone.stderr.split('\n').filter((line) => line.includes('nobody greets here'));
      assert.equal(lines.length, 1, 'it is logged once');
    },
  );

  test('has its manifests: CRD, roles, a component with its capabilities, and tables in docs', async () => {
    using directory = new TemporaryDirectory();
    const room = directory.at('guards/door-watch');
    mkdirSync(room, { recursive: true });
    const fixture = JSON.stringify(new URL('guard.fixture.ts', import.meta.url).href);
    writeFileSync(join(room, 'api.ts'), `export { doors } from ${fixture};\n`);
    await writeManifests(directory.path, [doorWatch]);
    assert.deepEqual(await differences(directory.path, [doorWatch]), []);
    const deployed = directory.at('deploy/guards/door-watch');
    const component = readFileSync(join(deployed, 'kustomization.yaml'), 'utf8');
    for (const part of ['--guards=door-watch', 'SYS_NICE', 'doors/status', 'crd/doors.yaml']) {
      assert.ok(component.includes(part), `${part} is not in:\n${component}`);
    }
    assert.match(readFileSync(join(deployed, 'crd/doors.yaml'), 'utf8'), /name: doors\.toys\.example\.com/);
    // A right that is taken away is seen by the check.
    const fewer = { ...doorWatch, rights: {} };
    assert.match((await differences(directory.path, [fewer])).join('\n'), /door-watch\/kustomization\.yaml/);
    assert.match(await guardMetricsTable(doorWatch), /rampart_door_watch_greeted_total/);
    assert.match(healthTable(doorWatch), /door-watch-node-doors/);
    assert.match(rightsTable([doorWatch]), /doors/);
  });

  test('has its command in help, with an example, beside those of the others', () => {
    const stdout = help();
    assert.match(stdout, /^  door +show the doors$/m);
    assert.match(stdout, /^  rampart door list +# list the doors and their greetings$/m);
    assert.match(stdout, /^  network +explain/m);
    assert.match(help('door'), /^  list \[options\] +list the doors and their greetings$/m);
  });

  test('has its flags in help, and an unknown name is refused with the known ones', () => {
    const ofAgent = help('agent');
    assert.match(ofAgent, /--door-greeter <name>/);
    assert.match(ofAgent, /--door-directory <dir>/);
    assert.doesNotMatch(help('operator'), /--door-greeter/);
    const { status, stderr } = run('agent', '--node-name', 'n', '--guards', 'doors');
    assert.equal(status, 2);
    assert.match(stderr, /there is no guard "doors"\. Known guards: file-access, .*door-watch$/m);
  });
});
