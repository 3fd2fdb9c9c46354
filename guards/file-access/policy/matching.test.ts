import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import type { KiveMatch, KivePolicy } from '../api.ts';
import type { NodeContainer } from '../kive-data.ts';
import { canonicalIp } from './ip-address.ts';
import {
  type CompiledPolicy,
  compilePolicy,
  type CompiledTrap,
  type PodView,
  TrapIndex,
} from './matching.ts';
import { compileNamePattern } from './name-pattern.ts';
import { anyContainers, anyPod, anyPolicies, movedTo, nginxPod, policyOf, trapOn } from './policy.fixture.ts';
import { PolicyScope } from './policy-scope.ts';
import { describeProblem } from './validation.ts';

function compiled(...matchAny: KiveMatch[]): CompiledTrap {
  const { traps, problems } = compilePolicy(policyOf('p', trapOn('/secret.txt', ...matchAny)));
  assert.deepEqual(problems, []);
  assert.ok(traps[0]);
  return traps[0];
}

/** Whether a trap is for a container of a pod, read plainly: what the index must find. */
function matches(trap: CompiledTrap, { metadata, status }: PodView, containerName: string): boolean {
  const ips = [status?.podIP, ...(status?.podIPs ?? []).map(({ ip }) => ip)];
  return trap.blocks.some(
    ({ pod, namespace, ip, labels, containerName: pattern }) =>
      (pod === undefined || pod === metadata.name) &&
      (namespace === undefined || namespace === metadata.namespace) &&
      (ip === undefined || ips.some((one) => one !== undefined && canonicalIp(one) === ip)) &&
      labels.every(([key, value]) => new Map(Object.entries(metadata.labels ?? {})).get(key) === value) &&
      (pattern?.test(containerName) ?? true),
  );
}

suite('a trap and a container of nginx-pod', () => {
  for (const [matchAny, name, expected] of [
    [[{ pod: 'nginx-pod' }], 'nginx', true],
    [[{ pod: 'nginx' }], 'nginx', false],
    [[{ namespace: 'default' }], 'nginx', true],
    [[{ namespace: 'other' }], 'nginx', false],
    [[{ pod: 'nginx-pod', namespace: 'other' }], 'nginx', false],
    [[{ pod: 'nginx-pod' }, { namespace: 'other' }], 'nginx', true],
    [[{ ip: '192.168.0.3' }], 'nginx', true],
    [[{ ip: '192.168.0.4' }], 'nginx', false],
    [[{ ip: 'FD00::0003' }], 'nginx', true],
    [[{ ip: '::ffff:192.168.0.3' }], 'nginx', true],
    [[{ ip: '::ffff:c0a8:3' }], 'nginx', true],
    [[{ matchLabels: { 'security-level': 'high' } }], 'nginx', true],
    [[{ matchLabels: { 'security-level': 'high', app: 'api' } }], 'nginx', false],
    [[{ matchLabels: { constructor: '' } }], 'nginx', false],
    [[{ containerName: 'nginx' }], 'nginx', true],
    [[{ containerName: 'nginx' }], 'nginx-proxy', false],
    [[{ containerName: 'gin' }], 'nginx', false],
    [[{ containerName: 'regex: .*' }], 'nginx', true],
    [[{ containerName: 'regex: ngin' }], 'nginx', false],
    [[{ containerName: '^ngin' }], 'nginx', false],
    [[{ containerName: 'regex:^n.*x$' }], 'nginx', true],
    [[{ containerName: 'glob:gin' }], 'nginx', false],
    [[{ containerName: 'glob:ng*' }], 'nginx', true],
    [[{ pod: '' }], 'init', true],
    [[{ namespace: '' }], 'init', true],
    [[{ pod: 'nginx-pod', containerName: '' }], 'init', true],
    [[{ pod: 'nginx-pod', containerName: '', ip: '', matchLabels: {} }], 'init', true],
    [
      [
        { pod: 'nginx-pod', containerName: '^side$' },
        { pod: 'nginx-pod', containerName: '^init$' },
      ],
      'init',
      true,
    ],
  ] as const satisfies (readonly [KiveMatch[], string, boolean])[]) {
    test(`${JSON.stringify(matchAny)} ${name}: ${expected}`, () => {
      assert.equal(matches(compiled(...matchAny), nginxPod, name), expected);
    });
  }

  test('the policy of the design document', () => {
    const match = {
      pod: 'nginx-pod',
      namespace: 'default',
      ip: '192.168.0.3',
      containerName: '.*',
      matchLabels: { 'security-level': 'high' },
    };
    assert.ok(matches(compiled(match), nginxPod, 'nginx'));
    const moved: PodView = { ...nginxPod, status: { ...nginxPod.status, podIP: '192.168.0.4', podIPs: [] } };
    assert.ok(!matches(compiled(match), moved, 'nginx'));
    assert.ok(!matches(compiled(match), { ...nginxPod, status: {} }, 'nginx'));
  });
});

