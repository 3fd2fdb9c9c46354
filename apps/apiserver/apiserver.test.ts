// `rampart apiserver` as its user runs it: what it prints, what it leaves, how it ends.
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { once } from 'node:events';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { after, describe, test } from 'node:test';

import { type CommandEnded, Commands } from '../commands.fixture.ts';
import { Http, RampartProcess } from './rampart-process.fixture.ts';
import { deepTest, sampled } from '../../lib/testing/depth.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';

const anyPort = ['--listen', '127.0.0.1:0'];
const needsRoot = process.geteuid?.() === 0 ? false : 'needs root';
const modeOf = (path: string): string => (statSync(path).mode & 0o777).toString(8);

const commands = new Commands();
/** For what is refused before it serves. */
const refused = (...args: string[]): Promise<CommandEnded> => commands.run(['apiserver', ...args]);

interface Listed {
  readonly metadata: { readonly resourceVersion: string };
  readonly items: readonly {
    readonly metadata: { readonly name: string; readonly resourceVersion: string };
  }[];
}

const definition = {
  apiVersion: 'apiextensions.k8s.io/v1',
  kind: 'CustomResourceDefinition',
  metadata: { name: 'widgets.example.com' },
  spec: {
    group: 'example.com',
    scope: 'Namespaced',
    names: { plural: 'widgets', singular: 'widget', kind: 'Widget' },
    versions: [
      {
        name: 'v1',
        served: true,
        storage: true,
        schema: {
          openAPIV3Schema: {
            type: 'object',
            properties: { spec: { type: 'object', properties: { size: { type: 'integer', default: 3 } } } },
          },
        },
      },
    ],
  },
};
const widgets = '/apis/example.com/v1/namespaces/default/widgets';
const configMaps = '/api/v1/namespaces/default/configmaps';

const configMap = (name: string, data: Record<string, string> = {}): object => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  metadata: { name },
  data,
});

/** Custom kinds are served a moment after their definition has been written. */
async function served(http: Http, path: string): Promise<void> {
  for (let tries = 0; ; tries++) {
    const { status } = await http.ask(path);
    if (status === 200) return;
    assert.ok(status === 404 && tries < 2000, `${path}: ${status}`);
    await new Promise((next) => void setTimeout(next, 10));
  }
}

