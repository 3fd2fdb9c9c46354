import assert from 'node:assert/strict';
import { chmodSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import { ManualClock } from '../../time/clock.fixture.ts';
import { temporaryDirectory } from '../client/api-server.fixture.ts';
import { findClusterAccess } from './cluster-access.ts';
import { ExecCredentials, type ExecOptions } from './exec-credentials.ts';

const apiVersion = 'client.authentication.k8s.io/v1';
const signal = new AbortController().signal;

/** A plugin: a shell script. */
function plugin(directory: string, script: string): string {
  const path = join(directory, 'plugin');
  writeFileSync(path, `#!/bin/sh\n${script}\n`);
  chmodSync(path, 0o755);
  return path;
}

function credentials(command: string, more: Partial<ExecOptions> = {}): ExecCredentials {
  return new ExecCredentials({ apiVersion, command, args: [], env: {}, stderr: 'ignore', ...more });
}

const answer = (fields: object): string =>
  `echo '${JSON.stringify({ apiVersion, kind: 'ExecCredential', status: fields })}'`;

suite('exec plugins', () => {
  test('runs once for all who need it, again when it expires and when it is refused', async () => {
    using directory = temporaryDirectory();
    const clock = new ManualClock();
    const runs = join(directory.path, 'runs');
    const expirationTimestamp = new Date(clock.wallMs() + 60_000).toISOString();
    const command = plugin(
      directory.path,
      `echo x >> ${runs}; ${answer({ token: 'abc', expirationTimestamp })}`,
    );
    const exec = credentials(command, { clock });
    const count = (): number => readFileSync(runs, 'utf8').length / 2;
    const [a, b] = await Promise.all([exec.current(signal), exec.current(signal)]);
    assert.equal(a, b);
    assert.deepEqual(a, { authorization: 'Bearer abc', certificate: undefined, secrets: ['abc'] });
    await exec.current(signal);
    assert.equal(count(), 1);
    clock.advanceSync(60_000);
    const c = await exec.current(signal);
    assert.equal(count(), 2);
    exec.invalidate(a);
    // It has expired already, so it is run each time; a plugin that gives nothing better cannot be helped.
    exec.invalidate(c);
    await exec.current(signal);
    assert.equal(count(), 3);
  });

  test('without an expiry it is run once, until it is refused', async () => {
    using directory = temporaryDirectory();
    const runs = join(directory.path, 'runs');
    const exec = credentials(plugin(directory.path, `echo x >> ${runs}; ${answer({ token: 'abc' })}`));
    const first = await exec.current(signal);
    assert.equal(await exec.current(signal), first);
    exec.invalidate({ secrets: [] });
    assert.equal(await exec.current(signal), first);
    exec.invalidate(first);
    assert.notEqual(await exec.current(signal), first);
    assert.equal(readFileSync(runs, 'utf8'), 'x\nx\n');
  });

  test('from a kubeconfig: arguments, environment, cluster information, certificates', async () => {
    using directory = temporaryDirectory();
    const seen = join(directory.path, 'seen');
    const fields = { clientCertificateData: 'cert', clientKeyData: 'key' };
    plugin(
      directory.path,
      `echo "$1 $GREETING" > ${seen}; echo "$KUBERNETES_EXEC_INFO" >> ${seen}; ${answer(fields)}`,
    );
    const path = join(directory.path, 'config');
    writeFileSync(
      path,
      `current-context: m
contexts: [{name: m, context: {cluster: c, user: u}}]
clusters:
  - name: c
    cluster:
      server: https://api.test
      certificate-authority-data: ${Buffer.from('the ca').toString('base64')}
      extensions: [{name: client.authentication.k8s.io/exec, extension: {audience: us}}]
users:
  - name: u
    user:
      exec:
        apiVersion: ${apiVersion}
        command: ./plugin
        args: [login]
        env: [{name: GREETING, value: hello}]
        provideClusterInfo: true
        interactiveMode: Never`,
    );
    const current = await findClusterAccess({ path }).credentials.current(signal);
    assert.deepEqual(current.certificate, { cert: 'cert', key: 'key' });
    const [line, info] = readFileSync(seen, 'utf8').split('\n');
    assert.equal(line, 'login hello');
    assert.deepEqual(JSON.parse(info ?? ''), {
      apiVersion,
      kind: 'ExecCredential',
      spec: {
        interactive: false,
        cluster: {
          server: 'https://api.test',
          'certificate-authority-data': Buffer.from('the ca').toString('base64'),
          config: { audience: 'us' },
        },
      },
    });
  });

  test('whatever it does wrong is said, and nothing that it wrote', async () => {
    using directory = temporaryDirectory();
    const wrong: readonly (readonly [string, RegExp])[] = [
      ['echo hunter2; exit 3', /exit code 3/],
      ['echo hunter2', /not JSON/],
      ['echo null', /not an ExecCredential/],
      [`echo '{"kind":"ExecCredential","apiVersion":"hunter2"}'`, /not an ExecCredential of client.auth/],
      [answer({}), /neither a token nor a client certificate/],
      [answer({ clientKeyData: 'hunter2' }), /only one of/],
      [answer({ token: 'hunter2 ' }), /token contains invalid characters/],
      [answer({ token: 'hunter2', expirationTimestamp: 'soon' }), /not a date/],
      ['kill -9 $$', /ended by SIGKILL/],
      ['head -c 2000000 /dev/zero', /over 1048576 bytes/],
    ];
    for (const [script, expected] of wrong) {
      await assert.rejects(credentials(plugin(directory.path, script)).current(signal), (error: Error) => {
        assert.match(error.message, expected);
        assert.doesNotMatch(`${error.message} ${JSON.stringify(error)} ${error.stack}`, /hunter2/);
        return true;
      });
    }
  });

  test('a program that is not there, with its hint; one that never ends', async () => {
    const absent = credentials('/no/such/plugin', { installHint: 'Get it from the shop.' });
    await assert.rejects(absent.current(signal), /ENOENT\. Get it from the shop/);
    using directory = temporaryDirectory();
    const endless = credentials(plugin(directory.path, 'exec sleep 60'), { timeoutMs: 50 });
    await assert.rejects(endless.current(signal), /time limit: 50 ms/);
    // Its child outlives it and keeps stdout open.
    const left = credentials(plugin(directory.path, 'sleep 2 & wait'), { timeoutMs: 50 });
    await assert.rejects(left.current(signal), /time limit: 50 ms/);
  });

  test('an abort does not wait for it, and the next call gets its answer', async () => {
    using directory = temporaryDirectory();
    const exec = credentials(plugin(directory.path, `sleep 0.1; ${answer({ token: 'abc' })}`));
    const controller = new AbortController();
    const aborted = exec.current(controller.signal);
    const reason = new Error('no patience');
    controller.abort(reason);
    await assert.rejects(aborted, reason);
    assert.equal((await exec.current(signal)).authorization, 'Bearer abc');
  });
});
