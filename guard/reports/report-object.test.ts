import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { policyReportType } from './policy-reports.ts';
import type { Report, ReportEntry } from './report-entry.ts';
import { digestOf, maxResults, maxResultsBytes, omittedProperty, reportObject } from './report-object.ts';

const entry = (path: string, more: Partial<ReportEntry> = {}): ReportEntry => ({
  source: 'rampart/test',
  policy: 'example',
  rule: 'changed',
  category: 'File integrity',
  severity: 'high',
  result: 'fail',
  message: `${path} has changed`,
  timestampMs: 1_700_000_000_250,
  properties: { path },
  ...more,
});
const report = (entries: readonly ReportEntry[], more: Partial<Report> = {}): Report => ({
  namespace: 'ns',
  name: 'example-node-1',
  scope: { apiVersion: 'v1', kind: 'Node', name: 'node-1', namespace: '' },
  entries,
  ...more,
});

suite('reports as objects', () => {
  test('contents of a report', () => {
    const owner = { apiVersion: 'g/v1', kind: 'FileIntegrity', name: 'example', uid: 'u' };
    const labels = { 'rampart.dev/node': 'node-1', 'app.kubernetes.io/managed-by': 'somebody' };
    const pod = { apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'web', uid: '' };
    const object = reportObject(
      policyReportType,
      report([entry('/etc/passwd', { subject: pod }), entry('/x', { result: 'error' })], { owner, labels }),
    );
    assert.deepEqual(object, {
      apiVersion: 'wgpolicyk8s.io/v1alpha2',
      kind: 'PolicyReport',
      metadata: {
        namespace: 'ns',
        name: 'example-node-1',
        labels: { 'rampart.dev/node': 'node-1', 'app.kubernetes.io/managed-by': 'rampart' },
        ownerReferences: [owner],
      },
      scope: { apiVersion: 'v1', kind: 'Node', name: 'node-1' },
      summary: { pass: 0, fail: 1, warn: 0, error: 1, skip: 0 },
      results: [
        {
          source: 'rampart/test',
          policy: 'example',
          rule: 'changed',
          category: 'File integrity',
          severity: 'high',
          result: 'fail',
          scored: true,
          message: '/etc/passwd has changed',
          timestamp: { seconds: 1_700_000_000, nanos: 250_000_000 },
          properties: { path: '/etc/passwd' },
          resources: [{ apiVersion: 'v1', kind: 'Pod', namespace: 'shop', name: 'web' }],
        },
        {
          source: 'rampart/test',
          policy: 'example',
          rule: 'changed',
          category: 'File integrity',
          severity: 'high',
          result: 'error',
          scored: true,
          message: '/x has changed',
          timestamp: { seconds: 1_700_000_000, nanos: 250_000_000 },
          properties: { path: '/x' },
        },
      ],
    });
  });

  test('too many entries are counted, with the number in a last result', () => {
    const many = Array.from({ length: 800 }, (_, index) => entry(`/f/${index}`));
    const passed = { ...entry('/p'), result: 'pass' } as const;
    const { summary, results } = reportObject(
      policyReportType,
      report([...many, passed], { omitted: { fail: 1000, error: 2 }, completeAt: 'ConfigMap ns/log' }),
    );
    assert.deepEqual(summary, { pass: 1, fail: 1800, warn: 0, error: 2, skip: 0 });
    assert.equal(results.length, maxResults);
    const last = results.at(-1);
    // 499 are shown of 800; 1000 and 2 were omitted before, and one has passed.
    assert.deepEqual(last?.properties, { [omittedProperty]: '1304' });
    assert.equal(last.message, '1304 more results are counted and not shown. All of them: ConfigMap ns/log.');
    assert.deepEqual([last.rule, last.result], ['omitted', 'fail']);
  });

  test('exactly as many as fit are followed by nothing', () => {
    const { results } = reportObject(
      policyReportType,
      report(Array.from({ length: maxResults - 1 }, (_, index) => entry(`/f/${index}`))),
    );
    assert.equal(results.length, maxResults - 1);
    assert.ok(results.every(({ rule }) => rule !== 'omitted'));
  });

  test('long texts are cut, and their sum is bounded', () => {
    const long = `${'é'.repeat(1022)}😀${'é'.repeat(5000)}`;
    const entries = Array.from({ length: 300 }, (_, index) =>
      entry(`/f/${index}`, { message: long, properties: { arguments: long } }),
    );
    const { results, summary } = reportObject(policyReportType, report(entries));
    assert.equal(summary.fail, 300);
    assert.ok(Buffer.byteLength(JSON.stringify(results)) <= maxResultsBytes);
    const [first] = results;
    // Not half of the emoji.
    assert.equal(first?.message, `${'é'.repeat(1022)}\u{fffd}…`);
    assert.equal(first.properties?.['arguments']?.length, 1024);
    assert.ok(Number(results.at(-1)?.properties?.[omittedProperty]) > 0);
  });

  test('the time of a pass is not a change; that of a finding is', () => {
    const digest = (one: ReportEntry): string => digestOf(reportObject(policyReportType, report([one])));
    for (const [result, isSame] of [
      ['pass', true],
      ['error', true],
      ['skip', true],
      ['fail', false],
      ['warn', false],
    ] as const) {
      const [one, later] = [entry('/a', { result }), entry('/a', { result, timestampMs: 1_800_000_000_000 })];
      assert.equal(digest(one) === digest(later), isSame, result);
      assert.notEqual(digest(one), digest(entry('/b', { result })));
    }
  });
});
