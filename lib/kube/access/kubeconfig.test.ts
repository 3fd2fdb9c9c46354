import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { temporaryDirectory } from '../client/api-server.fixture.ts';
import { findClusterAccess, inClusterAccess, kubeconfigAccess } from './cluster-access.ts';
import { loadKubeconfig, parseKubeconfig } from './kubeconfig.ts';

const signal = new AbortController().signal;

/** A kubeconfig with one context, its cluster and user as given. */
function config(cluster: string, user: string, more = ''): string {
  return `apiVersion: v1
kind: Config
current-context: main
contexts: [{name: main, context: {cluster: c, user: u}}]
clusters: [{name: c, cluster: {${cluster}}}]
users: [{name: u, user: {${user}}}]
${more}`;
}

function accessOf(
  cluster: string,
  user: string,
  env: Record<string, string> = {},
): ReturnType<typeof kubeconfigAccess> {
  return kubeconfigAccess(parseKubeconfig(config(cluster, user), '/etc/k/config'), { env });
}

suite('kubeconfig files', () => {
  test('without a kubeconfig, as in a pod, no parser is loaded', () => {
    const program = `
      const { loadKubeconfig } = await import(${JSON.stringify(import.meta.resolve('./kubeconfig.ts'))});
      const { createRequire } = await import('node:module');
      const parser = () => Object.keys(createRequire(process.argv[1] + '/').cache).some((path) => path.includes('/yaml/'));
      const [none, before] = [loadKubeconfig({ env: {}, homeDir: '/nowhere' }), parser()];
      loadKubeconfig({ path: process.argv[1] + '/config', env: {} });
      console.log(JSON.stringify([none === undefined, before, parser()]));`;
    using directory = temporaryDirectory();
    writeFileSync(join(directory.path, 'config'), config('', ''));
    const args = ['--input-type=module', '--no-warnings', '-e', program, directory.path];
    const { stdout, stderr, status } = spawnSync(process.execPath, args, {
      encoding: 'utf8',
      timeout: 60_000,
    });
    assert.equal(status, 0, stderr);
    assert.deepEqual(JSON.parse(stdout), [true, false, true]);
  });

  test('with several files, the first one with an entry defines it; missing files are skipped', () => {
    using directory = temporaryDirectory();
    const [first, second] = [join(directory.path, 'first'), join(directory.path, 'second')];
    writeFileSync(
      first,
      `contexts: [{name: a, context: {cluster: one, user: red}}]
users: [{name: red, user: {token: first}}]`,
    );
    writeFileSync(
      second,
      `current-context: b
contexts: [{name: a, context: {cluster: two}}, {name: b, context: {cluster: two, namespace: n}}]
users: [{name: red, user: {token: second, username: x}}]
clusters: [{name: two, cluster: {server: 'https://two'}}]`,
    );
    const env = { KUBECONFIG: `${first}::${join(directory.path, 'none')}:${second}` };
    const merged = loadKubeconfig({ env });
    assert.deepEqual(merged?.files, [first, second]);
    assert.equal(merged?.currentContext, 'b');
    assert.equal(merged?.contexts.get('a')?.fields.text('cluster'), 'one');
    assert.equal(merged?.users.get('red')?.fields.text('token'), 'first');
    assert.equal(merged?.users.get('red')?.fields.has('username'), false);
    const access = findClusterAccess({ env });
    assert.deepEqual([access.server.href, access.namespace], ['https://two/', 'n']);
  });

  test('~/.kube/config where KUBECONFIG is not set; a file that is named must be there', () => {
    using directory = temporaryDirectory();
    const homeDir = directory.path;
    assert.equal(loadKubeconfig({ env: {}, homeDir }), undefined);
    mkdirSync(join(homeDir, '.kube'));
    writeFileSync(join(homeDir, '.kube', 'config'), config(`server: 'https://home'`, ''));
    assert.equal(findClusterAccess({ env: {}, homeDir }).server.href, 'https://home/');
    const path = join(homeDir, 'none');
    assert.throws(() => findClusterAccess({ path, env: {}, homeDir }), { code: 'RAMPART_INPUT' });
  });

  test('names missing contexts, clusters and users, and lists those that exist', () => {
    const parse = (text: string): unknown => kubeconfigAccess(parseKubeconfig(text, 'f'));
    const text = config(`server: 'https://a'`, '');
    const parsed = parseKubeconfig(text, 'f');
    assert.throws(() => kubeconfigAccess(parsed, { context: 'x' }), /f has no context "x"\. It has: main/);
    assert.throws(() => parse('current-context: x'), /has no context "x"/);
    assert.throws(() => parse('{}'), /has no current-context/);
    assert.throws(() => parse(text.replace('cluster: c', 'cluster: d')), /has no cluster "d"\. It has: c/);
    assert.throws(() => parse(text.replace('user: u', 'user: v')), /has no user "v"\. It has: u/);
  });

  test('errors name the place, and show no value', () => {
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['token: [hunter2', /line \d+: this is not YAML/],
      ['@`hunter2', /line 1: this is not YAML. Check that it is a kubeconfig/],
      ['- hunter2', /this is not a kubeconfig/],
      ['hunter2', /this is not a kubeconfig/],
      ['users: {hunter2: 1}', /users is not a list/],
      ['users: [{name: a, user: hunter2}]', /users\[a\] is not an object/],
      ['users: [hunter2]', /users\[0\] is not an object/],
      ['users: [{user: {token: hunter2}}]', /users\[0\]\.name is missing/],
      ['contexts: *hunter2', /line 1: |aliases/],
      [config(`server: 'https://a'`, 'token: {hunter2: 1}'), /users\[u\]\.token is not a string/],
      [
        config(`server: 'https://a'`, `client-key-data: 'hunter2!'`),
        /users\[u\]\.client-key-data is not base64/,
      ],
      [config(`server: 'https://a'`, `client-key-data: 'hunter2'`), /a client-key but no client-certificate/],
      [config(`server: 'https://u:hunter2@a'`, ''), /it contains a user or a password/],
      [config(`server: hunter2`, ''), /is not an http or https address/],
      [config(`insecure-skip-tls-verify: hunter2, server: 'https://a'`, ''), /is not true or false/],
    ];
    for (const [text, expected] of wrong) {
      assert.throws(
        () => kubeconfigAccess(parseKubeconfig(text, '/etc/k/config')),
        (error: Error & { code?: string }) => {
          assert.match(error.message, expected);
          assert.match(error.message, /\/etc\/k\/config/);
          assert.doesNotMatch(JSON.stringify(error) + error.message + error.stack, /hunter2/);
          assert.equal(error.code, 'RAMPART_INPUT');
          return true;
        },
        text,
      );
    }
  });

  test('unsupported settings are reported', () => {
    const server = `server: 'https://a'`;
    const unsupported = { code: 'RAMPART_UNSUPPORTED' };
    assert.throws(() => accessOf(`${server}, proxy-url: 'socks5://p'`, ''), unsupported);
    assert.throws(() => accessOf(server, 'auth-provider: {name: gcp}'), unsupported);
    const exec = (fields: string) => () => accessOf(server, `exec: {command: x, ${fields}}`);
    assert.throws(exec('apiVersion: client.authentication.k8s.io/v1alpha1'), unsupported);
    assert.throws(exec('apiVersion: client.authentication.k8s.io/v1, interactiveMode: Always'), unsupported);
    assert.throws(
      () => accessOf(`${server}, insecure-skip-tls-verify: true, certificate-authority-data: YQ==`, ''),
      /Keep one of them/,
    );
  });

  test('cluster: its proxy, or that of the environment', () => {
    const env = { HTTPS_PROXY: 'http://e:3128', NO_PROXY: 'b' };
    const proxyOf = (fields: string): string | undefined => accessOf(fields, '', env).proxy?.href;
    assert.equal(proxyOf("server: 'https://a', proxy-url: 'http://p:3128'"), 'http://p:3128/');
    assert.equal(proxyOf("server: 'https://a'"), 'http://e:3128/');
    assert.equal(proxyOf("server: 'https://b'"), undefined);
  });

  test('cluster: paths, names, data before files, files relative to the kubeconfig', () => {
    using directory = temporaryDirectory();
    writeFileSync(join(directory.path, 'ca.crt'), 'from file');
    const cluster = `server: 'https://[::1]:6443/prefix', tls-server-name: api.test, certificate-authority: ca.crt`;
    const path = join(directory.path, 'config');
    writeFileSync(path, config(cluster, ''));
    const access = findClusterAccess({ path });
    assert.deepEqual(
      [access.server.href, access.serverName, access.ca, access.insecure, access.namespace],
      ['https://[::1]:6443/prefix', 'api.test', 'from file', false, 'default'],
    );
    const data = Buffer.from('from data').toString('base64');
    writeFileSync(path, config(`${cluster}, certificate-authority-data: ${data}`, ''));
    assert.equal(findClusterAccess({ path }).ca, 'from data');
    writeFileSync(path, config(`${cluster}, certificate-authority: none.crt`, ''));
    assert.throws(() => findClusterAccess({ path }), /line \d+: a duplicate key/);
    writeFileSync(path, config(`server: 'https://a', certificate-authority: none.crt`, ''));
    assert.throws(
      () => findClusterAccess({ path }),
      /cannot read the certificate-authority of clusters\[c\]/,
    );
  });
});

