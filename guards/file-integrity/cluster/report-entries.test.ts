import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { policyReportType } from '../../../guard/reports/policy-reports.ts';
import { reportObject } from '../../../guard/reports/report-object.ts';
import { type ChangeAuthor, type Finding, noDetection } from '../model/finding.ts';
import type { NodeOutcome, NodeResult } from '../results/node-result.ts';
import { describeAuthor, integrityReport, reportEntries } from './report-entries.ts';

const author: ChangeAuthor = {
  binary: '/usr/bin/vi',
  arguments: '/etc/passwd \u001b[2J',
  cwd: '/root',
  uid: 0,
  gid: 0,
  pid: 41,
  ppid: 40,
  parentBinary: '',
  relation: 'container',
  container: { id: 'containerd://0123', name: 'main' },
  pod: { namespace: 'shop', name: 'web' },
};
const finding: Finding = {
  path: '/etc/pass\\nwd',
  change: 'changed',
  attributes: ['size', 'sha256'],
  seenMs: 1_700_000_000_000,
  seenBy: 'event',
  author,
};
const failed: NodeOutcome = {
  kind: 'failed',
  added: 0,
  changed: 1,
  removed: 0,
  log: { kind: 'plain', text: '' } as never,
};
const resultOf = (outcome: NodeOutcome, findings: readonly Finding[] = []): NodeResult => ({
  fileIntegrity: { namespace: 'ns', name: 'example' },
  nodeName: 'n1',
  sequence: 1,
  atMs: 1_700_000_100_000,
  outcome,
  findings,
  omittedFindings: 0,
  detection: { ...noDetection, reason: 'a test' },
  doneRequests: [],
});

