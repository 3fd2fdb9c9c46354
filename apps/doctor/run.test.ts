import assert from 'node:assert/strict';
import { spawnSync, type SpawnSyncReturns } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { probeFeatures } from '../../lib/ebpf/features/features.ts';
import { sensorModes } from '../../lib/sensor/modes.ts';
import { asNobody, publicPath } from '../../lib/testing/public-checkout.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { guards } from '../guards.ts';
import type { DoctorReport } from './report.ts';

const commandModule = join(import.meta.dirname, 'command.ts');
const program = `
  const [commandModule, guardsModule, ...args] = process.argv.slice(1);
  const { doctorCommand } = await import(commandModule);
  const { guards } = await import(guardsModule);
  await doctorCommand(guards).parseAsync(args, { from: 'user' });
`;
const guardsModule = join(import.meta.dirname, '../guards.ts');
const node = [process.execPath, '--input-type=module', '-e', program, '--', commandModule, guardsModule];

/** Nothing here changes what is found: each command line is run once. */
const runs = new Map<string, SpawnSyncReturns<string>>();

/** `rampart doctor ARGS` with its output in a pipe, started through the commands in `under`. */
function doctor(args: readonly string[], under: readonly string[] = []): SpawnSyncReturns<string> {
  const key = JSON.stringify([args, under]);
  const run = runs.get(key) ?? doctorProcess(args, under);
  runs.set(key, run);
  return run;
}

function doctorProcess(args: readonly string[], under: readonly string[]): SpawnSyncReturns<string> {
  const [command = '', ...rest] = [...under, ...(under.length > 0 ? node.map(publicPath) : node), ...args];
  const env = { ...process.env, NO_COLOR: undefined, FORCE_COLOR: '1' };
  return spawnSync(command, rest, { encoding: 'utf8', env });
}

const notRoot = process.getuid?.() === 0 ? false : 'needs root';
const unprivileged = [...asNobody, '--inh-caps=-all', '--bounding-set=-all'];

test('--json is one object on one line that says what the probe found', { skip: notRoot }, () => {
  const run = doctor(['--json']);
  assert.equal(run.stderr, '');
  assert.equal(run.stdout.trimEnd().split('\n').length, 1);
  const report = JSON.parse(run.stdout) as DoctorReport;
  assert.equal(report.schemaVersion, 1);
  const features = probeFeatures();
  assert.deepEqual(report.kernel, JSON.parse(JSON.stringify(features)));
  const usable = sensorModes.find((mode) => mode.unavailable(features) === undefined);
  assert.equal(report.sensor.mode, usable?.name ?? null);
  assert.equal(run.status, report.guards.some(({ verdict }) => verdict === 'cannot') ? 1 : 0);
  assert.deepEqual(
    report.sensor.modes.map(({ name }) => name),
    sensorModes.map(({ name }) => name),
  );
});

test(
  'in a pipe the tables have no colour, and every mode that is not used has its reason',
  { skip: notRoot },
  () => {
    const run = doctor(['--kernel']);
    assert.ok(!run.stdout.includes('\u001b'));
    assert.match(run.stdout, /^Kernel +\S+ \(\w+\)$/m);
    const features = probeFeatures();
    for (const mode of sensorModes) {
      const expected = mode.unavailable(features) !== undefined;
      assert.equal(run.stdout.includes(`\n  not ${mode.name}: `), expected, mode.name);
    }
  },
);

test('without privileges it runs, names what is missing, and exits with 1', { skip: notRoot }, () => {
  const run = doctor(['--kernel'], unprivileged);
  assert.equal(run.status, 1, run.stderr);
  assert.match(run.stdout, /^Capabilities +missing CAP_BPF, CAP_PERFMON, CAP_NET_ADMIN, CAP_SYS_ADMIN$/m);
  assert.match(run.stdout, /^No sensor mode can run here\.$/m);
  assert.match(
    run.stdout,
    /not raw_tracepoint: missing_capability: EPERM: needs CAP_BPF and CAP_PERFMON\.$/m,
  );
  const report = JSON.parse(doctor(['--json'], unprivileged).stdout) as DoctorReport;
  assert.equal(report.sensor.mode, null);
  assert.deepEqual(
    report.guards.map(({ name, verdict }) => [name, verdict === 'cannot']),
    guards.map(({ name }) => [name, name !== 'policy-audit']),
  );
});

test('the first lines have each guard, whether it works, and why not', { skip: notRoot }, () => {
  const report = JSON.parse(doctor(['--json']).stdout) as DoctorReport;
  const lines = doctor([]).stdout.split('\n');
  const words = { works: 'works', limited: 'works with limits', cannot: 'cannot work' };
  assert.equal(report.guards.length, guards.length);
  for (const [at, { name, verdict, obstacles, limits }] of report.guards.entries()) {
    assert.equal(name, guards[at]?.name);
    assert.match(lines[at] ?? '', new RegExp(`^${name} +${words[verdict]}(?: |$)`));
    assert.ok((lines[at]?.length ?? 0) <= 80, lines[at]);
    const said = doctor([]).stdout.replaceAll(/\s+/g, ' ');
    for (const why of verdict === 'cannot' ? obstacles : limits)
      assert.ok(said.includes(why.replaceAll(/\s+/g, ' ')), why);
  }
  assert.equal(lines[guards.length], '');
  assert.doesNotMatch(doctor([]).stdout, /PROGRAM TYPE/);
  const one = doctor(['--guards', 'policy-audit']);
  assert.match(one.stdout, /^policy-audit +works/);
  assert.equal(one.status, 0);
  assert.deepEqual(report.machine.data.directory, '/var/lib/rampart');
});

test(
  'without a container runtime that answers, file-access is limited; a data directory need not exist',
  { skip: notRoot },
  () => {
    using directory = new TemporaryDirectory();
    // A socket without a listener.
    writeFileSync(directory.at('dead.sock'), '');
    const { guards: found, machine } = JSON.parse(
      doctor(['-o', 'json', '--cri-socket', directory.at('dead.sock'), '--data', directory.at('not/yet')])
        .stdout,
    ) as DoctorReport;
    assert.equal(machine.runtime, null);
    assert.equal(found.find(({ name }) => name === 'file-access')?.verdict, 'limited');
    assert.ok(machine.data.freeBytes > 0);
  },
);

test('an unknown option is one line and an exit code that is not 0', () => {
  const run = doctor(['--frobnicate']);
  assert.notEqual(run.status, 0);
  assert.match(run.stderr, /^error: unknown option '--frobnicate'\n$/);
  assert.equal(run.stdout, '');
});

test('what network policies need is told, and nothing of this network is changed', { skip: notRoot }, () => {
  const { network } = JSON.parse(doctor(['--json']).stdout) as DoctorReport;
  assert.deepEqual(
    network?.facts.map(({ name }) => name),
    ['nftables', 'iptables', 'ipset', 'nfnetlink_log', 'conntrack', 'bridge-nf'],
  );
  const nftables = network.facts.find(({ name }) => name === 'nftables');
  assert.equal(network.backend === 'nftables', nftables?.available);
  assert.match(
    doctor(['--kernel']).stdout,
    /^NETWORK POLICY +HERE\nnftables +(?:yes|no)\n[^]*^Network policies /m,
  );
  const without = JSON.parse(doctor(['--json'], unprivileged).stdout) as DoctorReport;
  assert.equal(without.network?.backend, null);
  assert.match(without.network.facts[0]?.detail ?? '', /CAP_SYS_ADMIN is required/);
});