suite('users of a kubeconfig', () => {
  const server = `server: 'https://a'`;
  const credentialOf = (user: string) => accessOf(server, user).credentials.current(signal);

  test('token, user name with password, certificates, nothing', async () => {
    assert.equal((await credentialOf('token: abc')).authorization, 'Bearer abc');
    const basic = await credentialOf('username: a, password: 12');
    assert.equal(basic.authorization, `Basic ${Buffer.from('a:12').toString('base64')}`);
    const data = (text: string): string => Buffer.from(text).toString('base64');
    const both = `client-certificate-data: ${data('cert')}, client-key-data: ${data('key')}`;
    const withToken = await credentialOf(`${both}, token: abc`);
    assert.deepEqual(withToken.certificate, { cert: 'cert', key: 'key' });
    assert.equal(withToken.authorization, 'Bearer abc');
    assert.deepEqual(await credentialOf(''), { secrets: [] });
  });

  test('a token that is invalid in a header is refused without showing it', async () => {
    await assert.rejects(credentialOf(`token: "hunter2\\nx"`), (error: Error) => {
      assert.doesNotMatch(error.message, /hunter2/);
      return true;
    });
  });

  test('a token file is read again after a minute and after a refusal; gone, the last token stays', async () => {
    using directory = temporaryDirectory();
    const clock = new ManualClock();
    const path = join(directory.path, 'config');
    writeFileSync(path, config(server, 'tokenFile: token, token: fallback'));
    const { credentials } = findClusterAccess({ path, clock });
    const current = async () => (await credentials.current(signal)).authorization;
    assert.equal(await current(), 'Bearer fallback');
    const tokenFile = join(directory.path, 'token');
    writeFileSync(tokenFile, 'one\n');
    assert.equal(await current(), 'Bearer fallback');
    clock.advanceSync(60_000);
    assert.equal(await current(), 'Bearer one');
    const used = await credentials.current(signal);
    writeFileSync(tokenFile, 'two');
    clock.advanceSync(59_999);
    assert.equal(await current(), 'Bearer one');
    credentials.invalidate(used);
    assert.equal(await current(), 'Bearer two');
    credentials.invalidate(used);
    writeFileSync(tokenFile, 'three');
    assert.equal(await current(), 'Bearer two', 'a refusal of an older token changes nothing');
    writeFileSync(tokenFile, '');
    clock.advanceSync(60_000);
    assert.equal(await current(), 'Bearer fallback');
  });

  test('a certificate in files is read again; unreadable, the last one stays', async () => {
    using directory = temporaryDirectory();
    const clock = new ManualClock();
    const path = join(directory.path, 'config');
    const file = (name: string): string => join(directory.path, name);
    writeFileSync(path, config(server, 'client-certificate: a.crt, client-key: a.key'));
    const { credentials } = findClusterAccess({ path, clock });
    await assert.rejects(credentials.current(signal), { code: 'RAMPART_INPUT' });
    writeFileSync(file('a.crt'), 'cert 1');
    writeFileSync(file('a.key'), 'key 1');
    const first = await credentials.current(signal);
    assert.deepEqual(first.certificate, { cert: 'cert 1', key: 'key 1' });
    clock.advanceSync(60_000);
    assert.equal(await credentials.current(signal), first, 'the same content is the same credential');
    writeFileSync(file('a.crt'), 'cert 2');
    clock.advanceSync(60_000);
    assert.equal((await credentials.current(signal)).certificate?.cert, 'cert 2');
  });

  test('impersonation', () => {
    const user = `as: bob, as-uid: '7', as-groups: [a, b], as-user-extra: {'scopes/x': [p, q]}`;
    assert.deepEqual(accessOf(server, user).headers, {
      'impersonate-user': 'bob',
      'impersonate-uid': '7',
      'impersonate-group': ['a', 'b'],
      'impersonate-extra-scopes%2Fx': ['p', 'q'],
    });
  });
});

