import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, readdirSync, readlinkSync, renameSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { sensorSkip } from '../../lib/sensor/sensor.fixture.ts';
import { pods } from '../../lib/kube/object/object.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { type Lab, startLab } from '../../test/lab/lab.ts';
import { labObstacle } from '../../test/lab/obstacle.ts';
import { Standalone } from './standalone.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

/** Prints numbered lines, one each time that a file appears, and continues until it is asked to end. */
const speaker = [
  'sh',
  '-c',
  'n=0; echo started; while [ ! -e /end ]; do if [ -e /say ]; then rm /say; n=$((n+1)); echo line $n; fi; sleep 0.05; done; echo ended',
];
const says = (...lines: readonly string[]): readonly string[] => [
  'sh',
  '-c',
  `for line in ${lines.join(' ')}; do echo $line; done; sleep 1000000`,
];

suite('kubectl logs against rampart standalone', { skip: sensorSkip || labObstacle() }, () => {
  let lab: Lab;
  let one: Standalone;

  const logged = (name: string, line: string, container?: string): Promise<true> =>
    until(`${line} in the log of ${name}`, async () => {
      for await (const each of one.client.podLog({ namespace: 'default', name }, { container }))
        if (each === line) return true;
      return false;
    });

  before(async () => {
    lab = await startLab();
    one = new Standalone();
    await one.start('--guards', 'file-access', '--cri-socket', lab.socketPath);
    await lab.runPod({
      name: 'many',
      labels: { app: 'x' },
      initContainers: [{ name: 'prepare', command: ['sh', '-c', 'echo prepared'] }],
      containers: [
        { name: 'web', command: says('one', 'two', 'three') },
        { name: 'side', command: ['sh', '-c', 'echo side >&2; sleep 1000000'] },
      ],
    });
    await lab.runPod({
      name: 'single',
      labels: { app: 'x' },
      containers: [{ name: 'only', command: says('hello') }],
    });
    // A log is a file, and kubectl does not wait for what is not written yet.
    await logged('many', 'three', 'web');
    await logged('many', 'side', 'side');
    await logged('single', 'hello');
  });
  after(async () => {
    await one?.[Symbol.asyncDispose]();
    await lab?.[Symbol.asyncDispose]();
  });

  const logs = (...args: readonly string[]): string => {
    const { code, stdout, stderr } = one.kubectl('logs', ...args);
    assert.equal(code, 0, stderr);
    return stdout;
  };
  const refused = (...args: readonly string[]): string => {
    const { code, stderr } = one.kubectl('logs', ...args);
    assert.notEqual(code, 0);
    return stderr;
  };

  test('of one container, of an init container, of all', () => {
    assert.equal(logs('many', '-c', 'prepare'), 'prepared');
    // On a busy machine the mirror may learn of the init container last, and its place in the pod is the last then.
    const all = logs('many', '--all-containers');
    assert.deepEqual(all.split('\n').toSorted(), ['one', 'prepared', 'side', 'three', 'two']);
    assert.match(all, /^one\ntwo\nthree$/m);
    const prefixed = logs('-l', 'app=x', '--prefix', '--all-containers').split('\n').toSorted();
    assert.deepEqual(prefixed, [
      '[pod/many/prepare] prepared',
      '[pod/many/side] side',
      '[pod/many/web] one',
      '[pod/many/web] three',
      '[pod/many/web] two',
      '[pod/single/only] hello',
    ]);
  });

  test('a part of it', async () => {
    const web = ['many', '-c', 'web'];
    assert.equal(logs(...web, '--tail=2'), 'two\nthree');
    assert.equal(logs(...web, '--limit-bytes=6'), 'one\ntw');
    const timed = logs(...web, '--timestamps').split('\n');
    const [, time = '', rest] = /^(\S+) (.*)$/.exec(timed[1] ?? '') ?? [];
    assert.equal(rest, 'two');
    assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{9}(Z|[+-]\d\d:\d\d)$/);
    assert.equal(logs(...web, '--since-time=2000-01-01T00:00:00Z'), 'one\ntwo\nthree');
    assert.equal(logs(...web, '--since-time=2100-01-01T00:00:00Z'), '');
    assert.equal(logs(...web, '--since=1h'), 'one\ntwo\nthree');
  });

  test('what cannot be is refused in the words of Kubernetes', () => {
    assert.match(refused('nobody'), /NotFound.*pods "nobody" not found/);
    assert.match(refused('many', '-c', 'other'), /container other is not valid for pod many/);
    assert.match(
      refused('many', '-c', 'web', '--previous'),
      /BadRequest.*previous terminated container "web" in pod "many" not found/,
    );
    const raw = (query: string): string =>
      one.kubectl('get', '--raw', `/api/v1/namespaces/default/pods/many/log${query}`).stderr;
    assert.match(
      raw('?container=web&tailLines=-1'),
      /is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0/,
    );
    assert.match(raw('?container=web&sinceTime=yesterday'), /BadRequest.*parsing time "yesterday"/);
  });

  test('exec and port-forward are refused with a reason', () => {
    for (const args of [
      ['exec', 'single', '--', 'true'],
      ['port-forward', 'single', '12345:80'],
      ['attach', 'single'],
    ]) {
      const { code, stderr } = one.kubectl(...args);
      assert.notEqual(code, 0);
      assert.match(stderr, /is not served here: there is no kubelet behind this server/, args[0]);
    }
  });

  deepTest('followed while it runs, over a rotation, to its end; then the one before a restart', async () => {
    const pod = await lab.runPod({ name: 'speaker', containers: [{ name: 'c', command: speaker }] });
    const container = pod.containers.get('c');
    assert.ok(container);
    await logged('speaker', 'started');
    await using follower = follow(one, 'logs', 'speaker', '-f', '--pod-running-timeout=30s');
    await follower.until('started\n');
    const speak = (): Promise<unknown> => lab.exec(container, ['touch', '/say']);
    await speak();
    await follower.until('started\nline 1\n');

    // As a kubelet rotates (pkg/kubelet/logs/container_log_manager.go).
    const { status } = await lab.cri.call('ContainerStatus', { containerId: container.id });
    const path = status?.logPath ?? '';
    renameSync(path, `${path}.20260102-030405`);
    await speak();
    await follower.until('started\nline 1\nline 2\n');
    await lab.cri.call('ReopenContainerLog', { containerId: container.id });
    await speak();
    await follower.until('started\nline 1\nline 2\nline 3\n');

    await lab.exec(container, ['touch', '/end']);
    assert.equal(await follower.ended(), 0);
    assert.match(follower.text, /line 3\nended\n$/);
    // The container has ended, and the pod is still there.
    await until('the container to have ended', async () => {
      const { status: now } = await one.client.get(pods, { namespace: 'default', name: 'speaker' });
      return now?.containerStatuses?.[0]?.state?.terminated;
    });
    assert.match(logs('speaker'), /line 3\nended$/);

    await lab.restartContainer(pod, 'c');
    await one.kubectlUntil(['logs', 'speaker'], ({ stdout }) => stdout === 'started');
    assert.match(logs('speaker', '--previous'), /ended$/);
    const next = pod.containers.get('c');
    assert.ok(next);
    await lab.exec(next, ['touch', '/end']);
  });

  test('nothing is left open when the client of a log goes, or rampart is stopped', async () => {
    const open = (): number =>
      readdirSync(`/proc/${one.pid}/fd`).filter((fd) => {
        const link = `/proc/${one.pid}/fd/${fd}`;
        try {
          return readlinkSync(link).startsWith(join(lab.directory, ''));
        } catch {
          return false;
        }
      }).length;
    const atFirst = open();
    {
      await using follower = follow(one, 'logs', 'single', '-f');
      await follower.until('hello\n');
      assert.equal(open(), atFirst + 1);
    }
    await until('the log to be closed', () => open() === atFirst);

    await using last = follow(one, 'logs', 'single', '-f');
    await last.until('hello\n');
    assert.equal(await one.stop(), 0);
    await last.ended();
    assert.ok(existsSync(dirname(lab.socketPath)), 'the lab goes on');
  });
});

/** kubectl that goes on; killed at the end. */
function follow(one: Standalone, ...args: readonly string[]) {
  const child = spawn('kubectl', ['--kubeconfig', one.at('data/kubeconfig'), ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { PATH: process.env['PATH'], HOME: one.directory },
  });
  const closed = once(child, 'close');
  let wake = (): void => undefined;
  const self = { text: '', errors: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    self.text += text;
    wake();
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => (self.errors += text));
  return Object.assign(self, {
    async until(wanted: string): Promise<void> {
      const patience = AbortSignal.timeout(60_000);
      while (self.text !== wanted) {
        if (patience.aborted || child.exitCode !== null) {
          assert.deepEqual({ text: self.text, errors: self.errors }, { text: wanted, errors: '' });
        }
        await new Promise<void>((resolve) => {
          wake = resolve;
          setTimeout(resolve, 500);
        });
      }
    },
    async ended(): Promise<number | null> {
      await closed;
      return child.exitCode;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      child.kill('SIGKILL');
      await closed;
    },
  });
}
