import assert from 'node:assert/strict';
import { once } from 'node:events';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import type { IncomingMessage, Server, ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, suite, test } from 'node:test';

import { createServer } from '../../lib/net/node-http.ts';
import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { AlertEncoder } from '../../guards/file-access/alert/alert.ts';
import { access, context } from '../../guards/file-access/alert/alert.fixture.ts';
import { type Lab, type LabContainer, startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import { Commands } from '../../apps/commands.fixture.ts';
import { Alerts } from '../../apps/alerts/alerts.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

function alertLine(node: string, second: number): string {
  return new AlertEncoder({ ...context, nodeName: node }).encode({
    ...access,
    timeNs: access.timeNs + BigInt(second) * 1_000_000_000n,
  });
}

type Answer = (request: IncomingMessage, url: URL, response: ServerResponse) => void;

/** An API server with prepared answers, and a kubeconfig for it. */
class Stub implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), 'rampart-alerts-'));
  readonly kubeconfig = join(this.directory, 'kubeconfig');
  readonly asked: URL[] = [];
  readonly #server: Server;

  private constructor(answer: Answer) {
    this.#server = createServer((request, response) => {
      const url = new URL(request.url ?? '', 'http://stub');
      this.asked.push(url);
      answer(request, url, response);
    });
  }

  static async start(answer: Answer): Promise<Stub> {
    const stub = new Stub(answer);
    stub.#server.listen(0, '127.0.0.1');
    await once(stub.#server, 'listening');
    const { port } = stub.#server.address() as AddressInfo;
    const named = (name: string, what: object): object => ({ name, ...what });
    writeFileSync(
      stub.kubeconfig,
      JSON.stringify({
        clusters: [named('c', { cluster: { server: `http://127.0.0.1:${port}` } })],
        contexts: [named('c', { context: { cluster: 'c' } })],
        'current-context': 'c',
      }),
    );
    return stub;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    rmSync(this.directory, { recursive: true, force: true });
  }
}

function json(response: ServerResponse, status: number, body: object): void {
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body));
}

const forbidden = {
  kind: 'Status',
  status: 'Failure',
  reason: 'Forbidden',
  code: 403,
  message: 'not for you',
};
const agentLabels = { 'app.kubernetes.io/name': 'rampart-agent' };
const pods = (...names: readonly string[]): object => ({
  kind: 'PodList',
  apiVersion: 'v1',
  metadata: { resourceVersion: '1' },
  items: names.map((name) => ({
    metadata: {
      ...{ name, namespace: 'rampart-system', uid: name, resourceVersion: '1' },
      labels: agentLabels,
    },
    spec: { nodeName: `on-${name}`, containers: [{ name: 'proxy' }, { name: 'agent' }] },
  })),
});

