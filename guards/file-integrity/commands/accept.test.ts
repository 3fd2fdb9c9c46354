/** `rampart integrity accept` as its users run it: on the embedded API, with the operator; agents are played. */
import assert from 'node:assert/strict';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, suite, test } from 'node:test';

import { until } from '../../../lib/testing/until.fixture.ts';
import { design, type FileIntegrityNodeStatus } from '../api.ts';
import {
  changedFile,
  errored,
  failed,
  succeeded,
  TestCluster,
  testNamespace,
} from '../cluster/cluster.fixture.ts';
import type { Finding } from '../model/finding.ts';
import { requestsOf } from '../results/node-requests.ts';
import type { NodeRequest } from '../results/node-result.ts';
import { type Ended, integrity, onTerminal, rampart, start } from './integrity.fixture.ts';
import { deepTest } from '../../../lib/testing/depth.fixture.ts';

const added: Finding = { ...changedFile, path: '/usr/lib/new.so', change: 'added', attributes: [] };
let cluster: TestCluster;

const accept = (...args: string[]): Promise<Ended> =>
  integrity('accept', '--kubeconfig', cluster.kubeconfig, ...args);

type Accepted = Extract<NodeRequest, { kind: 'accept' }>;

/** The request to a node, once it is there. */
async function asked(fi: string, node: string, types?: typeof design): Promise<Accepted> {
  return await until('it is asked', async () => {
    const status = await cluster.status(fi, node, types);
    return requestsOf(status?.metadata.annotations).find((request) => request.kind === 'accept');
  });
}

async function refused(running: Promise<Ended>, reported: RegExp): Promise<Ended> {
  const ended = await running;
  assert.match(ended.stderr, reported);
  assert.equal(ended.code, 2, ended.stderr);
  return ended;
}