suite('inside of a pod', () => {
  test('address, certificate authority, namespace, and a token that is replaced', async () => {
    using directory = temporaryDirectory();
    const clock = new ManualClock();
    const env = { KUBERNETES_SERVICE_HOST: 'fd00::1', KUBERNETES_SERVICE_PORT: '443' };
    const options = { env, serviceAccountDir: directory.path, clock, homeDir: directory.path };
    assert.throws(() => inClusterAccess(options), /cannot read this pod's service account token/);
    for (const [name, text] of [
      ['token', 'one'],
      ['ca.crt', 'the ca'],
      ['namespace', 'rampart\n'],
    ] as const) {
      writeFileSync(join(directory.path, name), text);
    }
    // A pod has no contexts: another cluster than the one that was meant would be called.
    assert.throws(() => findClusterAccess({ ...options, context: 'two' }), /has no context "two"/);
    const access = findClusterAccess(options);
    assert.deepEqual([access.server.host, access.ca, access.namespace], ['[fd00::1]', 'the ca', 'rampart']);
    assert.equal((await access.credentials.current(signal)).authorization, 'Bearer one');
    writeFileSync(join(directory.path, 'token'), 'two');
    clock.advanceSync(60_000);
    assert.equal((await access.credentials.current(signal)).authorization, 'Bearer two');
  });

  test('neither a kubeconfig nor a pod', () => {
    using directory = temporaryDirectory();
    const options = { env: {}, homeDir: directory.path };
    assert.throws(() => findClusterAccess(options), /there is no \/\S+, and this is not a pod/);
    assert.throws(() => inClusterAccess(options), { code: 'RAMPART_INPUT' });
  });
});