suite('rampart alerts of a cluster', () => {
  const commands = new Commands();
  after(() => commands[Symbol.asyncDispose]());

  for (const [what, args, answer, code, pattern] of [
    [
      'pods that may not be listed',
      [],
      (_request: IncomingMessage, _url: URL, response: ServerResponse) => json(response, 403, forbidden),
      2,
      /cannot list pods in namespace rampart-system: not for you \(403 Forbidden\)/,
    ],
    [
      'no agents',
      [],
      (_request: IncomingMessage, _url: URL, response: ServerResponse) => json(response, 200, pods()),
      2,
      /no agent in http:.*has no pod with the label.*For rampart standalone use --data/,
    ],
    [
      'logs that may not be read',
      ['-f'],
      (_request: IncomingMessage, url: URL, response: ServerResponse) =>
        url.pathname.endsWith('/log') ? json(response, 403, forbidden) : json(response, 200, pods('a', 'b')),
      2,
      /cannot read the log of pod rampart-system\/[ab]: not for you/,
    ],
  ] as const) {
    test(`says it: ${what}`, async () => {
      await using stub = await Stub.start(answer);
      const ended = await commands.run(['alerts', ...args, '--kubeconfig', stub.kubeconfig]);
      assert.deepEqual([ended.code, ended.stdout], [code, ''], ended.stderr);
      assert.match(ended.stderr, pattern);
    });
  }

  test('a connection that breaks in the middle of a line: each alert once, none is lost', async () => {
    const lines = Array.from({ length: 40 }, (_, index) => {
      // Several in one second, two in one moment.
      const ms = Date.UTC(2026, 10, 21, 10) + Math.floor(index / 2) * 300;
      const text = index % 5 === 3 ? `{"level":30,"msg":"line ${index}"}` : alertLine('n', index);
      return { ms, text: `${new Date(ms).toISOString()} ${text}\n` };
    });
    const expected = lines.filter(({ text }) => text.includes('kive-alert-version'));
    let followed = 0;
    await using stub = await Stub.start((_request, url, response) => {
      if (url.searchParams.has('watch'))
        return response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      if (!url.pathname.endsWith('/log')) return json(response, 200, pods('a'));
      assert.equal(url.searchParams.get('container'), 'agent');
      assert.equal(url.searchParams.get('timestamps'), 'true');
      response.writeHead(200, { 'content-type': 'text/plain' });
      if (url.searchParams.get('follow') !== 'true')
        return void response.end(
          lines
            .slice(0, 4)
            .map(({ text }) => text)
            .join(''),
        );
      const since = Date.parse(url.searchParams.get('sinceTime') ?? '');
      followed++;
      const upTo = lines.slice(0, followed * 9).filter(({ ms }) => ms >= since);
      const body = upTo.map(({ text }) => text).join('');
      if (followed * 9 >= lines.length) return void response.write(body);
      // Broken off within its last line.
      response.write(body.slice(0, -20), () => setTimeout(() => response.destroy(), 50));
    });
    await using alerts = new Alerts(['-f', '--kubeconfig', stub.kubeconfig]);
    await alerts.until(() => alerts.lines.length >= expected.length);
    assert.deepEqual(
      alerts.lines,
      expected.map(({ text }) => text.slice(text.indexOf(' ') + 1, -1)),
    );
    assert.match(alerts.stderr, /the log of a on on-a ended \(.*was interrupted.*\); retrying/);
    assert.match(alerts.stderr, /the log of a on on-a continues/);
    assert.equal(await alerts.end('SIGINT'), 0);
  });

  test('a new agent that its kubelet does not know yet is followed; one that is gone is not', async () => {
    const asked = { a: 0, b: 0 };
    const notFound = {
      kind: 'Status',
      status: 'Failure',
      reason: 'NotFound',
      code: 404,
      message: 'no such pod',
    };
    await using stub = await Stub.start((_request, url, response) => {
      if (url.searchParams.has('watch'))
        return response.writeHead(200, { 'content-type': 'application/json' }).flushHeaders();
      const log = /pods\/([ab])\/log$/.exec(url.pathname)?.[1] as 'a' | 'b' | undefined;
      if (log === undefined) {
        // b comes after the first list, and a is gone then.
        const named = url.searchParams.get('fieldSelector');
        const isFirst = named === null && asked.a === 0;
        return json(response, 200, isFirst ? pods('a') : named === 'metadata.name=a' ? pods() : pods('b'));
      }
      asked[log]++;
      if (log === 'a' || asked.b < 3) return json(response, 404, notFound);
      response.writeHead(200, { 'content-type': 'text/plain' });
      response.write(`${new Date().toISOString()} ${alertLine('b', 1)}\n`);
    });
    await using alerts = new Alerts(['-f', '--kubeconfig', stub.kubeconfig]);
    await alerts.until(() => alerts.lines.length === 1);
    assert.deepEqual(alerts.lines, [alertLine('b', 1)]);
    // Its last lines, and once to follow it.
    assert.equal(asked.a, 2);
    assert.equal(await alerts.end('SIGINT'), 0);
  });
});

/** Writes what is added to a file in it, as an agent would write it. */
const writer = ['sh', '-c', 'echo "rampart: guarding"; touch /out; tail -n +1 -f /out'];

async function write(lab: Lab, container: LabContainer, ...lines: readonly string[]): Promise<void> {
  const quoted = lines.map((line) => `'${line}'`).join(' ');
  await lab.exec(container, ['sh', '-c', `printf '%s\\n' ${quoted} >> /out`]);
}