suite('rampart integrity accept', () => {
  before(async () => {
    cluster = await TestCluster.start();
    cluster.startOperator();
    for (const name of ['n1', 'n2', 'n3']) await cluster.createNode(name);
  });
  after(() => cluster[Symbol.asyncDispose]());
  test('asks each node with findings, waits, and says what became of each', async () => {
    await cluster.createIntegrity('one');
    await cluster.report('one', 'n1', failed(1, 1, 0), {
      findings: [changedFile, added],
      omittedFindings: 0,
    });
    await cluster.report('one', 'n2', failed(0, 1, 0));
    await cluster.report('one', 'n3', succeeded);
    const running = accept('one', '-n', testNamespace, '--path', '/etc/*', '--reason', 'the update');
    const [first, second] = [await asked('one', 'n1'), await asked('one', 'n2')];
    assert.deepEqual(
      { ...first, id: '', author: '' },
      {
        ...{ kind: 'accept', id: '', path: '/etc/*', author: '', reason: 'the update' },
        seenUntilMs: changedFile.seenMs,
      },
    );
    assert.match(first.author, /\S+@\S+/);
    assert.notEqual(first.id, second.id);
    assert.deepEqual(requestsOf((await cluster.status('one', 'n3'))?.metadata.annotations), []);
    await cluster.report('one', 'n1', failed(1, 0, 0), { findings: [added], doneRequests: [first.id] });
    await cluster.report('one', 'n2', succeeded, { doneRequests: [second.id] });
    const { code, stdout, stderr } = await running;
    assert.equal(code, 0, stderr);
    assert.match(
      stdout,
      /^NODE +CHANGE +PATH +ATTRIBUTES\nn1 +changed +\/etc\/passwd +sha512\nn2 +changed +\/etc\/passwd/,
    );
    assert.doesNotMatch(stdout, /new\.so/);
    assert.match(stdout, /^n1: accepted \(1\); 1 finding is left$/m);
    assert.match(stdout, /^n2: accepted \(1\); no differences from the baseline are left$/m);
    assert.match(stderr, /asked n1, n2 to accept them, as /);
    // In an event, with who and why; and without -n the only one of this name is meant.
    await until('the event', async () =>
      (await cluster.notes('NodeIntegrityAccepted')).some((note) => note.includes('the update')),
    );
    const again = await accept('one', '--node', 'n1', '--timeout', '0', '-o', 'json');
    assert.equal(again.code, 0, again.stderr);
    const { schema, nodes } = JSON.parse(again.stdout) as Record<string, readonly Record<string, unknown>[]>;
    assert.equal(schema, 'rampart.dev/integrity-accept/v1');
    assert.deepEqual(
      nodes?.map(({ name, requested, outcome }) => [name, requested, outcome]),
      [['n1', true, null]],
    );
    assert.deepEqual((await asked('one', 'n1')).path, '');
  });

  test('a path with characters of globs is meant by itself', async () => {
    await cluster.createIntegrity('six');
    const paths = ['/srv/[id].js', '/srv/new\\012line', '/srv/other.js'];
    const findings = paths.map((path) => ({ ...changedFile, path }));
    await cluster.report('six', 'n1', failed(0, 3, 0), { findings });
    for (const path of paths.slice(0, 2)) {
      const { code, stdout, stderr } = await accept('six', '--path', path, '--timeout', '0');
      assert.equal(code, 0, stderr);
      assert.deepEqual(
        stdout.split('\n').flatMap((line) => /^n1 +changed +(\S+)/.exec(line)?.[1] ?? []),
        [path],
      );
    }
  });

  deepTest('reports what was not accepted, an error of the node, and a missing answer', async () => {
    await cluster.createIntegrity('two');
    for (const node of ['n1', 'n2', 'n3']) await cluster.report('two', node, failed(0, 1, 0));
    const running = accept('two', '--all', '--timeout', '4s');
    const [first, second] = [await asked('two', 'n1'), await asked('two', 'n2')];
    await cluster.report('two', 'n1', failed(0, 1, 0), { doneRequests: [first.id] });
    await cluster.report('two', 'n2', errored('the disk is full'), { doneRequests: [second.id] });
    const { code, stdout } = await running;
    assert.equal(code, 1);
    assert.match(stdout, /^n1: 0 of 1 accepted; still different: \/etc\/passwd$/m);
    assert.match(stdout, /^n2: it has an error: the disk is full$/m);
    assert.match(stdout, /^n3: not accepted after 4 s; its agent will still carry out the request$/m);
    assert.equal((await asked('two', 'n3')).kind, 'accept');
  });

  test('works for the other API group, and can be stopped while it waits', async () => {
    await cluster.createIntegrity('three', {}, { types: design });
    const status = {
      metadata: { name: 'three-n1', namespace: testNamespace },
      ...{ nodeName: 'n1', results: [], findings: [{ ...finding, path: '/etc/x\u001b[2J' }] },
    };
    await cluster.client.create(design.nodeStatuses, status as unknown as FileIntegrityNodeStatus);
    const running = start(rampart, [
      'integrity',
      'accept',
      '--kubeconfig',
      cluster.kubeconfig,
      'three',
      '--all',
    ]);
    await asked('three', 'n1', design);
    running.child.kill('SIGINT');
    const { code, stdout, stderr } = await running.ended;
    assert.equal(code, 1);
    assert.match(stdout, /\/etc\/x\?\[2J/);
    assert.match(stderr, /will still carry out the request/);
  });

  test('shows what it will accept; accepts all only on demand, on a terminal after a question', async () => {
    await cluster.createIntegrity('seven');
    await cluster.report('seven', 'n1', failed(0, 1, 0), { omittedFindings: 2 });
    await cluster.report('seven', 'n2', failed(0, 1, 0));
    const all = /4 findings of \S+\/seven on n1, n2/;
    const dry = await accept('seven', '--dry-run');
    assert.equal(dry.code, 0);
    assert.match(dry.stderr, /would accept 4 findings/);
    assert.match(dry.stdout, /\/etc\/passwd/);
    const { stderr } = await refused(accept('seven'), all);
    assert.match(stderr, /Narrow it with --path or --node, or use --all/);
    const args = ['integrity', 'accept', '--kubeconfig', cluster.kubeconfig, 'seven', '--timeout', '0'];
    for (const [answer, code] of [
      ['n\n', 2],
      ['y\n', 0],
    ] as const) {
      const none = requestsOf((await cluster.status('seven', 'n1'))?.metadata.annotations);
      assert.deepEqual(none, []);
      const running = onTerminal(rampart, [...args, '--node', 'n1'], answer);
      const ended = await running.ended;
      assert.match(ended.stdout, /Accept 3 findings of \S+\/seven on n1 into the baseline\? \[y\/N\]/);
      assert.equal(ended.code, code, ended.stdout);
    }
    assert.equal((await asked('seven', 'n1')).path, '');
    const yes = await onTerminal(rampart, [...args, '--node', 'n2', '--yes']).ended;
    assert.equal(yes.code, 0, yes.stdout);
  });

  test('errors: nothing is asked', async () => {
    await cluster.createIntegrity('four');
    await cluster.createNamespace('other');
    for (const namespace of [testNamespace, 'other'])
      await cluster.createIntegrity('five', {}, { namespace });
    await cluster.report('four', 'n1', failed(0, 1, 0));
    await cluster.report('four', 'n2', succeeded);
    await Promise.all([
      refused(accept('none'), /there is no FileIntegrity none.*kubectl get fileintegrities/),
      refused(accept('four', '-n', 'other'), /there is no FileIntegrity four in namespace other/),
      refused(
        accept('five'),
        /several FileIntegrities are named five: they are in the namespaces .*Give the namespace/,
      ),
    ]);
    await Promise.all([
      refused(accept('five', '-n', 'other', '--all'), /no findings .*no node has reported yet/),
      refused(accept('four', '--node', 'n2'), /no findings .* on n2: n2 is Succeeded/),
      refused(accept('four', '--node', 'n9'), /no findings .* are known on n9\. Known nodes: n1, n2/),
    ]);
    await Promise.all([
      refused(
        accept('four', '--path', '/usr/**'),
        /--path "\/usr\/\*\*" matches no finding .*: the findings are \/etc\/passwd/,
      ),
      refused(accept('four', '--path', '[a'), /has no matching \]/),
      refused(accept('four', '--path', ''), /--path is empty/),
    ]);
    await Promise.all([
      refused(accept('four', '--data', '/x'), /--kubeconfig and --data together/),
      refused(accept('four', '--timeout', 'long'), /must be a time/),
      refused(integrity('accept', 'four', '--kubeconfig', '/none'), /cannot read kubeconfig \/none: ENOENT/),
    ]);
    assert.deepEqual(requestsOf((await cluster.status('four', 'n1'))?.metadata.annotations), []);
    // A wrong token: no rights.
    const directory = mkdtempSync(join(tmpdir(), 'rampart-accept-'));
    try {
      const file = join(directory, 'kubeconfig');
      writeFileSync(file, readFileSync(cluster.kubeconfig, 'utf8').replace(/token: .*/, 'token: wrong'));
      await refused(integrity('accept', 'four', '--kubeconfig', file), /401|Unauthorized/);
    } finally {
      rmSync(directory, { recursive: true });
    }
  });
});

const finding = {
  change: 'changed',
  attributes: ['sha512'],
  seen: '2026-01-02T00:00:00.000Z',
  seenBy: 'scan',
};