describe('rampart apiserver', () => {
  after(() => commands[Symbol.asyncDispose]());

  test('prints the path of a kubeconfig that works; files are for their owner alone; a second server on them is refused; SIGTERM ends it with 0', async () => {
    using directory = new TemporaryDirectory();
    const data = directory.at('deep/data');
    await using server = await RampartProcess.apiServer('--data', data, ...anyPort);
    const kubeconfig = await server.ready;
    assert.equal(kubeconfig, `${data}/kubeconfig`);
    assert.equal(modeOf(data), '700');
    for (const name of readdirSync(data)) assert.equal(modeOf(`${data}/${name}`), '600', name);
    using http = Http.of(kubeconfig);
    const before = readdirSync(data).map((name) => [name, statSync(`${data}/${name}`).ino]);
    const second = await refused('--data', data, ...anyPort);
    assert.deepEqual([second.code, second.stdout], [1, '']);
    assert.match(second.stderr, new RegExp(`^rampart: .*process ${server.pid} holds it\\. .*\\n$`));
    assert.deepEqual(
      readdirSync(data).map((name) => [name, statSync(`${data}/${name}`).ino]),
      before,
    );
    await http.json(configMaps, { method: 'POST', body: configMap('a') });

    // Watches that are open must not keep it.
    const watches = await Promise.all(
      [
        `${configMaps}?watch=1`,
        '/api/v1/pods?watch=1&allowWatchBookmarks=true',
        '/api/v1/events?watch=1',
      ].map((path) => http.open(path)),
    );
    const [first] = watches;
    assert.ok(first !== undefined);
    await once(createInterface({ input: first }), 'line');
    const closed = watches.map(async (watch) => {
      watch.resume().on('error', () => undefined);
      await once(watch, 'close');
    });
    const { code, signal, stdout, stderr } = await server.stop();
    await Promise.all(closed);
    assert.deepEqual([code, signal], [0, null], stderr);
    assert.equal(stdout, `${kubeconfig}\n`);
    assert.match(stderr, /serving https:\/\/127\.0\.0\.1:\d+.*\n.*"stopping"\}\n$/);
  });

  test('an address that is in use: exit code 1, one line; --metrics: what the server did', async () => {
    await using server = await RampartProcess.apiServer('--memory', ...anyPort, '--metrics', '127.0.0.1:0');
    using http = Http.of(await server.ready);
    const { code, stdout, stderr } = await refused('--memory', '--listen', http.server.host);
    assert.deepEqual([code, stdout], [1, ''], stderr);
    assert.match(stderr, /^rampart: .*in use.*\n$/i);
    await http.json(configMaps, { method: 'POST', body: configMap('a') });
    const url = /metrics on ([^\s"]+)/.exec(server.stderr)?.[1];
    assert.ok(url !== undefined, server.stderr);
    const text = await (await fetch(url)).text();
    assert.match(text, /^# TYPE rampart_apiserver_\w+ /m);
    assert.match(text, /^rampart_apiserver_requests_total\{[^}]*\} [1-9]/m);
    assert.equal((await server.stop()).code, 0);
  });

  test('impossible options are refused with exit code 2 and one line', async () => {
    using directory = new TemporaryDirectory();
    const file = directory.at('file');
    writeFileSync(file, '');
    const open = directory.at('open');
    mkdirSync(open);
    chmodSync(open, 0o777);
    const cases: readonly (readonly [readonly string[], RegExp])[] = [
      [[], /--data DIR/],
      [['--data'], /argument missing/],
      [['--data', '', ...anyPort], /--data is empty/],
      [['--memory', '--listen', '127.0.0.1'], /"127\.0\.0\.1" is not an address/],
      [['--memory', '--listen', '127.0.0.1:65536'], /is not an address/],
      [['--memory', '--listen', '127.0.0.1:-1'], /is not an address/],
      [['--memory', '--listen', ':0'], /is not an address/],
      [['--memory', '--listen', '::1:0'], /is not an address/],
      [['--memory', '--listen', 'http://127.0.0.1:0'], /is not an address/],
      [['--memory', '--listen', ''], /is not an address/],
      [['--memory', '--socket', ''], /--socket is empty/],
      [['--memory', ...anyPort, '--host', 'no host'], /no host/],
      [['--memory', ...anyPort, '--metrics', 'nonsense'], /nonsense/],
      [['--memory', ...anyPort, '--metrics', '127.0.0.1:99999'], /99999/],
      [['--memory', ...anyPort, '--bogus'], /--bogus/],
      [['--memory', ...anyPort, 'stray'], /argument/],
      [['--data', open, ...anyPort], /others can write to it.*chmod 700/],
      [['--data', '/proc/rampart', ...anyPort], /cannot make the directory \/proc\/rampart: ENOENT.*another/],
    ];
    for (const [args, words] of sampled(cases, 3)) {
      const { code, stdout, stderr } = await refused(...args);
      const said = `${args.join(' ')}: ${stderr}`;
      assert.deepEqual([code, stdout], [2, ''], said);
      assert.match(stderr, /^rampart: [^\n]+\n$/, said);
      assert.match(stderr, words, said);
    }
    const { code, stderr } = await refused('--data', file, ...anyPort);
    assert.ok(code === 1 || code === 2, String(code));
    assert.match(stderr, /^rampart: [^\n]+\n$/);
  });

  test('a file system that is mounted read-only: exit code 2, and why', { skip: needsRoot }, async () => {
    using directory = new TemporaryDirectory();
    const data = directory.at('data');
    mkdirSync(data, { mode: 0o700 });
    execFileSync('mount', ['--bind', data, data]);
    try {
      execFileSync('mount', ['-o', 'remount,bind,ro', data]);
      for (const [path, what] of [
        [data, 'write to'],
        [join(data, 'below'), 'make'],
      ] as const) {
        const { code, stderr } = await refused('--data', path, ...anyPort);
        assert.equal(code, 2, stderr);
        assert.match(stderr, new RegExp(`^rampart: cannot ${what} the directory ${path}: EROFS[^\\n]+\\n$`));
      }
    } finally {
      execFileSync('umount', [data]);
    }
  });

  test('a restart takes no files that others can read; it keeps objects, kinds, token and authority; versions go on', async () => {
    using directory = new TemporaryDirectory();
    const data = directory.at('data');
    await using first = await RampartProcess.apiServer('--data', data, ...anyPort);
    using before = Http.of(await first.ready);
    await before.json('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
      method: 'POST',
      body: definition,
    });
    await served(before, widgets);
    const widget = { apiVersion: 'example.com/v1', kind: 'Widget', metadata: { name: 'w' }, spec: {} };
    const made = await before.json(widgets, { method: 'POST', body: widget });
    await before.json(configMaps, { method: 'POST', body: configMap('a', { b: 'c' }) });
    await before.json(configMaps, { method: 'POST', body: configMap('gone') });
    await before.json(`${configMaps}/gone`, { method: 'DELETE' });
    const listed = await before.json<Listed>(configMaps);
    assert.equal((await first.stop()).code, 0);

    // Files that others can read are not taken, and it is said how to mend it.
    for (const name of ['token', 'ca.key', 'server.key']) {
      chmodSync(`${data}/${name}`, 0o644);
      const { code, stderr } = await refused('--data', data, ...anyPort);
      assert.equal(code, 2, stderr);
      assert.match(stderr, new RegExp(`^rampart: .*${name}.*others can read.*chmod 600.*\\n$`));
      chmodSync(`${data}/${name}`, 0o600);
    }

    await using second = await RampartProcess.apiServer('--data', data, ...anyPort);
    using later = Http.of(await second.ready);
    assert.deepEqual([later.token, later.ca], [before.token, before.ca]);
    // It is ready when it says so: the kinds are there at once.
    assert.deepEqual(await later.json(`${widgets}/w`), made);
    const relisted = await later.json<Listed>(configMaps);
    assert.deepEqual(relisted.items, listed.items);
    assert.ok(BigInt(relisted.metadata.resourceVersion) >= BigInt(listed.metadata.resourceVersion));
    const next = await later.json<Listed>(configMaps, { method: 'POST', body: configMap('b') });
    assert.ok(BigInt(next.metadata.resourceVersion) > BigInt(relisted.metadata.resourceVersion));
    // A watch from a version before the restart goes on from there.
    const watch = await later.open(
      `${configMaps}?watch=1&resourceVersion=${listed.metadata.resourceVersion}`,
    );
    const [line] = (await once(createInterface({ input: watch }), 'line')) as [string];
    const event = JSON.parse(line) as { type: string; object: { metadata: { name: string } } };
    assert.deepEqual([event.type, event.object.metadata.name], ['ADDED', 'b']);
    watch.destroy();
    assert.equal((await second.stop()).code, 0);
  });

  test('--memory leaves nothing; SIGINT ends it too, and a second signal on the way does no harm', async () => {
    using directory = new TemporaryDirectory();
    mkdirSync(directory.at('tmp'));
    const server = new RampartProcess(['apiserver', '--memory', ...anyPort], { TMPDIR: directory.at('tmp') });
    await using _stopped = server;
    const kubeconfig = await server.ready;
    assert.ok(kubeconfig.startsWith(directory.at('tmp/')), kubeconfig);
    using http = Http.of(kubeconfig);
    await http.json(configMaps, { method: 'POST', body: configMap('a') });
    server.signal('SIGINT');
    server.signal('SIGTERM');
    assert.equal((await server.ended).code, 0);
    assert.deepEqual(readdirSync(directory.at('tmp')), []);
  });

  deepTest('--memory with --data keeps token and authority, but no object', async () => {
    using directory = new TemporaryDirectory();
    const data = directory.at('data');
    await using first = await RampartProcess.apiServer('--memory', '--data', data, ...anyPort);
    using before = Http.of(await first.ready);
    await before.json(configMaps, { method: 'POST', body: configMap('a') });
    await first.stop();
    assert.deepEqual(
      readdirSync(data).filter((name) => name.startsWith('api.db')),
      [],
    );
    await using second = await RampartProcess.apiServer('--memory', '--data', data, ...anyPort);
    using later = Http.of(await second.ready);
    assert.deepEqual([later.token, later.ca], [before.token, before.ca]);
    assert.deepEqual((await later.json<Listed>(configMaps)).items, []);
  });

  const servesTls = async (host: string): Promise<void> => {
    await using server = await RampartProcess.apiServer('--memory', '--listen', `${host}:0`);
    using http = Http.of(await server.ready);
    assert.equal(http.server.protocol, 'https:');
    assert.equal((await http.ask('/api/v1/namespaces')).status, 200, host);
    for (const token of [undefined, '', 'x', `${http.token ?? ''}x`]) {
      using stranger = Http.of(await server.ready, { token });
      const { status, text } = await stranger.ask('/api/v1/namespaces');
      assert.equal(status, 401);
      const { kind, reason } = JSON.parse(text) as { kind: string; reason: string };
      assert.deepEqual([kind, reason], ['Status', 'Unauthorized']);
      assert.equal((await stranger.ask('/apis')).status, 401);
      assert.equal((await stranger.ask('/openapi/v2')).status, 401);
      assert.equal((await stranger.ask('/readyz')).status, 200);
    }
    // Without TLS, the token could be overheard.
    const plain = await fetch(`http://${http.server.host}/api`, {
      headers: { authorization: `Bearer ${http.token ?? ''}` },
    }).then(
      ({ status }) => status,
      () => 'closed',
    );
    assert.ok(plain === 'closed' || plain === 400, String(plain));
  };

  test('all interfaces serve TLS and ask for the token', () => servesTls('0.0.0.0'));

  for (const host of ['127.0.0.2', '[::1]'])
    deepTest(`${host} serves TLS and asks for the token`, () => servesTls(host));

  test('--socket: for its owner alone; one that a killed server left is taken over, another file is not; it is gone at the end', async () => {
    using directory = new TemporaryDirectory();
    const socket = directory.at('api.sock');
    await using server = await RampartProcess.apiServer('--data', directory.at('data'), '--socket', socket);
    assert.equal(await server.ready, socket);
    assert.equal(modeOf(socket), '600');
    using http = Http.onSocket(socket);
    await http.json(configMaps, { method: 'POST', body: configMap('a') });
    assert.deepEqual(
      (await http.json<Listed>(configMaps)).items.map(({ metadata }) => metadata.name),
      ['a'],
    );
    const second = await refused('--memory', '--socket', socket);
    assert.equal(second.code, 1);
    assert.match(second.stderr, /^rampart: [^\n]*in use[^\n]*\n$/i);
    assert.equal((await http.ask('/api')).status, 200);

    // One that a killed server left is taken over; another file is not.
    await server.kill();
    assert.ok(existsSync(socket));
    await using next = await RampartProcess.apiServer('--memory', '--socket', socket);
    using again = Http.onSocket(socket);
    assert.equal((await again.ask('/api')).status, 200);
    assert.equal((await next.stop()).code, 0);
    assert.ok(!existsSync(socket));
    writeFileSync(socket, 'mine');
    const { code, stderr } = await refused('--memory', '--socket', socket);
    assert.ok(code === 1 || code === 2);
    assert.match(stderr, /^rampart: [^\n]+\n$/);
    assert.equal(readFileSync(socket, 'utf8'), 'mine');
  });
});