suite('rampart alerts of the logs of real pods', { skip: sensorSkip || labObstacle() }, () => {
  deepTest(
    'alerts of all agents, in the order of time; of later agents; over restarts of an agent and of the API',
    async () => {
      await using lab = await startLab();
      await using one = new Standalone();
      const args = ['--guards', 'file-access', '--cri-socket', lab.socketPath];
      await one.start(...args);
      const logged = (name: string, wanted: string): Promise<true> =>
        until(`${wanted} in the log of ${name}`, async () => {
          for await (const each of one.client.podLog({ namespace: 'rampart-system', name }))
            if (each === wanted) return true;
          return false;
        });
      const agent = async (name: string, labels: Record<string, string> = agentLabels) => {
        const pod = await lab.runPod({
          name,
          namespace: 'rampart-system',
          labels,
          containers: [{ name: 'agent', command: writer }],
        });
        const container = pod.containers.get('agent');
        assert.ok(container);
        await logged(name, 'rampart: guarding');
        return { pod, container };
      };
      const [a, b] = [await agent('a'), await agent('b')];
      const line = alertLine;
      await write(
        lab,
        a.container,
        line('a', 0),
        '{"level":30,"msg":"a log line"}',
        line('a', 2),
        line('a', 4),
      );
      await write(lab, b.container, line('b', 1), 'rampart: LOST 3 accesses', line('b', 3));
      const kubeconfig = ['--kubeconfig', one.at('data/kubeconfig')];
      await logged('b', line('b', 3));
      await logged('a', line('a', 4));
      const operator = await agent('operator', { 'app.kubernetes.io/name': 'rampart-operator' });
      const server = await agent('policy-server-default', {
        'app.kubernetes.io/component': 'policy-server',
        'app.kubernetes.io/part-of': 'kubewarden',
      });
      const other = await agent('other', { 'app.kubernetes.io/name': 'nginx' });
      await write(lab, operator.container, line('operator', -1));
      await write(lab, server.container, line('server', -2));
      await write(lab, other.container, line('other', -3));
      await logged('operator', line('operator', -1));
      await logged('policy-server-default', line('server', -2));
      await using last = new Alerts(kubeconfig);
      assert.equal(await last.end(), 0, last.stderr);
      assert.deepEqual(last.lines, [
        ...[line('server', -2), line('operator', -1)],
        ...[line('a', 0), line('b', 1), line('a', 2), line('b', 3), line('a', 4)],
      ]);
      assert.match(
        last.stderr,
        /^rampart: alerts of 2 agents, 1 operator, 1 policy server in https:\S+, namespace rampart-system\n$/,
      );

      await using alerts = new Alerts(['-f', '--tail', '1', ...kubeconfig]);
      await alerts.until(() => alerts.lines.length === 1);
      const expected = [line('a', 4)];
      const added = async (container: LabContainer, ...lines: readonly string[]): Promise<void> => {
        await write(lab, container, ...lines);
        expected.push(...lines);
        await alerts.until(() => alerts.lines.length >= expected.length);
        assert.deepEqual(alerts.lines, expected, alerts.stderr);
      };
      await added(a.container, line('a', 5), line('a', 6));
      await added(b.container, line('b', 7));
      const c = await agent('c');
      await alerts.untilSaid(/another agent: c on/);
      await added(c.container, line('c', 8));

      const restarted = await lab.restartContainer(b.pod, 'agent');
      await alerts.untilSaid(/the log of b on \S+ ended/);
      await added(restarted, line('b', 9));
      await lab.removePod(a.pod);
      await added(c.container, line('c', 10));

      await one.stop('SIGKILL');
      await write(lab, c.container, line('c', 11));
      await alerts.untilSaid(/the log of c on \S+ ended/);
      // On another port it would be another cluster.
      const port = new URL(/in (https:\S+),/.exec(alerts.stderr)?.[1] ?? '').port;
      await one.start(...args, '--listen', `127.0.0.1:${port}`);
      expected.push(line('c', 11));
      await alerts.until(() => alerts.lines.length >= expected.length);
      await added(restarted, line('b', 12));
      assert.equal(await alerts.end('SIGINT'), 0, alerts.stderr);
      assert.equal(await one.stop(), 0);
    },
  );
});