suite('the index', () => {
  test('has the traps for the node itself apart from those for pods', () => {
    const index = new TrapIndex();
    const both = compilePolicy(policyOf('both', trapOn('/a', { host: true }, { pod: 'nginx-pod' })));
    const ofHost = compilePolicy(policyOf('host', trapOn('/b', { host: true }), trapOn('/c', { pod: 'x' })));
    for (const one of [both, ofHost]) index.set(one);
    assert.deepEqual(index.forHost(), [both.traps[0], ofHost.traps[0]]);
    assert.deepEqual(index.forPod(nginxPod).for('nginx'), [both.traps[0]]);
    index.set(compilePolicy(policyOf('both', trapOn('/a', { pod: 'nginx-pod' }))));
    assert.deepEqual(index.forHost(), [ofHost.traps[0]]);
    index.delete(ofHost.key);
    assert.deepEqual(index.forHost(), []);
  });

  test('finds exactly what comparing each trap with each container finds', () => {
    fc.assert(
      fc.property(anyPolicies, anyContainers, (policies, containers) => {
        const index = new TrapIndex();
        const all = policies.map((policy) => compilePolicy(policy));
        for (const policy of all) index.set(policy);
        for (const { pod, name } of containers) {
          const found = index.forPod(pod).for(name);
          const expected = all.flatMap(({ traps }) => traps.filter((trap) => matches(trap, pod, name)));
          assert.equal(found.length, expected.length);
          assert.deepEqual(new Set(found), new Set(expected));
        }
      }),
    );
  });

  test('is as if replaced and deleted policies had never been there', () => {
    fc.assert(
      fc.property(anyPolicies, anyPolicies, anyPod, (before, after, pod) => {
        const [index, fresh] = [new TrapIndex(), new TrapIndex()];
        const [compiledBefore, compiledAfter] = [before, after].map((all) =>
          all.map((policy) => compilePolicy(policy)),
        ) as [CompiledPolicy[], CompiledPolicy[]];
        for (const policy of compiledBefore) index.set(policy);
        for (const policy of compiledAfter) {
          index.set(policy);
          fresh.set(policy);
        }
        const kept = new Set(compiledAfter.map(({ key }) => key));
        for (const { key } of compiledBefore) if (!kept.has(key)) index.delete(key);
        const ids = (from: TrapIndex): string[] =>
          from
            .forPod(pod)
            .for('web')
            .map((trap) => `${trap.policyName} ${trap.slot} ${trap.id}`)
            .sort();
        assert.deepEqual(ids(index), ids(fresh));
      }),
    );
  });

  test('a trap that cannot work does not stop the others of its policy', () => {
    const { traps, problems } = compilePolicy(policyOf('p', trapOn('relative'), trapOn('/fine')));
    assert.deepEqual(
      traps.map(({ path, index }) => [path, index]),
      [['/fine', 1]],
    );
    assert.equal(problems[0]?.field, 'spec.traps[0].path');
  });

  test('two traps on one path keep two slots', () => {
    const { traps } = compilePolicy(
      policyOf('p', trapOn('/a', { pod: 'x' }), trapOn('/b'), trapOn('/a', { pod: 'y' })),
    );
    assert.deepEqual(
      traps.map(({ slot }) => slot),
      ['0:/a', '0:/b', '1:/a'],
    );
  });
});

suite('a policy outside the system namespaces', () => {
  /** As `policy, pod, container`, for all traps of a policy in a namespace. */
  function found(policies: readonly KivePolicy[], containers: readonly NodeContainer[], scope?: PolicyScope) {
    const index = new TrapIndex();
    for (const policy of policies) index.set(compilePolicy(policy, scope));
    return containers.flatMap((container) =>
      index
        .forPod(container.pod)
        .for(container.name)
        .map((trap) => ({ trap: `${trap.policyName} ${trap.slot}`, container })),
    );
  }
  const namespaces = fc.constantFrom('web', 'api', 'default');

  test('matches no container outside its own namespace, whatever its blocks name', () => {
    fc.assert(
      fc.property(anyPolicies, anyContainers, namespaces, (policies, containers, namespace) => {
        const moved = policies.map((policy) => movedTo(namespace, policy));
        for (const { container } of found(moved, containers))
          assert.equal(container.pod.metadata.namespace, namespace);
      }),
    );
  });

  test('matches in its namespace what it would match from a system namespace, if it names no other', () => {
    fc.assert(
      fc.property(anyPolicies, anyContainers, namespaces, (all, containers, namespace) => {
        const policies = all.filter(({ spec }) =>
          spec.traps.every(({ matchAny = [] }) =>
            matchAny.every((match) => match.namespace === undefined || match.namespace === namespace),
          ),
        );
        const own = containers.filter(({ pod }) => pod.metadata.namespace === namespace);
        const moved = policies.map((policy) => movedTo(namespace, policy));
        assert.deepEqual(found(moved, own), found(policies, own));
      }),
    );
  });

  test('matches pods of all namespaces if its namespace is among those that may', () => {
    fc.assert(
      fc.property(anyPolicies, anyContainers, namespaces, (policies, containers, namespace) => {
        const moved = policies.map((policy) => movedTo(namespace, policy));
        for (const names of [['other', namespace], ['*']]) {
          const scope = new PolicyScope(names);
          assert.deepEqual(found(moved, containers, scope), found(policies, containers));
        }
      }),
    );
  });

  test('a trap that names another namespace is refused, with the reason and what to do', () => {
    const policy = movedTo(
      'tenant',
      policyOf(
        'p',
        trapOn('/a', { namespace: 'tenant' }),
        trapOn('/b', { pod: 'x' }, { pod: 'x', namespace: 'shop' }),
      ),
    );
    const { traps, problems } = compilePolicy(policy);
    assert.deepEqual(
      traps.map(({ path }) => path),
      ['/a'],
    );
    assert.deepEqual(problems.map(describeProblem), [
      'spec.traps[1].matchAny[1].namespace: the namespace "shop" is invalid: policies in tenant match only pods of their own ' +
        'namespace. To match pods of others, move the policy to kivebpf-system, or ask for --kive-policy-namespaces tenant on the agents and the operator.',
    ]);
    assert.deepEqual(compilePolicy(movedTo('rampart-system', policy)).problems, []);
    assert.deepEqual(compilePolicy(policy, new PolicyScope(['tenant'])).problems, []);
  });
});

