import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import {
  chmodSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs';
import { mkdtempDisposable } from 'node:fs/promises';
import { get } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { promisify } from 'node:util';

import { RampartError } from '../../errors/errors.ts';
import { serveThings } from '../http/server.fixture.ts';
import { versionRoute } from '../http/version.ts';
import { prepareAccess } from './access.ts';

const loopback = { host: '127.0.0.1', port: 0 };
const temporary = () => mkdtempDisposable(join(tmpdir(), 'rampart-access-'));
const dayMs = 24 * 3600 * 1000;
const read = (dir: string, name: string): string => readFileSync(join(dir, name), 'utf8');

test('a first start makes everything, for the owner only; a second one keeps it', async () => {
  await using directory = await temporary();
  const dir = join(directory.path, 'deep', 'access');
  const access = prepareAccess({ dir, listen: loopback });
  assert.equal(access.writeKubeconfig('https://127.0.0.1:6443'), join(dir, 'kubeconfig'));
  const names = ['ca.crt', 'ca.key', 'kubeconfig', 'server.crt', 'server.key', 'token'];
  assert.deepEqual(readdirSync(dir).sort(), names);
  assert.equal(statSync(dir).mode & 0o777, 0o700);
  for (const name of names) assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600, name);
  const before = names.map((name) => read(dir, name));

  const again = prepareAccess({ dir, listen: loopback });
  again.writeKubeconfig('https://127.0.0.1:6443');
  assert.deepEqual(
    names.map((name) => read(dir, name)),
    before,
  );
});

test('only the right token is let in', async () => {
  await using directory = await temporary();
  const { authenticate } = prepareAccess({ dir: directory.path, listen: loopback });
  const token = read(directory.path, 'token').trim();
  assert.equal(Buffer.from(token, 'base64url').length, 32);
  assert.deepEqual(authenticate(`Bearer ${token}`)?.groups, ['system:masters', 'system:authenticated']);
  assert.ok(authenticate(`bearer ${token}`));
  const wrong = [
    undefined,
    '',
    token,
    `Bearer ${token} `,
    `Bearer ${token.slice(0, -1)}`,
    `Bearer ${token.slice(0, -1)}${token.endsWith('A') ? 'B' : 'A'}`,
    `Basic ${token} `,
    `Bearer ${'é'.repeat(43)}`,
    // The low byte of each of these characters is that of the token.
    `Bearer ${token.replaceAll(/./g, (char) => String.fromCharCode(char.charCodeAt(0) + 256))}`,
  ];
  for (const header of wrong) assert.equal(authenticate(header), undefined, header);
});

test('a viewer has a token and a kubeconfig of their own', async () => {
  await using directory = await temporary();
  const dir = directory.path;
  const viewer = { name: 'looker', groups: [], rules: [] };
  const { authenticate, isViewer, writeKubeconfig } = prepareAccess({ dir, listen: loopback, viewer });
  assert.equal(writeKubeconfig('https://127.0.0.1:6443'), join(dir, 'kubeconfig'));
  const [token, own] = ['token', 'viewer.token'].map((name) => read(dir, name).trim());
  assert.equal(authenticate(`Bearer ${own}`), viewer);
  assert.equal(authenticate(`Bearer ${token}`)?.name, 'kubernetes-admin');
  assert.deepEqual(
    [own, token, '', `${own}x`].map((one) => isViewer(one ?? '')),
    [true, false, false, false],
  );
  for (const name of ['viewer.token', 'viewer.kubeconfig'])
    assert.equal(statSync(join(dir, name)).mode & 0o777, 0o600, name);
  const kubeconfig = read(dir, 'viewer.kubeconfig');
  assert.ok(kubeconfig.includes(`token: "${own}"`) && kubeconfig.includes('user: looker'), kubeconfig);
  assert.ok(!kubeconfig.includes(token ?? ''));
  // A token that an earlier process has left is refused.
  const without = prepareAccess({ dir, listen: loopback });
  assert.equal(without.authenticate(`Bearer ${own}`), undefined);
  assert.equal(without.isViewer(own ?? ''), false);
});

test('the certificate is renewed when it is old or not for all hosts, the authority stays', async () => {
  await using directory = await temporary();
  const dir = directory.path;
  const at = (days: number, hosts: readonly string[] = []): string => {
    prepareAccess({ dir, listen: loopback, hosts, now: new Date(Date.now() + days * dayMs) });
    return read(dir, 'server.crt');
  };
  const first = at(0);
  const authority = read(dir, 'ca.crt');
  assert.equal(at(334), first);
  const renewed = at(336);
  assert.notEqual(renewed, first);
  const wider = at(336, ['node-1', '10.0.0.5', '2001:db8::1']);
  assert.notEqual(wider, renewed);
  assert.equal(at(337, ['node-1']), wider);
  writeFileSync(join(dir, 'server.crt'), 'nonsense');
  assert.match(at(337), /BEGIN CERTIFICATE/);
  assert.equal(read(dir, 'ca.crt'), authority);
  at(3640);
  assert.notEqual(read(dir, 'ca.crt'), authority);
});

