import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { Processes } from '../../../guard/guarded.ts';
import { processesOn, processWith, running } from '../../../guard/processes.fixture.ts';
import type { NodeView, SectionReport } from '../../../guard/status-section.ts';
import { type Verdict, verdictOn } from '../../../guard/verdict.ts';
import type { Condition } from '../../../lib/kube/object/conditions.ts';
import type { NodeObject, ParentObject } from '../api.ts';
import { labels } from '../engine/names.ts';
import { bpfPrograms } from '../guard.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { section } from './section.ts';

const plain = { widthColumns: 200, colour: false };
const timeMs = Date.UTC(2026, 10, 21, 12);
const zone = { zone: 'edge' };
const nodes: readonly NodeView[] = [
  { name: 'n1', kernel: undefined, labels: zone },
  { name: 'n2', kernel: undefined, labels: zone },
  { name: 'n3', kernel: undefined },
];

const parent = {
  metadata: { name: 'count', uid: 'u1', generation: 2 },
  spec: { nodeselector: { matchLabels: zone } },
} as unknown as ParentObject;

function on(node: string, type = 'Loaded', change: Partial<Condition> = {}): NodeObject {
  const condition = { type, status: 'True', reason: type, message: `${type} there`, observedGeneration: 2 };
  const conditions = [{ ...condition, lastTransitionTime: '2026-11-21T11:00:00Z', ...change }];
  const metadata = { name: `count-${node}`, labels: { [labels.hostname]: node } };
  return { metadata, status: { conditions } } as unknown as NodeObject;
}

function sectionOf(objects: readonly NodeObject[], all = nodes): SectionReport {
  return section([{ kind: parentKind('XdpProgram'), parent, objects }], all, timeMs);
}

function verdictOf({ objects = [] }: SectionReport, processes: Partial<Processes> = {}): Verdict {
  const alive = processesOn(['n1', 'n2', 'n3'], 'bpf-programs');
  return verdictOn(bpfPrograms, objects, { ...alive, ...processes });
}

function problems(objects: readonly NodeObject[], all = nodes): string[] {
  return verdictOf(sectionOf(objects, all)).problems.map(({ kind, node }) => `${kind} ${node}`);
}

suite('the section of bpf-programs', () => {
  test('a program that no packet reaches is a problem, though it runs', () => {
    const message =
      'f of sha256:1 runs as program 7; no packet reaches it on eth0 ingress: TcxProgram/a runs before it and returns something else than TCX_NEXT (-1)';
    const { problems: found } = verdictOf(sectionOf([on('n1', 'Loaded', { message }), on('n2')]));
    assert.deepEqual(
      found.map(({ kind, node, why }) => [kind, node, why]),
      [['not-reached', 'n1', message.slice(message.indexOf('no packet'))]],
    );
  });

  test('it runs on each node that it selects', () => {
    const report = sectionOf([on('n1'), on('n2'), on('n3', 'NotSelected')]);
    const verdict = verdictOf(report);
    assert.deepEqual(verdict.problems, []);
    assert.equal(report.headline(verdict, plain), 'The eBPF program runs on every node it selects.');
    assert.match(report.table(verdict, plain), /^XdpProgram\/count {2}2 {7}0 {11}yes$/m);
    assert.deepEqual(report.fields(verdict)['bpfPrograms'], [
      ...[
        {
          kind: 'XdpProgram',
          namespace: null,
          name: 'count',
          guarded: true,
          condition: null,
          loaded: 2,
          notLoaded: 0,
        },
      ],
    ]);
  });

  test('a killed agent: what it reported does not count', () => {
    const report = sectionOf([on('n1', 'NotLoaded'), on('n2')]);
    const dead = processWith(running('bpf-programs'), { isRenewed: false });
    const agents = new Map([...(processesOn(['n2'], 'bpf-programs').agents ?? []), ['n1', dead] as const]);
    const verdict = verdictOf(report, { agents });
    assert.deepEqual(
      verdict.problems.map(({ kind, node }) => [kind, node]),
      [['agent-dead', 'n1']],
    );
    assert.equal(
      report.headline(verdict, plain),
      '1 of 1 eBPF programs is not running on every node it selects.',
    );
    // The operator writes the condition of the program; what runs does not depend on it.
    assert.equal(verdictOf(sectionOf([on('n1'), on('n2')]), { operator: null }).failing, 0);
  });

  for (const [what, objects, expected] of [
    ['not loaded on a node', [on('n1', 'NotLoaded'), on('n2')], ['not-loaded n1']],
    ['a node that has not reported', [on('n2')], ['not-reported n1']],
    ['an image that is pulled', [on('n1', 'None'), on('n2')], ['loading n1']],
    [
      'a node that has reported on an older version',
      [on('n1', 'Loaded', { observedGeneration: 1 }), on('n2')],
      ['outdated n1'],
    ],
    [
      'of an application, one program that is behind',
      [on('n1'), on('n1', 'Loaded', { observedGeneration: 1 }), on('n2')],
      ['outdated n1'],
    ],
    [
      'no container on any node',
      [on('n1', 'NoContainersOnNode'), on('n2', 'NoContainersOnNode')],
      ['nothing-to-attach-to null'],
    ],
  ] as const) {
    test(what, () => assert.deepEqual(problems(objects), expected));
  }

  test('a selector that no node has; a machine without a Node object is selected', () => {
    assert.deepEqual(problems([on('n3', 'NotSelected')], [{ name: 'n3', kernel: undefined }]), [
      'no-node null',
    ]);
    assert.deepEqual(problems([on('n1')], []), []);
  });
});
