// The decisions of the operator, without an API.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { type FileIntegrity, type FileIntegrityNodeStatus, names } from '../api.ts';
import { requestAnnotation } from '../results/node-requests.ts';
import { anyResult } from '../results/node-result.fixture.ts';
import type { NodeResult } from '../results/node-result.ts';
import { confSourceOf, effectiveConf } from './effective-conf.ts';
import {
  type IntegrityFacts,
  isSameState,
  isSameStatus,
  maxNodeStatus,
  phaseOf,
  statusOf,
} from './integrity-status.ts';
import { ClusterMetrics } from './metrics.ts';
import { reinitCount, reinitOf } from './reinit.ts';
import { annotationsAfter, isNewer, takeResult } from './taken-result.ts';

const clock = { wallMs: () => Date.UTC(2026, 0, 1) };
const integrity = (annotations: Record<string, string> = {}, config = {}): FileIntegrity => ({
  metadata: { namespace: 'ns', name: 'fi', uid: 'u', generation: 1, annotations },
  spec: { config: { gracePeriod: 900, maxBackups: 5, ...config }, provider: 'native', tolerations: [] },
});

suite('a result', () => {
  test('after any results there is one of each condition at most, and the last one is the latest', () => {
    fc.assert(
      fc.property(fc.array(anyResult(), { minLength: 1, maxLength: 8 }), (results) => {
        let known: FileIntegrityNodeStatus | undefined;
        for (const result of results) known = { metadata: {}, ...takeResult(result, known).fields };
        const conditions = (known?.results ?? []).map(({ condition }) => condition);
        assert.equal(new Set(conditions).size, conditions.length);
        assert.deepEqual(known?.results.at(-1), known?.lastResult);
        assert.equal(known?.sequence, results.at(-1)?.sequence);
        // A result with an older baseline says nothing about the files.
        const isRefused = /older baseline/.test(known?.lastResult?.errorMessage ?? '');
        assert.equal(known?.findings?.length ?? 0, isRefused ? 0 : results.at(-1)?.findings.length);
        const made = results.flatMap(({ baseline }) => (baseline ? [baseline.madeAtMs] : []));
        const newest = known?.baseline && Date.parse(known.baseline.created);
        assert.equal(newest, made.length === 0 ? undefined : Math.max(...made));
      }),
    );
  });

  test('the same state is reported once', () => {
    fc.assert(
      fc.property(anyResult(), fc.nat(), (result, laterMs) => {
        const first = takeResult(result, undefined);
        assert.ok(first.isTransition);
        const known = { metadata: {}, ...first.fields };
        const again = { ...result, sequence: result.sequence + 1, atMs: result.atMs + laterMs };
        assert.equal(takeResult(again, known).isTransition, false);
      }),
    );
  });

  test('unreadable files are in the status, and reported at their beginning and end', () => {
    const [sample] = fc.sample(anyResult({ kind: 'succeeded' }), { numRuns: 1, seed: 1 });
    assert.ok(sample);
    const { unread: _, ...well } = { ...sample, nodeName: 'n1', doneRequests: [] };
    const files = [{ path: '/etc/x', reason: 'EACCES: permission denied' }];
    const some = { ...well, unread: { count: 2, files } };
    const reported = (result: NodeResult, known?: FileIntegrityNodeStatus): readonly string[] =>
      takeResult(result, known)
        .notes.filter(({ reason }) => reason === 'NodeIntegrityUnread')
        .map(({ type, note }) => `${type} ${note}`);
    const before = { metadata: {}, ...takeResult(well, undefined).fields };
    const after = { metadata: {}, ...takeResult(some, before).fields };
    assert.equal(after.lastResult?.condition, 'Succeeded');
    assert.deepEqual(after.unread, some.unread);
    assert.equal(before.unread, undefined);
    assert.deepEqual(reported(some, before), [
      'Warning 2 files of node n1 cannot be read: /etc/x (EACCES: permission denied), ...',
    ]);
    assert.deepEqual(reported({ ...some, unread: { count: 1, files } }, after), []);
    assert.deepEqual(reported(well, after), ['Normal all files of node n1 can be read again']);
    assert.deepEqual(reported(well), []);
    assert.deepEqual(reported({ ...well, outcome: { kind: 'errored', message: 'x' } }, after), []);
  });

  test('other files with the same counts are reported', () => {
    const [sample] = fc.sample(anyResult({ kind: 'failed' }), { numRuns: 1, seed: 1 });
    assert.ok(sample);
    const of = (path: string): NodeResult => ({
      ...sample,
      findings: [{ path, change: 'added', attributes: [], seenMs: 0, seenBy: 'scan' }],
    });
    const known = { metadata: {}, ...takeResult(of('/a'), undefined).fields };
    assert.equal(takeResult(of('/a'), known).isTransition, false);
    assert.equal(takeResult(of('/b'), known).isTransition, true);
  });

  test('the result with the larger sequence is newer, unless a node starts counting again', () => {
    const known = (sequence: number, lastProbeTime: string) =>
      ({ sequence, lastResult: { condition: 'Succeeded', lastProbeTime } }) as const;
    const at = '2026-01-01T00:00:10Z';
    const atMs = Date.parse(at);
    assert.ok(isNewer({ sequence: 0, atMs }, undefined, atMs));
    assert.ok(isNewer({ sequence: 6, atMs }, known(5, at), atMs));
    assert.ok(isNewer({ sequence: 6, atMs: 0 }, known(5, at), atMs));
    assert.ok(!isNewer({ sequence: 5, atMs: atMs + 5000 }, known(5, at), atMs));
    assert.ok(!isNewer({ sequence: 4, atMs: atMs + 999 }, known(5, at), atMs));
    assert.ok(isNewer({ sequence: 4, atMs: atMs + 1000 }, known(5, at), atMs));
    // The clock of the node was wrong, and what it knew is gone.
    const ahead = known(5, '2027-01-01T00:00:00Z');
    assert.ok(isNewer({ sequence: 4, atMs }, ahead, atMs));
    assert.ok(!isNewer({ sequence: 5, atMs }, ahead, atMs));
  });

  test('requests go when they are done, and nothing else goes', () => {
    const reinit = { kind: 're-init', id: 'a', by: 'annotation' } as const;
    const accept = { kind: 'accept', id: 'b', path: '', author: 'me', reason: 'r' } as const;
    const annotations = { ...requestAnnotation(reinit), ...requestAnnotation(accept), other: 'x' };
    assert.deepEqual(annotationsAfter(annotations, [reinit]), { ...requestAnnotation(accept), other: 'x' });
    assert.deepEqual(annotationsAfter(undefined, [reinit]), {});
  });
});

