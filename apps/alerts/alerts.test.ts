import assert from 'node:assert/strict';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

import { serveFeed } from '../../lib/feed/feed-server.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { sampled } from '../../lib/testing/depth.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { configMaps, namespaces } from '../../lib/kube/object/object.ts';
import { clusterAdmissionPolicyType } from '../../guards/policy-audit/api.ts';
import { clusterPolicy } from '../../guards/policy-audit/scanner/scan.fixture.ts';
import { kivePolicyType } from '../../guards/file-access/api.ts';
import { statusOf } from '../../guards/file-access/policy-status-schema.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { AlertEncoder } from '../../guards/file-access/alert/alert.ts';
import { access, context } from '../../guards/file-access/alert/alert.fixture.ts';
import { startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { Commands } from '../commands.fixture.ts';
import { Standalone } from '../standalone/standalone.fixture.ts';
import { Alerts } from './alerts.fixture.ts';
import { findOrigin } from '../../guard/alerts/source.ts';

class Directory implements Disposable {
  readonly path = mkdtempSync(join(tmpdir(), 'rampart-alerts-'));
  at(name: string): string {
    return join(this.path, name);
  }
  [Symbol.dispose](): void {
    rmSync(this.path, { recursive: true, force: true });
  }
}

function alertLine(second: number, more: Partial<typeof context> = {}): string {
  return new AlertEncoder({ ...context, ...more }).encode({
    ...access,
    timeNs: access.timeNs + BigInt(second) * 1_000_000_000n,
  });
}

suite('rampart alerts, from a socket', () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());

  test('kept alerts: the last ones, byte for byte, in the order of time', async () => {
    using directory = new Directory();
    const feed = new LineFeed();
    // Two CPUs may report theirs in reverse order.
    const lines = [0, 2, 1, 3].map((second) => alertLine(second, { path: `/${second}` }));
    for (const line of lines) feed.push(line);
    await using _server = await serveFeed(feed, directory.at('alerts.sock'));
    const [first, third, second, fourth] = lines;
    const asked = [
      [
        ['--data', directory.path],
        [first, second, third, fourth],
      ],
      [
        ['--socket', directory.at('alerts.sock'), '--tail', '2'],
        [third, fourth],
      ],
      [['--data', directory.path, '--tail', '0'], []],
      [
        ['--data', directory.path, '--path', '/[02]'],
        [first, third],
      ],
      [
        ['--data', directory.path, '--since', '2026-11-21T10:00:02Z', '--policy', 'kivebpf-system/*'],
        [third, fourth],
      ],
      [['--data', directory.path, '--pod', 'other'], []],
      [['--data', directory.path, '--guard', 'file-access', '--severity', 'high', '--tail', '1'], [fourth]],
      [['--data', directory.path, '--severity', 'critical'], []],
      [['--data', directory.path, '--guard', 'network-policy', '--guard', 'policy-audit'], []],
    ] as const;
    for (const [args, expected] of sampled(asked, 2)) {
      const alerts = await commands.run(['alerts', ...args]);
      assert.equal(alerts.code, 0, alerts.stderr);
      assert.deepEqual(alerts.stdout.split('\n').slice(0, -1), expected);
      assert.equal(alerts.stderr, `rampart: alerts of this machine, from ${directory.at('alerts.sock')}\n`);
    }
    const last = ['--data', directory.path, '--format', 'pretty', '--tail', '1'];
    const pretty = await commands.run(['alerts', ...last]);
    assert.match(pretty.stdout, /read {10}default\/nginx-pod\/nginx:\/3 .* kive-sample-policy\n$/);
  });

  test('followed: what comes, until it is interrupted, or its reader is gone', async () => {
    using directory = new Directory();
    const feed = new LineFeed();
    for (let second = 0; second < 20; second++) feed.push(alertLine(second));
    await using server = await serveFeed(feed, directory.at('alerts.sock'));
    await using alerts = new Alerts(['-f', '--data', directory.path]);
    await using headed = new Alerts(['--follow', '--data', directory.path]);
    await alerts.until(() => alerts.lines.length === 10);
    await headed.until(() => headed.lines.length === 10);
    const line = alertLine(20);
    feed.push(line);
    await alerts.until(() => alerts.lines.at(-1) === line);
    headed.closeStdout();
    feed.push(line);
    feed.push(line);
    assert.equal(await headed.end(), 0);
    assert.equal(await alerts.end('SIGINT'), 0);
    while (server.readers > 0) await new Promise((resolve) => setTimeout(resolve, 5));
    assert.equal(alerts.stderr.split('\n').length, 2, alerts.stderr);
  });

  test('a reader that stops for a while gets the exact number of missed alerts', async () => {
    using directory = new Directory();
    const feed = new LineFeed();
    await using server = await serveFeed(feed, directory.at('alerts.sock'), { readerBytes: 500_000 });
    await using alerts = new Alerts(['-f', '--data', directory.path]);
    await alerts.untilSaid(/alerts of this machine/);
    feed.push(alertLine(0));
    await alerts.until(() => alerts.lines.length === 1);
    assert.equal(server.readers, 1);
    alerts.read(false);
    const line = alertLine(1);
    const count = 20_000;
    for (let sent = 0; sent < count; sent += 100) {
      for (let more = 0; more < 100; more++) feed.push(line);
      await new Promise((resolve) => setImmediate(resolve));
    }
    alerts.read(true);
    const reported = (): number =>
      [...alerts.stderr.matchAll(/(\d+) alerts? w\w+ dropped because this reader/g)].reduce(
        (sum, [, number]) => sum + Number(number),
        0,
      );
    let lines = 0;
    let counted = 0;
    await alerts.until(() => {
      // In a text that grows to 20 MB, only the new part.
      for (
        let at = alerts.stdout.indexOf('\n', counted);
        at >= 0;
        at = alerts.stdout.indexOf('\n', counted)
      ) {
        lines++;
        counted = at + 1;
      }
      return lines + reported() >= 1 + count;
    });
    assert.equal(lines + reported(), 1 + count);
    assert.ok(reported() > 1000, `dropped ${reported()}`);
  });

  test('which one: what is said counts, and one thing only; else the first that is served', async () => {
    using directory = new Directory();
    const [dead, served] = [directory.at('dead'), directory.at('served')];
    await using _server = await serveFeed(new LineFeed(), served);
    assert.deepEqual(await findOrigin({}, [dead, served]), { kind: 'socket', path: served });
    assert.deepEqual(await findOrigin({ data: '/d' }, [served]), { kind: 'socket', path: '/d/alerts.sock' });
    await assert.rejects(findOrigin({ data: '/d', socket: '/s' }, []), { code: 'RAMPART_INPUT' });
    await assert.rejects(findOrigin({ data: '' }, []), { code: 'RAMPART_INPUT', message: /--data is empty/ });
  });

  for (const [what, args, code, pattern] of [
    [
      'nobody there',
      ['--socket', '/no/such.sock'],
      2,
      /the socket does not exist\. Is `rampart agent` or `rampart standalone` running/,
    ],
    ['nobody there to follow', ['-f', '--data', '/no/such'], 2, /the socket does not exist/],
    ['a bad time', ['--since', 'now'], 2, /"now" is not a time/],
    ['a bad glob', ['--path', '[x'], 2, /--path "\[x" is invalid/],
    ['a bad number', ['--tail', '-1'], 2, /must be an integer/],
    ['no such guard', ['--guard', 'network'], 2, /there is no guard "network"/],
    ['no such severity', ['--severity', 'bad'], 2, /Allowed choices are info, low, medium, high, critical/],
    ['a kubeconfig that is not there', ['--kubeconfig', '/no/such'], 2, /no\/such|no Kubernetes API/],
    ['two sources', ['--data', '/d', '--context', 'c'], 2, /--data and --context together/],
    ['no namespace', ['-n', ''], 2, /--namespace is empty/],
  ] as const) {
    test(`refused: ${what}`, async () => {
      const alerts = await commands.run(['alerts', ...args]);
      assert.equal(alerts.code, code, alerts.stderr);
      assert.equal(alerts.stdout, '');
      assert.match(alerts.stderr, pattern);
    });
  }
});

