// File integrity as a user of a single machine has it. No container runtime is needed.
import assert from 'node:assert/strict';
import { appendFileSync, mkdirSync, readdirSync, rmSync } from 'node:fs';
import { after, before, suite, test } from 'node:test';

import { until } from '../../lib/testing/until.fixture.ts';
import { policyReportType } from '../../guard/reports/policy-reports.ts';
import type { FindingLine } from '../../guards/file-integrity/status/finding-line-kind.ts';
import type { IntegrityReport } from '../../guards/file-integrity/status/report.ts';
import type { JsonReport } from '../status/found.fixture.ts';
import { type CommandEnded, Commands } from '../commands.fixture.ts';
import { Standalone } from './standalone.fixture.ts';

/** As people have it for FIO, with its shortest period. */
const manifest = `
apiVersion: v1
kind: Namespace
metadata: { name: guard }
---
apiVersion: v1
kind: ConfigMap
metadata: { name: conf, namespace: guard }
data:
  aide.conf: |
    /etc p+s+sha256
---
apiVersion: fileintegrity.openshift.io/v1alpha1
kind: FileIntegrity
metadata: { name: machine, namespace: guard }
spec:
  config: { name: conf, namespace: guard, key: aide.conf, gracePeriod: 10 }
`;

const commands = new Commands();
const ran = (...args: readonly string[]): Promise<CommandEnded> =>
  commands.run(args, { HOME: '/nonexistent', KUBECONFIG: undefined });

async function statusOf(one: Standalone): Promise<JsonReport> {
  const { stdout } = await ran('status', '--data', one.at('data'), '--format', 'json');
  return JSON.parse(stdout) as JsonReport;
}

async function reported(one: Standalone): Promise<IntegrityReport | undefined> {
  return (await statusOf(one)).fileIntegrities?.[0];
}

async function problems(one: Standalone): Promise<string[]> {
  return (await statusOf(one)).problems.map(({ why }) => why);
}

suite('file integrity on one machine', () => {
  after(() => commands[Symbol.asyncDispose]());
  let one: Standalone;
  const start = (): Promise<void> =>
    one.start(
      ...['-f', one.at('integrity.yaml'), '--host-root', one.at('host')],
      ...['--cri-socket', one.at('none'), '--guards', 'file-integrity'],
    );
  before(() => {
    one = new Standalone();
  });
  after(async () => {
    await one[Symbol.asyncDispose]();
  });

  test('a configuration with a mistake is told with its line; mended, it works', async () => {
    mkdirSync(one.at('host/etc'), { recursive: true });
    one.write('host/etc/passwd', 'root\n');
    one.write('host/etc/group', 'root\n');
    one.write('integrity.yaml', manifest.replace('p+s+sha256', 'p+nonsense'));
    await start();
    const wrong = await until('the error', async () => {
      const now = await reported(one);
      return now?.phase === 'Error' && now;
    });
    assert.equal(wrong.guarded, false);
    // The lease of the operator has to be renewed for that.
    await until('the line', async () => /aide\.conf:1.*nonsense/s.test((await problems(one)).join('\n')));
    one.write('integrity.yaml', manifest);
    const first = await until('the first result', async () => {
      const now = await reported(one);
      return now?.intact === true && now.phase === 'Active' && now.guarded && now;
    });
    assert.deepEqual([first.guarded, first.nodes.length, first.nodes[0]?.condition], [true, 1, 'Succeeded']);
    assert.equal(readdirSync(one.at('data/integrity')).length, 1);
  });

  test('a change is on stdout, in rampart alerts and status, in a report; a restart keeps the baseline', async () => {
    appendFileSync(one.at('host/etc/passwd'), 'eve\n');
    rmSync(one.at('host/etc/group'));
    const changed = await until('the change', async () => {
      const now = await reported(one);
      return now?.nodes[0]?.findingCount === 2 && now;
    });
    assert.equal(changed.intact, false);
    const [node] = changed.nodes;
    assert.deepEqual([node?.filesChanged, node?.filesRemoved, node?.filesAdded], [1, 1, 0]);
    assert.deepEqual(
      new Set(node?.findings.map(({ path, change, attributes }) => `${change} ${path} ${attributes.join()}`)),
      new Set(['removed /etc/group ', 'changed /etc/passwd size,sha256']),
    );
    await one.until(() => one.alerts().length >= 2);
    const lines = one.alerts() as unknown as FindingLine[];
    assert.deepEqual(
      new Set(lines.map(({ fileIntegrity, state, path }) => `${fileIntegrity} ${state} ${path}`)),
      new Set(['guard/machine found /etc/group', 'guard/machine found /etc/passwd']),
    );
    const { stdout } = await ran(
      'alerts',
      '--data',
      one.at('data'),
      '--format',
      'pretty',
      '--policy',
      'machine',
    );
    assert.match(stdout, /^\S+ {3}changed {7}\S+:\/etc\/passwd .* \(size, sha256\) {2}guard\/machine$/m);
    assert.match(stdout, /^\S+ {3}removed {7}\S+:\/etc\/group /m);
    const reports = await one.client.list(policyReportType, { namespace: 'guard' });
    assert.deepEqual(
      reports.items.map(({ summary }) => summary?.fail),
      [2],
    );
    const log = one.kubectl(
      ...['get', 'configmaps', '-n', 'guard', '-l', 'file-integrity.openshift.io/result-log'],
      ...['-o', 'jsonpath={.items[0].data.integritylog}'],
    );
    assert.match(log.stdout, /\/hostroot\/etc\/passwd/);

    assert.equal(await one.stop(), 0);
    one.write('host/etc/group', 'root\n');
    await start();
    // The baseline's content is unchanged.
    const { findings: left } = await until('one finding to be gone', async () => {
      const machine = (await reported(one))?.nodes[0];
      return machine?.findingCount === 1 && machine;
    });
    assert.equal(left[0]?.path, '/etc/passwd');
  });

  for (const [what, args, pattern] of [
    ['a root that is none', ['--host-root', '/no/such'], /--host-root "\/no\/such" is not a directory/],
    ['a rate that is none', ['--integrity-read-rate', 'fast'], /must be a number of bytes/],
    ['no threads', ['--integrity-workers', '0'], /must be a number from 1 to 64/],
  ] as const) {
    test(`refused: ${what}`, async () => assert.match((await ran('standalone', ...args)).stderr, pattern));
  }
});