suite('re-init', () => {
  const status = (nodeName: string, condition: 'Failed' | 'Succeeded' | 'Errored') => ({
    nodeName,
    lastResult: { condition, lastProbeTime: '' },
  });

  test('whole names, once each, and the same ids for the same asking', () => {
    const asked = integrity({ [names.reinit]: 'n1,n10,,n1, gone' });
    const reinit = reinitOf(asked, ['n1', 'n10', 'n100'], []);
    assert.deepEqual(
      reinit?.requests.map(({ nodeName }) => nodeName),
      ['n1', 'n10'],
    );
    assert.deepEqual(reinit.unknown, ['gone']);
    assert.deepEqual(reinitOf(asked, ['n1', 'n10', 'n100'], []), reinit);
    assert.deepEqual(reinit.annotations, {
      [names.reinit]: null,
      [names.reinitOnFailed]: null,
      [reinitCount]: '1',
    });
    const next = reinitOf(integrity({ [names.reinit]: 'n1,n10,,n1, gone', [reinitCount]: '1' }), ['n1'], []);
    assert.notEqual(next?.requests[0]?.request.id, reinit.requests[0]?.request.id);
  });

  test('nothing asked; all; the failed ones; both; a list of nothing', () => {
    const statuses = [
      status('a', 'Failed'),
      status('b', 'Succeeded'),
      status('c', 'Errored'),
      status('x', 'Failed'),
    ];
    const of = (annotations: Record<string, string>): string[] | undefined =>
      reinitOf(integrity(annotations), ['a', 'b', 'c'], statuses)
        ?.requests.map(({ nodeName }) => nodeName)
        .sort();
    assert.equal(of({}), undefined);
    assert.deepEqual(of({ [names.reinit]: '' }), ['a', 'b', 'c']);
    assert.deepEqual(of({ [names.reinitOnFailed]: '' }), ['a']);
    assert.deepEqual(of({ [names.reinitOnFailed]: '', [names.reinit]: 'b' }), ['a', 'b']);
    assert.deepEqual(of({ [names.reinit]: ',' }), []);
  });
});