suite('findings as entries of reports', () => {
  test('an update of a package is one entry, whatever it changed', () => {
    const update = 'tool 1.0-1 -> 1.0-2';
    const updates = [
      { update, files: 300, atMs: 1_700_000_000_000, accepted: false },
      { update: 'other 1 -> 2', files: 2, atMs: 1_700_000_000_000, accepted: true },
    ];
    const result = {
      ...resultOf(failed, [finding, { ...finding, explained: update }]),
      updates,
      omittedFindings: 301,
    };
    const report = integrityReport(result);
    assert.deepEqual(
      report.entries.map(({ rule, result: is, severity }) => [rule, is, severity]),
      [
        ['file-changed', 'fail', 'high'],
        ['package-update', 'warn', 'info'],
      ],
    );
    assert.equal(
      report.entries[1]?.message,
      '300 files differ from the baseline on node n1 by an update: tool 1.0-1 -> 1.0-2.',
    );
    assert.deepEqual(report.omitted, { fail: 2 });
  });

  test('a changed file, and who did it', () => {
    assert.deepEqual(reportEntries(resultOf(failed, [finding])), [
      {
        source: 'rampart/file-integrity',
        policy: 'example',
        rule: 'file-changed',
        category: 'File integrity',
        severity: 'high',
        result: 'fail',
        message:
          '/etc/pass\\nwd has changed (size, sha256) on node n1, by /usr/bin/vi /etc/passwd \\x1b[2J (pid 41, uid 0) in shop/web/main.',
        timestampMs: 1_700_000_000_000,
        properties: {
          node: 'n1',
          path: '/etc/pass\\nwd',
          change: 'changed',
          attributes: 'size,sha256',
          'seen-by': 'event',
          'process-binary': '/usr/bin/vi',
          'process-arguments': '/etc/passwd \\x1b[2J',
          'process-cwd': '/root',
          'process-uid': '0',
          'process-gid': '0',
          'process-pid': '41',
          'parent-pid': '40',
          'process-relation': 'container',
          'pod-namespace': 'shop',
          'pod-name': 'web',
          'container-name': 'main',
          'container-id': 'containerd://0123',
        },
      },
    ]);
  });

  test('names who changed the content first, whoever touched the file later', () => {
    const chmod = { ...author, binary: '/usr/bin/chmod', arguments: '644', pid: 99 };
    const last = { seenMs: finding.seenMs + 3000, seenBy: 'event', author: chmod } as const;
    const [before] = reportEntries(resultOf(failed, [finding]));
    const [after] = reportEntries(resultOf(failed, [{ ...finding, last }]));
    assert.equal(
      after?.message,
      before?.message.replace(
        /\.$/,
        ', touched later by /usr/bin/chmod 644 (pid 99, uid 0) in shop/web/main.',
      ),
    );
    assert.equal(after?.timestampMs, finding.seenMs);
    assert.deepEqual({ ...after?.properties, ...before?.properties }, after?.properties);
    assert.deepEqual(
      [after?.properties?.['last-process-binary'], after?.properties?.['last-seen']],
      ['/usr/bin/chmod', '2023-11-14T22:13:23.000Z'],
    );
  });

  test('a file whose author is unknown', () => {
    const { author: _nobody, ...alone } = finding;
    const [one] = reportEntries(
      resultOf(failed, [{ ...alone, change: 'added', attributes: [], seenBy: 'scan' }]),
    );
    assert.equal(one?.message, '/etc/pass\\nwd was added on node n1.');
    assert.deepEqual(one.properties, {
      node: 'n1',
      path: '/etc/pass\\nwd',
      change: 'added',
      'seen-by': 'scan',
    });
  });

  for (const [what, by, expected] of [
    ['the host', { relation: 'host' }, 'a (pid 41, uid 0)'],
    [
      'a container without a pod',
      { relation: 'container', container: { id: 'c1', name: '' } },
      'a (pid 41, uid 0) in container c1',
    ],
    ['a container that is not known', { relation: 'unknown' }, 'a (pid 41, uid 0) in an unknown container'],
    [
      'a container that no runtime has told of',
      { relation: 'unknown', container: { id: '0123456789abcdef'.repeat(4), name: '' } },
      'a (pid 41, uid 0) in unknown container 0123456789ab',
    ],
    ['a unit', { relation: 'host', unit: 'system.slice/x.service' }, 'a (pid 41, uid 0)'],
    [
      'a unit with mounts of its own',
      { relation: 'host', unit: 'system.slice/x.service', mounts: 'own' },
      'a (pid 41, uid 0) in system.slice/x.service',
    ],
    [
      'the host with mounts of its own',
      { relation: 'host', mounts: 'own' },
      'a (pid 41, uid 0) on the host, mount namespace of its own',
    ],
  ] as const) {
    test(`who it was: ${what}`, () => {
      const { container: _c, pod: _p, ...rest } = author;
      assert.equal(describeAuthor({ ...rest, binary: 'a', arguments: '', ...by }), expected);
    });
  }

  test('nothing has changed, and nothing is known', () => {
    const [passed] = reportEntries(resultOf({ kind: 'succeeded' }));
    assert.deepEqual([passed?.result, passed?.message], ['pass', 'No file of node n1 has changed.']);
    const [error] = reportEntries(resultOf({ kind: 'errored', message: 'the baseline\nis damaged' }));
    assert.deepEqual([error?.result, error?.message], ['error', 'the baseline\\nis damaged']);
    assert.equal(reportEntries(resultOf(failed))[0]?.result, 'fail');
  });

  test('no changes with unreadable files is not a pass', () => {
    const unread = { count: 1, files: [{ path: '/etc/x', reason: 'EIO: input/output error' }] };
    const reported = (result: NodeResult): readonly string[] =>
      reportEntries(result).map((entry) => `${entry.result} ${entry.message}`);
    const warning = 'warn 1 file of node n1 cannot be read: /etc/x (EIO: input/output error)';
    assert.deepEqual(reported({ ...resultOf({ kind: 'succeeded' }), unread }), [warning]);
    assert.deepEqual(reported({ ...resultOf(failed), unread }).slice(1), [warning]);
    assert.deepEqual(reported({ ...resultOf(failed, [finding]), unread }).slice(1), [warning]);
  });

  test('the report counts what the result has left out, and names the log', () => {
    const owner = { apiVersion: 'g/v1', kind: 'FileIntegrity', name: 'example', uid: 'u' };
    const { summary, results, metadata, scope } = reportObject(
      policyReportType,
      integrityReport(
        { ...resultOf(failed, [finding]), omittedFindings: 9 },
        { owner, completeAt: 'ConfigMap ns/log' },
      ),
    );
    assert.equal(summary.fail, 10);
    assert.equal(results.length, 2);
    assert.match(results[1]?.message ?? '', /^9 more results .* ConfigMap ns\/log\.$/);
    assert.deepEqual(
      [metadata.namespace, metadata.name, metadata.ownerReferences],
      ['ns', 'example-n1', [owner]],
    );
    assert.deepEqual(scope, { apiVersion: 'v1', kind: 'Node', name: 'n1' });
  });
});