test('files that others can read, and a broken authority, are refused with what to do', async () => {
  await using directory = await temporary();
  const dir = directory.path;
  const start = (): unknown => prepareAccess({ dir, listen: loopback });
  const refusal = (code: string, words: RegExp) => (error: unknown) =>
    error instanceof RampartError && error.code === code && words.test(error.message);
  start();
  for (const name of ['token', 'ca.key', 'server.key', 'ca.crt']) {
    chmodSync(join(dir, name), 0o640);
    assert.throws(start, refusal('RAMPART_INPUT', /others can read .*0640.*chmod 600/s), name);
    chmodSync(join(dir, name), 0o600);
  }
  const token = read(dir, 'token');
  writeFileSync(join(dir, 'token'), 'short');
  assert.throws(start, refusal('RAMPART_CORRUPT', /token/));
  writeFileSync(join(dir, 'token'), token);

  const key = read(dir, 'ca.key');
  writeFileSync(join(dir, 'ca.key'), read(dir, 'server.key'));
  assert.throws(start, refusal('RAMPART_CORRUPT', /does not match the certificate.*remove both/s));
  rmSync(join(dir, 'ca.key'));
  assert.throws(start, refusal('RAMPART_CORRUPT', /key is missing/));
  writeFileSync(join(dir, 'ca.key'), key, { mode: 0o600 });
  start();

  chmodSync(dir, 0o770);
  assert.throws(start, refusal('RAMPART_INPUT', /others can write.*chmod 700/s));
  chmodSync(dir, 0o700);
  rmSync(join(dir, 'token'));
  mkdirSync(join(dir, 'token'), { mode: 0o700 });
  assert.throws(start, refusal('RAMPART_INPUT', /not a regular file/));
});

test('no TLS but on loopback and unix sockets', async () => {
  await using directory = await temporary();
  const dir = join(directory.path, 'a');
  for (const host of ['0.0.0.0', '::', '192.0.2.1', 'example.com']) {
    assert.ok(prepareAccess({ dir, listen: { host, port: 0 } }).tls !== undefined);
    await assert.rejects(serveThings(undefined, { listen: { host, port: 0 } }), /without TLS/);
  }

  const other = join(directory.path, 'b');
  const socket = prepareAccess({ dir: other, listen: { socketPath: join(other, 's') } });
  assert.equal(socket.tls, undefined);
  assert.equal(socket.writeKubeconfig(undefined), undefined);
  assert.ok(socket.authenticate(undefined));
  assert.ok(!existsSync(other));
});

test('the kubeconfig names an address that can be called', async () => {
  await using directory = await temporary();
  const access = prepareAccess({ dir: directory.path, listen: { host: '0.0.0.0', port: 0 } });
  access.writeKubeconfig('https://0.0.0.0:6443');
  assert.match(read(directory.path, 'kubeconfig'), /server: "https:\/\/127\.0\.0\.1:6443"/);
  access.writeKubeconfig('https://[::]:6443');
  assert.match(read(directory.path, 'kubeconfig'), /server: "https:\/\/\[::1\]:6443"/);
});

test('node:https trusts the server by the authority, and no other', async () => {
  await using directory = await temporary();
  const { tls, authenticate } = prepareAccess({ dir: directory.path, listen: loopback });
  await using server = await serveThings(undefined, { tls, authenticate });
  const call = (ca: string | undefined): Promise<number | undefined> => {
    const { promise, resolve, reject } = Promise.withResolvers<number | undefined>();
    get(`${server.url}/livez`, { ca, agent: false }, (response) => {
      response.resume();
      resolve(response.statusCode);
    }).once('error', reject);
    return promise;
  };
  assert.equal(await call(read(directory.path, 'ca.crt')), 200);
  await assert.rejects(call(undefined), /unable to verify|self-signed/);
});

const kubectl = spawnSync('kubectl', ['version', '--client']).status === 0;

test('kubectl', { skip: kubectl ? false : 'there is no kubectl' }, async () => {
  await using directory = await temporary();
  const access = prepareAccess({ dir: directory.path, listen: loopback });
  await using server = await serveThings(undefined, {
    tls: access.tls,
    authenticate: access.authenticate,
    routes: [versionRoute('0.1.0')],
  });
  const kubeconfig = access.writeKubeconfig(server.url) ?? '';
  const run = async (...args: readonly string[]): Promise<string> =>
    (await promisify(execFile)('kubectl', ['--kubeconfig', kubeconfig, ...args])).stdout;
  assert.equal(await run('get', '--raw', '/livez'), 'ok');
  assert.match(await run('get', '--raw', '/version'), /"gitVersion": "v1\.35\.0\+rampart-0\.1\.0"/);
  const pod = JSON.parse(await run('get', '--raw', '/api/v1/namespaces/default/pods/web')) as object;
  assert.deepEqual(
    { ...pod, query: [] },
    { ...pod, verb: 'get', namespace: 'default', name: 'web', query: [] },
  );
  const broken = readFileSync(kubeconfig, 'utf8').replace(/token: "/, 'token: "_');
  writeFileSync(kubeconfig, broken);
  await assert.rejects(run('get', '--raw', '/version'), /Unauthorized|logged in/);
});
