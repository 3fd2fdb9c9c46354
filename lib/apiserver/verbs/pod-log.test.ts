import assert from 'node:assert/strict';
import { once } from 'node:events';
import { text } from 'node:stream/consumers';
import { after, before, suite, test } from 'node:test';

import { apiErrors } from '../resources/api-error.ts';
import { container, LogServer, running, terminated } from './pod-log.fixture.ts';
import type { PodLogRequest, PodLogs } from './pod-logs.ts';

function textsOf(...texts: readonly string[]): PodLogs {
  return async () =>
    (async function* () {
      for (const one of texts) yield Buffer.from(one);
    })();
}

suite('the log of a pod', () => {
  let one: LogServer;
  before(async () => {
    one = await new LogServer().start();
    const nodeName = 'here';
    await one.createPod(
      'web',
      { nodeName, containers: [container('a')] },
      { containerStatuses: [running('a')] },
    );
    await one.createPod(
      'many',
      {
        nodeName,
        initContainers: [container('init')],
        containers: ['a', 'b', 'c', 'd', 'e', 'f'].map(container),
      },
      {
        initContainerStatuses: [running('init', { state: terminated('containerd://init-1') })],
        containerStatuses: [
          running('a', { lastState: terminated('containerd://a-before') }),
          running('b', {
            state: { waiting: { reason: 'CrashLoopBackOff' } },
            lastState: terminated('containerd://b-before'),
          }),
          running('c', { state: { waiting: { reason: 'ContainerCreating' } }, containerID: '' }),
          running('d', { state: { waiting: { reason: 'ErrImagePull' } }, containerID: '' }),
          running('e', { state: terminated(''), containerID: '' }),
        ],
      },
    );
    await one.createPod('unscheduled', { containers: [container('a')] });
  });
  after(async () => {
    await one[Symbol.asyncDispose]();
  });

  test('is text, as it comes', async () => {
    one.logs = textsOf('one\n', 'tw', '', 'o\n');
    assert.deepEqual(await one.ask(''), { code: 200, type: 'text/plain', text: 'one\ntwo\n' });
  });

  test('the options of a log request', async () => {
    one.logs = textsOf('x');
    await one.ask(
      '?follow=true&tailLines=5&limitBytes=7&timestamps=1&sinceTime=2026-01-02T03:04:05.000000006%2B01:00&pretty=true',
    );
    const { signal: _, ...asked } = one.asked.at(-1) as PodLogRequest;
    assert.deepEqual(asked, {
      namespace: 'default',
      pod: 'web',
      nodeName: 'here',
      container: 'a',
      containerId: 'containerd://a-now',
      options: {
        follow: true,
        timestamps: true,
        tailLines: 5,
        limitBytes: 7,
        sinceNs: BigInt(Date.parse('2026-01-02T02:04:05Z')) * 1_000_000n + 6n,
      },
    });
    const askedMs = Date.now();
    await one.ask('?sinceSeconds=60&follow=false');
    const { options } = one.asked.at(-1) as PodLogRequest;
    assert.equal(options.follow, false);
    const sinceMs = Number((options.sinceNs ?? 0n) / 1_000_000n);
    assert.ok(sinceMs >= askedMs - 60_000 && sinceMs <= Date.now() - 60_000);
  });

  for (const [query, id] of [
    ['?container=init', 'containerd://init-1'],
    ['?container=a', 'containerd://a-now'],
    ['?container=a&previous=true', 'containerd://a-before'],
    ['?container=b', 'containerd://b-before'],
  ] as const) {
    test(`${query} is of ${id}`, async () => {
      one.logs = textsOf('x');
      assert.equal((await one.ask(query, 'many')).code, 200);
      assert.equal(one.asked.at(-1)?.containerId, id);
    });
  }

  for (const [query, message] of [
    ['', 'a container name must be specified for pod many, choose one of: [init a b c d e f]'],
    ['?container=x', 'container x is not valid for pod many'],
    ['?container=c', 'container "c" in pod "many" is waiting to start: ContainerCreating'],
    ['?container=d', 'container "d" in pod "many" is waiting to start: image can\'t be pulled'],
    ['?container=e', 'container "e" in pod "many" is terminated'],
    ['?container=f', 'container "f" in pod "many" is not available'],
    ['?container=c&previous=true', 'previous terminated container "c" in pod "many" not found'],
    ['?container=a&tailLines=many', 'strconv.ParseInt: parsing "many": invalid syntax'],
  ] as const) {
    test(`${query || 'no container'}: ${message}`, async () => {
      assert.equal(await one.message(query, 400, 'BadRequest', 'many'), message);
    });
  }

  for (const [query, why] of [
    ['?tailLines=-1', 'tailLines: Invalid value: -1: must be greater than or equal to 0'],
    ['?limitBytes=0', 'limitBytes: Invalid value: 0: must be greater than 0'],
    ['?sinceSeconds=0', 'sinceSeconds: Invalid value: 0: must be greater than 0'],
    ['?stream=Stderr', 'stream: Forbidden: may not be specified'],
  ] as const) {
    test(`${query} is invalid`, async () => {
      assert.equal(await one.message(query, 422, 'Invalid'), `PodLogOptions "web" is invalid: ${why}`);
    });
  }

  test('a second and a time since when are one too many', async () => {
    const query = '?sinceSeconds=1&sinceTime=2026-01-02T03:04:05Z';
    assert.match(await one.message(query, 422, 'Invalid'), /at most one of `sinceTime` or `sinceSeconds`/);
  });

  test('a pod that is not there, one that runs nowhere, and other methods', async () => {
    assert.equal(await one.message('', 404, 'NotFound', 'nobody'), 'pods "nobody" not found');
    assert.deepEqual(await one.ask('', 'unscheduled'), { code: 200, type: 'text/plain', text: '' });
    const response = await one.open('POST', '/api/v1/namespaces/default/pods/web/log', {});
    assert.equal(response.statusCode, 405);
    response.resume();
  });

  test('an error before the text is the answer, a later one breaks the answer off', async () => {
    one.logs = () => Promise.reject(apiErrors.badRequest('no file'));
    assert.equal(await one.message('', 400, 'BadRequest'), 'no file');
    one.logs = async () =>
      (async function* () {
        yield Buffer.from('begun\n');
        throw new Error('the disk is gone');
      })();
    const response = await one.open('GET', '/api/v1/namespaces/default/pods/web/log');
    assert.equal(response.statusCode, 200);
    await assert.rejects(text(response), /aborted/);
  });

  test('headers come before the first line, and the client that goes ends the log', async () => {
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    one.logs = async ({ signal }) =>
      (async function* () {
        try {
          if (!signal.aborted) await once(signal, 'abort');
          yield* [];
        } finally {
          resolve();
        }
      })();
    const response = await one.open('GET', '/api/v1/namespaces/default/pods/web/log?follow=true');
    assert.equal(response.statusCode, 200);
    response.destroy();
    await ended;
  });

  test('no more is read than the client takes', async () => {
    let given = 0;
    const { promise: ended, resolve } = Promise.withResolvers<void>();
    one.logs = async () =>
      (async function* () {
        try {
          for (;;) {
            given++;
            yield Buffer.alloc(1024 * 1024);
            await new Promise((next) => setImmediate(next));
          }
        } finally {
          resolve();
        }
      })();
    const response = await one.open('GET', '/api/v1/namespaces/default/pods/web/log');
    // Until the buffers between the two are full; then it stands still.
    for (let last = -1; last !== given;) {
      last = given;
      await new Promise((next) => setTimeout(next, 100));
    }
    assert.ok(given < 100, `${given} MiB were read`);
    response.destroy();
    await ended;
  });

  test('a server that stops ends the log, as if it were at its end', async () => {
    await using other = await new LogServer().start();
    await other.createPod(
      'web',
      { nodeName: 'here', containers: [container('a')] },
      { containerStatuses: [running('a')] },
    );
    other.logs = async ({ signal }) =>
      (async function* () {
        yield Buffer.from('one\n');
        if (!signal.aborted) await once(signal, 'abort');
      })();
    const response = await other.open('GET', '/api/v1/namespaces/default/pods/web/log?follow=true');
    const whole = text(response);
    await once(response, 'readable');
    await other.server?.[Symbol.asyncDispose]();
    assert.equal(await whole, 'one\n');
  });

  test('without a source of logs, the answer says so', async () => {
    await using other = await new LogServer().start(false);
    await other.createPod(
      'web',
      { nodeName: 'there', containers: [container('a')] },
      { containerStatuses: [running('a')] },
    );
    assert.match(
      await other.message('', 500, 'InternalError'),
      /logs of pod "web" are on node "there", which this server cannot reach/,
    );
  });

  test('discovery and OpenAPI have it as Kubernetes has', async () => {
    const list = JSON.parse(await text(await one.open('GET', '/api/v1'))) as {
      resources: { name: string }[];
    };
    assert.deepEqual(
      list.resources.find(({ name }) => name === 'pods/log'),
      { name: 'pods/log', singularName: '', namespaced: true, kind: 'Pod', verbs: ['get'] },
    );
    const path = '/api/v1/namespaces/{namespace}/pods/{name}/log';
    for (const document of ['/openapi/v3/api/v1', '/openapi/v2']) {
      const { paths } = JSON.parse(await text(await one.open('GET', document))) as {
        paths: Record<string, { get: { operationId: string; parameters: { name: string }[] } }>;
      };
      const get = paths[path]?.get;
      assert.equal(get?.operationId, 'readCoreV1NamespacedPodLog');
      assert.deepEqual(get.parameters.map(({ name }) => name).toSorted(), [
        'container',
        'follow',
        'limitBytes',
        'pretty',
        'previous',
        'sinceSeconds',
        'sinceTime',
        'tailLines',
        'timestamps',
      ]);
      assert.match(JSON.stringify(get), /text\/plain/);
    }
  });
});