const policy = (name: string, path: string): string =>
  JSON.stringify({
    apiVersion: 'kivebpf.san7o.github.io/v1',
    kind: 'KivePolicy',
    metadata: { name, namespace: 'kivebpf-system' },
    spec: { traps: [{ path, matchAny: [{ matchLabels: { 'security-level': 'high' } }] }] },
  });

test('rampart alerts of rampart standalone: what a policy refuses, with what it finds at an audit', async () => {
  await using one = new Standalone();
  await using commands = new Commands();
  await one.start('--guards', 'policy-audit');
  await one.client.create(namespaces, { metadata: { name: 'shop' } });
  const create = (name: string) => one.client.create(configMaps, { metadata: { namespace: 'shop', name } });
  await create('bad');
  await one.client.create(
    clusterAdmissionPolicyType,
    clusterPolicy('named', { expression: "object.metadata.name == 'good'" }),
  );
  await one.until(() => one.stdout.includes('"verdict":"failing"'));
  await assert.rejects(create('worse'), /denied the request/);
  await create('good');
  await one.until(() => one.stdout.includes('"verdict":"rejected"'));
  const ofPolicy = ['alerts', '--data', one.at('data'), '--format', 'pretty', '--guard', 'policy-audit'];
  const shown = await commands.run([...ofPolicy, '--severity', 'medium', '--policy', 'named']);
  const rows = shown.stdout.split('\n').filter((row) => row.includes(' shop/'));
  assert.equal(rows.length, 2, shown.stdout);
  assert.match(rows[0] ?? '', /   failing +ConfigMap shop\/bad +no  ClusterAdmissionPolicy named$/);
  assert.match(rows[1] ?? '', /   rejected +ConfigMap shop\/worse +no  ClusterAdmissionPolicy named$/);
  const none = await commands.run([...ofPolicy, '--severity', 'high', '--policy', 'named']);
  assert.equal(none.stdout, '');
  one.alerts();
});

