/**
 * `rampart audit -u`: a policy server of its own process evaluates, over HTTPS.
 */
import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import {
  issueAuthority,
  issueServerCertificate,
  type KeyAndCertificate,
} from '../../../../lib/x509/certificate.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { ScanCluster } from '../../scanner/scan.fixture.ts';
import { modulePath } from '../../server/policy-server.fixture.ts';
import { RampartProcess } from '../../../../apps/apiserver/rampart-process.fixture.ts';
import { type CommandEnded, Commands } from '../../../../apps/commands.fixture.ts';
import { deepTest } from '../../../../lib/testing/depth.fixture.ts';

const labels = { module: modulePath('labels.wapc'), settings: { required: ['team'] } };
const rules = [{ apiGroups: [''], apiVersions: ['v1'], resources: ['configmaps'], operations: ['CREATE'] }];

suite('rampart audit with --policy-server-url', () => {
  let cluster: ScanCluster;
  let server: RampartProcess;
  const commands = new Commands();
  let url: string;
  const at = (name: string): string => join(cluster.directory, name);
  const write = (name: string, text: string): string => {
    writeFileSync(at(name), text);
    return at(name);
  };
  const authority = (name: string): KeyAndCertificate => issueAuthority(name, { now: new Date(), days: 2 });

  before(async () => {
    cluster = await ScanCluster.start();
    await cluster.setNamespace('shop', {});
    await cluster.setObject('configmaps', 'shop', 'named', { team: 'a' });
    await cluster.setObject('configmaps', 'shop', 'nameless', {});
    await cluster.setPolicy('teams', { more: { ...labels, rules } });
    const trusted = authority('policy server');
    const { key, cert } = issueServerCertificate(trusted, ['127.0.0.1'], { now: new Date(), days: 1 });
    write('ca.pem', trusted.cert);
    write('other.pem', authority('another').cert);
    const files = ['--cert-file', write('tls.crt', cert), '--key-file', write('tls.key', key)];
    const policies = write('policies.yml', JSON.stringify({ 'clusterwide-teams': labels }));
    server = new RampartProcess([
      ...['policy-server', '--policies', policies, '--policies-download-dir', cluster.directory, ...files],
      ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
      ...['--ignore-kubernetes-connection-failure', '--kubeconfig', cluster.kubeconfig],
    ]);
    await until('the policy server is ready', () => server.stderr.includes('ready: serving '));
    const port = /"address":\{[^}]*"port":(\d+)/.exec(server.stderr)?.[1];
    url = `https://127.0.0.1:${port}`;
  });
  after(async () => {
    await commands[Symbol.asyncDispose]();
    await server[Symbol.asyncDispose]();
    await cluster[Symbol.asyncDispose]();
  });

  const run = (...args: string[]): Promise<CommandEnded> =>
    commands.run(['audit', '--disable-store', ...args], { KUBECONFIG: cluster.kubeconfig });

  test('with the authority of its certificate, or without a look at it', async () => {
    for (const args of [['-f', at('ca.pem')], ['--insecure-ssl']]) {
      const { code, stdout, stderr } = await run('-u', url, ...args);
      assert.deepEqual([code, stderr], [1, ''], stdout);
      assert.match(
        stdout,
        /^OBJECT.*\nshop ConfigMap\/nameless +clusterwide-teams +fail +label team is missing\n\n2 obj/,
      );
    }
  });

  test('with a wrong authority, or without one, it exits with 2 before it queries or writes anything', async () => {
    for (const args of [['-f', at('other.pem')], []]) {
      const { code, stdout, stderr } = await run('-u', url, ...args);
      assert.deepEqual([code, stdout], [2, '']);
      assert.match(
        stderr,
        /^rampart: the policy server at https:\/\/127\.0\.0\.1:\d+\/ could not be queried: its certificate is from an authority that is not trusted here; [^\n]*\n$/,
      );
    }
  });

  test('a policy that it does not know is an error of that policy', async () => {
    await cluster.setPolicy('unknown', { more: { rules } });
    const { code, stdout } = await run('-u', `${url}/`, '-f', at('ca.pem'), '-o');
    await cluster.deletePolicy('unknown');
    assert.equal(code, 2);
    assert.match(stdout, /it does not know the policy clusterwide-unknown/);
    assert.match(stdout, /label team is missing/);
  });

  deepTest('a server that asks for certificates of clients', async () => {
    const shown = ['--client-cert', at('client.crt'), '--client-key', at('client.key')];
    execFileSync(
      'openssl',
      [
        ...[
          'req',
          '-x509',
          '-newkey',
          'ec',
          '-pkeyopt',
          'ec_paramgen_curve:P-256',
          '-nodes',
          '-subj',
          '/CN=audit',
        ],
        ...['-addext', 'extendedKeyUsage=clientAuth', '-out', at('client.crt'), '-keyout', at('client.key')],
      ],
      { stdio: 'ignore' },
    );
    await using strict = new RampartProcess([
      ...['policy-server', '--policies', at('policies.yml'), '--policies-download-dir', cluster.directory],
      ...['--cert-file', at('tls.crt'), '--key-file', at('tls.key'), '--client-ca-file', at('client.crt')],
      ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
      ...['--ignore-kubernetes-connection-failure', '--kubeconfig', cluster.kubeconfig],
    ]);
    await until('the policy server is ready', () => strict.stderr.includes('ready: serving '));
    const port = /"address":\{[^}]*"port":(\d+)/.exec(strict.stderr)?.[1];
    const args = ['-u', `https://127.0.0.1:${port}`, '-f', at('ca.pem')];
    assert.deepEqual([(await run(...args)).code], [2]);
    const known = await run(...args, ...shown);
    assert.equal(known.code, 1, known.stderr);
  });
});