suite('container name patterns', () => {
  for (const [pattern, matching, others] of [
    ['glob:web-*', ['web-', 'web-1'], ['web', 'xweb-1']],
    ['glob:w?b', ['web', 'wob'], ['wb', 'weeb']],
    ['glob:[!a-c]1', ['d1', '-1'], ['a1', '1']],
    ['glob:[]x]', [']', 'x'], ['y', '']],
    ['glob:{web,api}-[0-9]', ['web-1', 'api-9'], ['db-1', 'web-']],
    ['glob:a.b+c', ['a.b+c'], ['axbbc']],
    ['glob:a\\*', ['a*'], ['ab']],
    ['glob:', [''], ['a']],
    ['glob: web-*', ['web-1'], ['web']],
    ['(?i)WEB', ['web', 'Web'], ['w', 'xweb']],
    ['a|b$', ['a', 'b'], ['ax', 'xb', 'bx']],
    ['', ['anything'], []],
    ['regex: .*', ['anything'], []],
    ['regex: web-[0-9]', ['web-1'], ['xweb-1', 'web-12']],
    ['web', ['web'], ['xweb1', 'web-proxy', 'we']],
    ['^web', ['web'], ['web1', 'xweb']],
    ['web$', ['web'], ['xweb', 'web1']],
    ['web.*', ['web', 'web-proxy'], ['xweb']],
    ['^web-1$', ['web-1'], ['web-12', 'xweb-1']],
  ] as const) {
    test(pattern, () => {
      const compiledPattern = compileNamePattern(pattern);
      assert.ok('test' in compiledPattern);
      for (const name of matching) assert.ok(compiledPattern.test(name), name);
      for (const name of others) assert.ok(!compiledPattern.test(name), name);
    });
  }

  test('reports invalid and too large patterns', () => {
    for (const pattern of [
      '(',
      '(?=a)',
      '\\1',
      'a{2,1}',
      'glob:[a',
      'glob:{a',
      'glob:a\\',
      '(a{100}){100}',
      'a)|(b',
    ]) {
      assert.ok('why' in compileNamePattern(pattern), pattern);
    }
  });

  test('a pattern that makes backtracking engines run for years is answered', () => {
    const pattern = compileNamePattern('^(([a-z])+.)+[A-Z]([a-z])+$|(a+)+b');
    assert.ok('test' in pattern);
    assert.equal(pattern.test('a'.repeat(253)), false);
  });

  test('no glob throws', () => {
    fc.assert(
      fc.property(fc.string({ maxLength: 20 }), fc.string({ maxLength: 20 }), (glob, name) => {
        const pattern = compileNamePattern(`glob:${glob}`);
        if ('test' in pattern) pattern.test(name);
      }),
      {
        examples: [
          ['[a\\]', 'a'],
          ['[[:alpha:]]', 'a'],
          ['[^]', '^'],
          ['[!]]', 'x'],
          ['[z-a]', 'z'],
        ],
      },
    );
  });
});

test('addresses in canonical form', () => {
  for (const [text, expected] of [
    ['10.0.0.1', '10.0.0.1'],
    ['010.0.0.1', undefined],
    ['10.0.0.1/8', undefined],
    ['fe80::1%eth0', undefined],
    ['', undefined],
    ['FD00:0:0:0:0:0:0:1', 'fd00::1'],
    ['::', '::'],
    ['::FFFF:10.0.0.1', '10.0.0.1'],
    ['::ffff:a00:1', '10.0.0.1'],
    ['64:ff9b::10.0.0.1', '64:ff9b::a00:1'],
  ] as const) {
    assert.equal(canonicalIp(text), expected, text);
  }
});
