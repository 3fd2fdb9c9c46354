import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { findingLine } from '../../guard/stream/finding.ts';
import { programFindingLine } from '../../guards/bpf-programs/findings/program-finding.ts';
import { AlertEncoder } from '../../guards/file-access/alert/alert.ts';
import { access, context } from '../../guards/file-access/alert/alert.fixture.ts';
import { refusalLine } from '../../guards/network-policy/refusal-line.ts';
import { policyFindingLine } from '../../guards/policy-audit/findings/policy-finding.ts';
import { serveFeed } from '../../lib/feed/feed-server.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { guards } from '../guards.ts';
import { FindingSource } from './finding-source.ts';
import type { UiFinding } from './report.ts';

function count(source: FindingSource): number {
  return source
    .state()
    .hours.flatMap(({ findings }) => Object.values(findings))
    .reduce((sum, one) => sum + one, 0);
}

const now = (): string => new Date().toISOString();
const head = { node: { name: 'n1' }, object: null, policy: null, message: 'It was seen.' } as const;
const plain = (guard: string): string =>
  findingLine({ ...head, guard, kind: 'Other', time: now(), severity: 'low', verdict: 'seen' });

const program = (kind: string, attachPoint: string): string =>
  programFindingLine(
    {
      ...{ node: { name: 'n1' }, object: null, policy: { kind, namespace: '', name: 'count' } },
      ...{ verdict: 'not-loaded', message: 'It does not run.' },
    },
    { function: 'count', attachPoint, reason: 'No.', folded: 0 },
    Date.now(),
  );

suite('findings for the page, from a socket', () => {
  test('the command to go on with, as a shell takes it, for the machine that the page is of', async () => {
    const end = { address: '10.0.0.3', namespace: 'shop', pod: 'web' };
    const object = { kind: 'ConfigMap', namespace: 'shop', name: 'old' };
    const policyHead = { severity: 'low', object, policy: null, message: 'It fails.' } as const;
    const audit = { origin: 'audit', policyId: 'p', reason: '', folded: 0 } as const;
    const changed = findingLine(
      {
        ...head,
        guard: 'file-integrity',
        kind: 'IntegrityFinding',
        time: now(),
        severity: 'high',
        verdict: 'changed',
      },
      {
        ...{ fileIntegrity: 'guard/workers', path: "/etc/it's [1]", change: 'changed', attributes: [] },
        ...{ seenMs: 1, state: 'found' },
      },
    );
    const lines: readonly (readonly [line: string, command: string | null])[] = [
      [
        refusalLine(
          {
            ...{
              verdict: 'refused',
              direction: 'ingress',
              protocol: 'TCP',
              policies: ['shop/db'],
              reason: 'No.',
            },
            ...{ source: end, destination: { address: '10.0.0.4', port: 5432 } },
          },
          { nodeName: 'n1', timeMs: Date.now() },
        ),
        'rampart network explain --from shop/web --to 10.0.0.4 --port 5432/TCP',
      ],
      [
        policyFindingLine({ ...policyHead, verdict: 'failing' }, audit, Date.now()),
        'rampart audit explain configmap/old -n shop',
      ],
      [policyFindingLine({ ...policyHead, verdict: 'rejected' }, { ...audit, origin: 'admission' }, 0), null],
      [new AlertEncoder(context).encode(access), 'rampart alerts --pod default/nginx-pod --since 1h'],
      [
        changed,
        String.raw`rampart integrity accept workers -n guard --node n1 --path '/etc/it'\''s \[1\]' --dry-run`,
      ],
      [plain('file-access'), null],
    ];
    using directory = new TemporaryDirectory();
    const feed = new LineFeed();
    for (const [line] of lines) feed.push(line);
    feed.push('a line of something else');
    await using _server = await serveFeed(feed, directory.at('alerts.sock'));
    const source = new FindingSource({
      guards,
      origin: () => ({ kind: 'socket', path: directory.at('alerts.sock') }),
      clusterWords: ['--data', '/my data'],
    });
    const stop = new AbortController();
    const run = source.run(stop.signal);
    await until('all that is kept', () => source.state().isLive);
    const commands = source.feed.kept().map(({ line }) => (JSON.parse(line) as UiFinding).command);
    assert.deepEqual(
      commands,
      lines.map(([, command]) => command && { line: `${command} --data '/my data'`, isOnNode: false }),
    );
    // A program is looked at on its node, which has no option for the cluster.
    feed.push(program('XdpProgram', 'eth0'));
    feed.push(program('FentryProgram', 'do_unlinkat'));
    const last = (): readonly unknown[] =>
      source.of('bpf-programs').length === 2
        ? source.feed
            .kept()
            .slice(-2)
            .map(({ line }) => (JSON.parse(line) as UiFinding).command)
        : [];
    await until('both', () => last().length === 2);
    assert.deepEqual(last(), [
      { line: 'rampart bpf net eth0', isOnNode: true },
      { line: 'rampart bpf list', isOnNode: true },
    ]);
    const decisions = source.feed.kept().map(({ line }) => (JSON.parse(line) as UiFinding).decision);
    assert.deepEqual(
      decisions.map((decision) => decision && [decision.what[0], decision.isOpen, decision.times ?? 1]),
      [
        ['repeated refusal', true, 3],
        null,
        ['refused write', true, 1],
        null,
        ['changed file', true, 1],
        ...[null, null, null],
      ],
    );
    stop.abort();
    await run;
  });

  test('counts are those of the processes; the page is told when one has ended', async () => {
    using directory = new TemporaryDirectory();
    const path = directory.at('alerts.sock');
    const source = new FindingSource({ guards, origin: () => ({ kind: 'socket', path }), clusterWords: [] });
    const stop = new AbortController();
    const run = source.run(stop.signal);
    await until('why nothing is read', () => /the socket does not exist/.test(source.state().note));
    assert.equal(source.state().isLive, false);
    const hour = new Date(Date.now() - (Date.now() % 3_600_000)).toISOString();
    const about = (low: number) => ({ hours: [{ guard: 'file-access', hour, findings: { low } }] });
    {
      const feed = new LineFeed({ maxLines: 1 });
      feed.push(plain('file-access'));
      feed.push(plain('file-access'));
      await using _server = await serveFeed(feed, path, { about: () => about(2) });
      await until('it is read', () => source.state().isLive);
      assert.equal(count(source), 2);
      feed.push(plain('file-access'));
      await until('one more', () => count(source) === 3);
    }
    await until('it has ended', () => !source.state().isLive);
    await until('why', () => /the agent stopped/.test(source.state().note));
    await using _server = await serveFeed(new LineFeed(), path, { about: () => about(1) });
    await until('another is read', () => source.state().isLive);
    assert.equal(count(source), 4);
    assert.equal(source.feed.kept().length, 2);
    stop.abort();
    await run;
  });
});
