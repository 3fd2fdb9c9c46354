import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { AgentGuardState } from './agent-lease-names.ts';
import { type GuardedObject, type Need, type OwnProblem, problemsOf, type Processes } from './guarded.ts';
import { processesOn, processWith, running } from './processes.fixture.ts';

const guard = { name: 'door-watch', node: () => Promise.reject(new Error('not loaded here')) };
const why = '1 door is there';
const agentOf = (node: string, seen: number | string | undefined): Need => ({
  process: 'agent',
  node,
  why,
  seen,
});
const door: GuardedObject = {
  ...{ kind: 'Door', namespace: 'house', name: 'front', revision: 3, changedMs: Date.UTC(2026, 10, 21, 11) },
  needs: [agentOf('n1', 3), agentOf('n2', 4), { process: 'operator', why, seen: 3 }],
  problems: [],
};
const alive = processesOn(['n1', 'n2'], guard.name);

function kinds(object: Partial<GuardedObject>, processes: Partial<Processes> = {}): string[] {
  return problemsOf(guard, { ...door, ...object }, { ...alive, ...processes }).map(({ kind, node }) =>
    node === null ? kind : `${kind} ${node}`,
  );
}

/** The agent of n1 is so. */
const agents = (n1: ReturnType<typeof processWith>): Partial<Processes> => ({
  agents: new Map([...(alive.agents ?? []), ['n1', n1]]),
});

suite('whether an object is guarded', () => {
  test('each process that it needs is alive, runs the guard, and has reported since the last change', () => {
    assert.deepEqual(kinds({}), []);
  });

  for (const [what, change, expected] of [
    ['killed', { isRenewed: false }, 'agent-dead n1'],
    ['stopped', { isRenewed: false, holder: '' }, 'agent-stopped n1'],
    [
      'runs other guards only',
      { guards: new Map(Object.entries(running('other'))) },
      'agent-switched-off n1',
    ],
  ] as const) {
    test(`an agent that ${what}`, () => {
      const process = processWith(running(guard.name), change);
      assert.deepEqual(kinds({}, agents(process)), [expected]);
      assert.deepEqual(kinds({}, { operator: process }), [
        expected.replace('agent', 'operator').replace(' n1', ''),
      ]);
    });
  }

  for (const state of ['starting', 'waiting', 'unavailable'] as const) {
    test(`a guard that is ${state}: the reason is shown`, () => {
      const states: Record<string, AgentGuardState> = { [guard.name]: { state, reason: 'no key.' } };
      const problems = problemsOf(guard, door, { ...alive, ...agents(processWith(states)) });
      assert.deepEqual(
        problems.map(({ kind }) => kind),
        [`agent-${state}`],
      );
      assert.match(problems[0]?.why ?? '', /in the agent: no key, although 1 door is there$/);
    });
  }

  test('an agent or operator that there never was', () => {
    assert.deepEqual(kinds({ needs: [agentOf('n3', 3)] }), ['agent-missing n3']);
    assert.deepEqual(kinds({}, { operator: null }), ['operator-missing']);
  });

  test('reports of an older version, or none', () => {
    const needs = [agentOf('n1', 2), agentOf('n2', undefined)];
    assert.deepEqual(kinds({ needs }), ['outdated n1', 'not-reported n2']);
    const [outdated] = problemsOf(guard, { ...door, needs }, alive);
    assert.equal(outdated?.since, '2026-11-21T11:00:00.000Z');
  });

  test('resource versions are compared as numbers of any size; what cannot be compared is not seen', () => {
    const seen = (version: string | number, now: string | number): string[] =>
      kinds({ revision: now, needs: [agentOf('n1', version)] });
    assert.deepEqual([seen('10', '9'), seen('9', '9')], [[], []]);
    for (const [is, now] of [
      ['9', '10'],
      ['x', '9'],
      ['9', 9],
      [9, '9'],
    ] as const)
      assert.deepEqual(seen(is, now), ['outdated n1'], `${is} ${now}`);
  });

  test('a policy server that has a ready pod now, and one that has none', () => {
    const server = { process: 'policy-server', name: 'default', why, seen: 3 } as const;
    assert.deepEqual(kinds({ needs: [{ ...server, isReady: true }] }), []);
    assert.deepEqual(kinds({ needs: [{ ...server, isReady: false }] }), ['no-policy-server']);
  });

  test('the guard runs nowhere, and the object needs no node yet', () => {
    const without = { agents: new Map([['n1', processWith(running('other'))]]) };
    assert.deepEqual(kinds({ needs: [] }), []);
    assert.deepEqual(kinds({ needs: [] }, without), ['runs-nowhere']);
    const { node: _none, ...onlyOperator } = guard;
    assert.deepEqual(problemsOf(onlyOperator, { ...door, needs: [] }, { ...alive, ...without }), []);
  });

  test('reports of a dead process do not count; problems of the object itself do', () => {
    const problem = (kind: string, more: Partial<OwnProblem> = {}): OwnProblem => ({
      kind,
      why,
      next: '',
      ...more,
    });
    const problems = [
      problem('by-agent', { by: 'agent', node: 'n1' }),
      problem('by-operator', { by: 'operator' }),
      problem('evident', { field: 'spec.lock' }),
    ];
    assert.deepEqual(kinds({ problems }), ['by-agent n1', 'by-operator', 'evident']);
    const dead = processWith(running(guard.name), { isRenewed: false });
    assert.deepEqual(kinds({ problems }, { ...agents(dead), operator: dead }), [
      ...['agent-dead n1', 'operator-dead', 'evident'],
    ]);
  });

  test('leases that may not be read: nothing is known, so nothing is guarded', () => {
    assert.deepEqual(kinds({}, { agents: undefined, operator: undefined }), ['unknown']);
  });

  test('the problem of a dead process: since when, and what to do', () => {
    const dead = processWith(running(guard.name), { isRenewed: false });
    assert.deepEqual(problemsOf(guard, door, { ...alive, ...agents(dead) }), [
      {
        guard: 'door-watch',
        kind: 'agent-dead',
        object: { kind: 'Door', namespace: 'house', name: 'front' },
        node: 'n1',
        field: null,
        why: 'the agent no longer renews its lease, although 1 door is there',
        next: 'start agent on n1',
        since: '2026-11-21T11:59:59.000Z',
      },
    ]);
  });
});