suite('the status', () => {
  const ok = { isUsable: true, reason: 'Default', message: '' };
  const node = (nodeName: string, condition?: 'Failed' | 'Succeeded' | 'Errored', annotations = {}) => {
    const results = condition === undefined ? [] : [{ condition, lastProbeTime: '2026-01-01T00:00:00Z' }];
    const [lastResult] = results;
    return { metadata: { annotations }, nodeName, results, ...(lastResult && { lastResult }) };
  };
  const asked = requestAnnotation({ kind: 're-init', id: 'a', by: '' });
  const accepting = requestAnnotation({ kind: 'accept', id: 'a', path: '', author: '', reason: '' });
  const phases: readonly (readonly [string, string, IntegrityFacts])[] = [
    ['no node', 'Pending', { configured: ok, nodeNames: [], statuses: [] }],
    ['a bad configuration', 'Error', { configured: { ...ok, isUsable: false }, nodeNames: [], statuses: [] }],
    [
      'no result yet',
      'Initializing',
      { configured: ok, nodeNames: ['a', 'b'], statuses: [node('a', 'Failed'), node('b')] },
    ],
    ['all answered', 'Active', { configured: ok, nodeNames: ['a'], statuses: [node('a', 'Failed')] }],
    ['an error', 'Error', { configured: ok, nodeNames: ['a', 'b'], statuses: [node('a', 'Errored')] }],
    [
      'a re-init',
      'Initializing',
      { configured: ok, nodeNames: ['a'], statuses: [node('a', 'Errored', asked)] },
    ],
    [
      'a result of another configuration',
      'Initializing',
      {
        ...{ configured: ok, nodeNames: ['a'], configuration: 'native-1' },
        statuses: [{ ...node('a', 'Failed'), configuration: 'native-0' }],
      },
    ],
    [
      'a result of an agent that does not tell its configuration',
      'Active',
      { configured: ok, nodeNames: ['a'], configuration: 'native-1', statuses: [node('a', 'Failed')] },
    ],
    [
      'something accepted',
      'Active',
      { configured: ok, nodeNames: ['a'], statuses: [node('a', 'Failed', accepting)] },
    ],
  ];
  for (const [name, phase, facts] of phases)
    test(`${name}: ${phase}`, () => assert.equal(phaseOf(facts), phase));

  test('it is complete when every node could read all', () => {
    const unread = { count: 1, files: [] };
    const complete = (...statuses: FileIntegrityNodeStatus[]): string | undefined => {
      const status = statusOf(integrity(), { configured: ok, nodeNames: ['a', 'b'], statuses }, clock);
      const found = status.conditions?.find(({ type }) => type === 'Complete');
      return found && `${found.status} ${found.reason} ${found.message}`;
    };
    assert.match(complete() ?? '', /^Unknown NotScanned /);
    assert.match(complete(node('a', 'Succeeded'), node('b')) ?? '', /^Unknown NotScanned /);
    assert.equal(complete(node('a', 'Succeeded'), node('b', 'Failed')), 'True AllFilesRead ');
    assert.equal(
      complete(node('a', 'Succeeded', asked), node('b', 'Failed')),
      'Unknown NewBaseline A new baseline is being made: a.',
    );
    assert.match(
      complete(node('a', 'Succeeded'), { ...node('b', 'Succeeded'), unread }) ?? '',
      /^False FilesUnread .* on b:/,
    );
    assert.match(complete(node('a', 'Errored'), node('b', 'Failed')) ?? '', /^False FilesUnread .* on a:/);
  });

  test('with many nodes, keeps present problems and counts the rest', () => {
    const statuses = Array.from({ length: 3000 }, (_, at) =>
      node(`n${at}`, at % 1000 === 999 ? 'Failed' : 'Succeeded'),
    );
    const facts = { configured: ok, nodeNames: statuses.map(({ nodeName }) => nodeName), statuses };
    const status = statusOf(integrity(), facts, clock);
    assert.equal(status.nodeStatus?.length, maxNodeStatus);
    assert.equal(status.omittedNodeStatus, 2000);
    assert.equal(status.nodeStatus.filter(({ condition }) => condition === 'Failed').length, 3);
    assert.ok(JSON.stringify(status).length < 300_000);
  });

  test('long errors of many nodes fit into one object; the nodes have them whole', () => {
    const message = `line 1: ${'é'.repeat(16_000)}`;
    const statuses = Array.from({ length: maxNodeStatus }, (_, at): FileIntegrityNodeStatus => {
      const lastResult = { condition: 'Errored', lastProbeTime: '', errorMessage: message } as const;
      return { metadata: {}, nodeName: `n${at}`, results: [lastResult], lastResult };
    });
    const facts = { configured: ok, nodeNames: statuses.map(({ nodeName }) => nodeName), statuses };
    const { nodeStatus = [] } = statusOf(integrity(), facts, clock);
    assert.match(nodeStatus[0]?.errorMessage ?? '', /^line 1: é+…$/);
    assert.ok(Buffer.byteLength(JSON.stringify(nodeStatus)) < 1_000_000);
  });

  test('another time of a probe is the same state, and another status', () => {
    const of = (lastProbeTime: string) => {
      const result = { condition: 'Succeeded', lastProbeTime } as const;
      const statuses = [{ metadata: {}, nodeName: 'n', results: [result], lastResult: result }];
      return statusOf(integrity(), { configured: ok, nodeNames: ['n'], statuses }, clock);
    };
    const [a, b] = [of('2026-01-01T00:00:00Z'), of('2026-01-01T00:00:01Z')];
    assert.ok(isSameState(a, b));
    assert.ok(!isSameStatus(a, b));
    assert.ok(isSameStatus(a, JSON.parse(JSON.stringify(a))));
    assert.ok(!isSameState({ ...a, phase: 'Error' }, a));
    assert.ok(!isSameState(undefined, a));
  });
});

