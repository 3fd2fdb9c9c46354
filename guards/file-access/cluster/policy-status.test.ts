import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { KivePolicy } from '../api.ts';
import type { FileState } from '../node/file-state.ts';
import type { MatchedTrap } from '../node/looked.ts';
import { compilePolicy } from '../policy/matching.ts';
import { nginxPod, policyOf, trapOn } from '../policy/policy.fixture.ts';
import { clusterStatus } from './policy-status.ts';
import type { NodePart, PolicyPart, PolicyStatus } from '../policy-status-schema.ts';
import { nodeStatusOf, partOf } from '../node/node-status.ts';

const watched: FileState = { kind: 'watched', identity: { inode: 1n, device: 2, generation: 3 } };
const waiting: FileState = { kind: 'waiting', why: '/secret.txt does not exist' };

function policy(status?: PolicyStatus): KivePolicy {
  const plain = policyOf('p', trapOn('/secret.txt'), trapOn('/etc/shadow'));
  return {
    ...plain,
    metadata: { ...plain.metadata, generation: 4 },
    ...(status && { status }),
  };
}

/** The traps of the policy in `containers` containers, in this state. */
function matched(containers: number, state: FileState): MatchedTrap[] {
  return compilePolicy(policy()).traps.flatMap((trap) =>
    Array.from({ length: containers }, (_, number) => ({
      trap,
      container: { id: `containerd://${number}`, name: 'nginx', pod: nginxPod },
      name: `kive-data-${number}`,
      state,
    })),
  );
}

suite('the report of a node about a policy', () => {
  test('nothing when it has no container for it and there was no alert', () => {
    assert.equal(partOf(policy(), [], undefined), undefined);
    assert.equal(partOf(policy(), [], 0)?.lastAlertTime, '1970-01-01T00:00:00Z');
  });

  test('containers once, files each', () => {
    assert.deepEqual(partOf(policy(), matched(3, watched), undefined), {
      namespace: 'kivebpf-system',
      name: 'p',
      uid: '',
      observedGeneration: 4,
      matchedContainers: 3,
      watchedFiles: 6,
      problemCount: 0,
    });
  });

  test('callbacks that refuse alerts, also on nodes without containers', () => {
    const problems = Array.from({ length: 12 }, (_, number) => ({
      callback: `c${number}`,
      message: 'HTTP 404',
    }));
    const status = partOf(policy(), [], undefined, problems);
    assert.deepEqual([status?.matchedContainers, status?.callbackProblems?.length], [0, 10]);
  });

  test('the first problems, and how many there are', () => {
    const status = partOf(policy(), matched(8, waiting), undefined);
    assert.equal(status?.problemCount, 16);
    assert.equal(status?.problems?.length, 10);
    assert.deepEqual(status?.problems?.[0], {
      trap: 0,
      path: '/secret.txt',
      container: 'default/nginx-pod/nginx',
      message: '/secret.txt does not exist',
    });
  });
});

suite('the report of a node about all policies', () => {
  const part = (name: string, problems = 0): PolicyPart => ({
    ...{ namespace: 'shop', name, uid: name, matchedContainers: 1, watchedFiles: 2, problemCount: problems },
    ...(problems > 0 && {
      problems: Array.from({ length: problems }, () => ({
        ...{ trap: 0, path: '/x', container: 'shop/a/main', message: 'é'.repeat(300) },
      })),
    }),
  });

  test('has the sums, and all parts as long as they fit', () => {
    const parts = [part('a', 2), part('b')];
    assert.deepEqual(nodeStatusOf(parts), {
      ...{ policyCount: 2, matchedContainers: 2, watchedFiles: 4, problemCount: 2 },
      ...{ omittedProblems: 0, omittedPolicies: 0, policies: parts },
    });
  });

  test('with 1,000 policies of ten problems each, drops and counts problems, but keeps every policy', () => {
    const parts = Array.from({ length: 1000 }, (_, at) => part(`p${at}`, 10));
    const status = nodeStatusOf(parts);
    const size = Buffer.byteLength(JSON.stringify(status));
    assert.ok(size < 1024 * 1024 && size > 900_000, `${size} bytes`);
    assert.equal(status.omittedPolicies, 0);
    assert.equal(status.policies.length, 1000);
    const reported = status.policies.reduce((all, { problems = [] }) => all + problems.length, 0);
    assert.equal(reported + status.omittedProblems, 10_000);
    assert.ok(reported > 0 && status.policies.every(({ problemCount }) => problemCount === 10));
  });

  test('leaves out a report that does not fit even without problems', () => {
    const status = nodeStatusOf([part('a', 1), part('b', 1), part('c')], 250);
    assert.deepEqual([status.policyCount, status.omittedPolicies, status.omittedProblems], [3, 1, 2]);
    assert.deepEqual(
      status.policies.map(({ name }) => name),
      ['a', 'b'],
    );
  });
});