suite('rampart alerts of rampart standalone with real pods', { skip: sensorSkip || labObstacle() }, () => {
  test('shows accesses as they come, through filters, and over a restart of the agent', async () => {
    await using lab = await startLab();
    await using one = new Standalone();
    one.write('shadow.json', policy('shadow', '/etc/shadow'));
    one.write('passwd.json', policy('passwd', '/etc/passwd'));
    const start = (): Promise<void> =>
      one.start(
        ...['--guards', 'file-access', '--cri-socket', lab.socketPath],
        ...['-f', one.at('shadow.json'), '-f', one.at('passwd.json')],
      );
    await start();
    const pod = await lab.runPod({
      name: 'nginx-pod',
      namespace: 'shop',
      labels: { 'security-level': 'high' },
    });
    const container = pod.containers.get('nginx');
    assert.ok(container);
    const data = ['--data', one.at('data')];
    await using all = new Alerts(['-f', ...data]);
    await using passwd = new Alerts([
      '-f',
      ...data,
      '--policy',
      'passwd',
      '--pod',
      'shop/nginx-*',
      '--path',
      '/etc/**',
    ]);
    await using none = new Alerts(['-f', ...data, '--pod', 'default/*']);
    for (const alerts of [all, passwd, none]) await alerts.untilSaid(/alerts of this machine/);
    const watched = async (): Promise<void> => {
      await until('a file of each policy', async () => {
        const { items } = await one.client.list(kivePolicyType);
        return items.map((each) => statusOf(each).watchedFiles).join() === '1,1';
      });
      // Until the loader has both: what is read before is not alerted.
      await one.untilSaid(/guarding this machine with sensor mode/);
      const before = all.lines.length;
      for (let tries = 0; all.lines.length < before + 1 && tries < 200; tries++) {
        await lab.exec(container, ['cat', '/etc/shadow']);
        await new Promise((resolve) => setTimeout(resolve, 50));
      }
    };
    await watched();
    await lab.exec(container, ['cat', '/etc/passwd']);
    await passwd.until(() => passwd.lines.length > 0);
    await all.until(() => all.lines.includes(passwd.lines[0] ?? ''));
    assert.deepEqual([...new Set(passwd.alerts.map((alert) => alert.metadata.path))], ['/etc/passwd']);
    assert.equal(passwd.alerts[0]?.['kive-policy-namespace'], 'kivebpf-system');

    const before = new Set(all.lines);
    await one.stop('SIGKILL');
    for (const alerts of [all, passwd]) await alerts.untilSaid(/the agent stopped; waiting/);
    await start();
    for (const alerts of [all, passwd]) await alerts.untilSaid(/an agent is running again after [\d.]+ s/);
    await watched();
    await all.until(() => all.lines.some((line) => !before.has(line)));
    // None twice.
    assert.equal(new Set(all.lines).size, all.lines.length);
    for (const alerts of [all, passwd, none]) assert.equal(await alerts.end('SIGINT'), 0, alerts.stderr);
    assert.equal(none.stdout, '');
    assert.equal(await one.stop(), 0);
  });
});