suite('configurations', () => {
  const of = (text: string, provider: 'native' | 'aide' = 'native') =>
    effectiveConf('ConfigMap ns/c, k', text, provider);
  const db = 'database_in=file:/x\n';

  test('an undefined group is an error, unless a node may know it', () => {
    const bad = of(`${db}/etc Group\n`);
    assert.ok(bad.kind === 'error');
    assert.match(bad.message, /ConfigMap ns\/c, k:2:/);
    assert.equal(of(`${db}@@include /etc/aide.d\n/etc Group\n`).kind, 'conf');
    assert.equal(of(`${db}@@if hostname n1\nGroup=p\n@@endif\n/etc Group\n`).kind, 'conf');
  });

  test('errors quote the line that the user wrote, and where it is', () => {
    const bad = of(`${db}verbose=5\n/etc p+md5\nA = p+md5+sha1\n/usr Other+md5\n`);
    assert.ok(bad.kind === 'error');
    assert.match(bad.message, /ConfigMap ns\/c, k:5:6: .*'Other'.* \(line '\/usr Other\+md5'\)/);
    assert.doesNotMatch(bad.message, /sha256|hostroot/);
    const regex = of(`${db}verbose=5\n/etc md5\n/etc/(?=a)b rmd160\n`);
    assert.ok(regex.kind === 'error');
    assert.match(regex.message, /ConfigMap ns\/c, k:4:.*\(line '\/etc\/\(\?=a\)b rmd160'\)/);
    assert.doesNotMatch(regex.message, /sha256|hostroot/);
  });

  test('an expression that only AIDE knows is an error for our engine alone', () => {
    assert.equal(of(`${db}/etc/(?=a)b p\n`).kind, 'error');
    assert.equal(of(`${db}/etc/(?=a)b p\n`, 'aide').kind, 'conf');
  });

  test('reports replaced values, and refuses unfitting ones', () => {
    const md5 = of(`${db}/etc md5\n`);
    assert.ok(md5.kind === 'conf' && md5.warnings.length === 1);
    assert.equal(of(`${db}${'# a comment\n'.repeat(100_000)}`).kind, 'error');
    assert.equal(of('not at all = aide.conf {').kind, 'error');
  });

  test('where it is: the namespace of the FileIntegrity, and aide.conf, where nothing is said', () => {
    assert.equal(confSourceOf(integrity({}, {})), undefined);
    assert.equal(confSourceOf(integrity({}, { namespace: 'x', key: 'k' })), undefined);
    assert.deepEqual(confSourceOf(integrity({}, { name: 'c' })), {
      namespace: 'ns',
      name: 'c',
      key: 'aide.conf',
    });
  });
});

test('reasons of errors are words, and do not make labels without end', async () => {
  const metrics = await createMetrics();
  const counts = new ClusterMetrics();
  counts.register(metrics);
  for (let at = 0; at < 1000; at++)
    counts.transition('Errored', 'n1', `Reason${String.fromCharCode(65 + (at % 26)).repeat(1 + at / 26)}`);
  counts.transition('Errored', 'n1', 'a sentence: with a path');
  const lines =
    metrics.registry.metrics().match(/^file_integrity_operator_node_status_error_total\{.*$/gm) ?? [];
  assert.equal(lines.length, 101);
  assert.ok(lines.includes('file_integrity_operator_node_status_error_total{error="Other",node="n1"} 901'));
});