suite('the status of a policy that the operator writes', () => {
  const entry = (node: string, watchedFiles: number, problemCount = 0): NodePart => ({
    ...{ node, namespace: 'kivebpf-system', name: 'p', uid: '' },
    matchedContainers: 1,
    watchedFiles,
    problemCount,
  });

  test('a second look changes nothing', () => {
    const parts = [entry('n1', 2)];
    const first = clusterStatus(policy(), parts);
    assert.equal(first.conditions?.[0]?.status, 'True');
    assert.equal(clusterStatus(policy(first), parts), first);
  });

  test('the last alert stays when its node goes', () => {
    const both = clusterStatus(policy(), [
      { ...entry('n1', 1), lastAlertTime: '2026-11-21T10:00:00Z' },
      entry('n2', 1),
    ]);
    assert.equal(both.matchedNodes, 2);
    const one = clusterStatus(policy(both), [entry('n2', 1)]);
    assert.equal(one.lastAlertTime, '2026-11-21T10:00:00Z');
    assert.equal(one.matchedNodes, 1);
  });

  test('the first problems with their nodes, for those who may read policies only', () => {
    const problem = { trap: 0, path: '/x', container: 'shop/a/main', message: 'why' };
    const parts = ['n1', 'n2', 'n3'].map((node) => ({
      ...entry(node, 1, 10),
      problems: Array.from({ length: 10 }, () => problem),
      callbackProblems: Array.from({ length: 4 }, (_, at) => ({ callback: `c${at}`, message: 'HTTP 404' })),
    }));
    const { problems, callbackProblems, problemCount } = clusterStatus(policy(), parts);
    assert.deepEqual([problems?.length, callbackProblems?.length, problemCount], [20, 10, 30]);
    assert.deepEqual(problems?.[10], { node: 'n2', ...problem });
    assert.deepEqual(callbackProblems?.[4], { node: 'n2', callback: 'c0', message: 'HTTP 404' });
  });

  test('is unknown while nodes with containers have only reported an older version', () => {
    const old = (node: string, more: Partial<NodePart> = {}): NodePart => ({
      ...entry(node, 1),
      observedGeneration: 3,
      ...more,
    });
    const ready = (...parts: NodePart[]) => clusterStatus(policy(), parts).conditions?.[0];
    const four = ready(old('n1'), old('n2'), old('n3'), old('n4'), entry('n5', 1));
    assert.deepEqual([four?.status, four?.reason], ['Unknown', 'NodesBehind']);
    assert.match(four?.message ?? '', /^4 nodes have .*: n1, n2, n3 and 1 more\.$/);
    assert.match(ready(old('n1'))?.message ?? '', /^1 node has .*: n1\.$/);
    assert.equal(ready(old('n1', { matchedContainers: 0 }), entry('n2', 1))?.reason, 'Watching');
    assert.equal(ready({ ...entry('n1', 1), observedGeneration: 4 })?.reason, 'Watching');
  });

  test('callbacks that take no alerts are a condition of their own, from the first time on', () => {
    const withCallback = (status?: PolicyStatus): KivePolicy => {
      const plain = policy(status);
      return { ...plain, spec: { traps: [{ ...trapOn('/secret.txt'), callback: 'https://sink/' }] } };
    };
    const callbackProblems = [{ callback: 'https://sink#1', message: 'HTTP 404' }];
    const fine = [entry('n1', 2)];
    const refused = [{ ...entry('n1', 2), callbackProblems }];
    const well = clusterStatus(withCallback(), fine);
    assert.equal(well.conditions?.length, 1);
    const failing = clusterStatus(withCallback(well), refused);
    const [ready, delivering] = failing.conditions ?? [];
    assert.equal(ready?.status, 'True');
    assert.deepEqual(
      [delivering?.type, delivering?.status, delivering?.reason, delivering?.message],
      ['Delivering', 'False', 'CallbackFailing', 'Not delivered: alerts for https://sink#1 on n1: HTTP 404.'],
    );
    assert.equal(clusterStatus(withCallback(failing), refused), failing);
    const mended = clusterStatus(withCallback(failing), fine);
    assert.equal(mended.conditions?.[1]?.status, 'True');
    // All traps have lost their callback.
    assert.equal(clusterStatus(policy(mended), fine).conditions?.length, 1);
  });

  test('ready is only what is watched as a whole', () => {
    const reason = (...parts: NodePart[]): string | undefined =>
      clusterStatus(policy(), parts).conditions?.[0]?.reason;
    assert.equal(reason(), 'NoMatch');
    assert.equal(reason(entry('n1', 0)), 'Watching');
    assert.equal(reason(entry('n1', 1, 1)), 'FilesMissing');
    const refused = policyOf('p', trapOn('not-absolute'), trapOn('/etc/shadow'));
    const { conditions } = clusterStatus(refused, []);
    assert.equal(conditions?.[0]?.reason, 'TrapsRefused');
    assert.match(conditions?.[0]?.message ?? '', /spec\.traps\[0\].*The other 1 works\.$/);
  });
});
