import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import type { KivePolicy } from '../api.ts';
import type { FileState } from '../node/file-state.ts';
import type { MatchedTrap } from '../node/looked.ts';
import { compilePolicy } from '../policy/matching.ts';
import { nginxPod, policyOf, trapOn } from '../policy/policy.fixture.ts';
import { clusterStatus } from './policy-status.ts';
import type { PolicyStatus } from '../policy-status-schema.ts';
import { nodeStatus } from '../node/node-status.ts';

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

/** The traps of the policy in so many containers, in this state. */
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

suite('what a node says of a policy', () => {
  test('nothing when it has no container for it and there was no alert', () => {
    assert.equal(nodeStatus('n1', policy(), [], undefined), undefined);
    assert.equal(nodeStatus('n1', policy(), [], 0)?.lastAlertTime, '1970-01-01T00:00:00Z');
  });

  test('containers once, files each', () => {
    assert.deepEqual(nodeStatus('n1', policy(), matched(3, watched), undefined), {
      name: 'n1',
      observedGeneration: 4,
      matchedContainers: 3,
      watchedFiles: 6,
      problemCount: 0,
    });
  });

  test('callbacks that take no alerts, also where no container is', () => {
    const problems = Array.from({ length: 12 }, (_, number) => ({
      callback: `c${number}`,
      message: 'HTTP 404',
    }));
    const status = nodeStatus('n1', policy(), [], undefined, problems);
    assert.deepEqual([status?.matchedContainers, status?.callbackProblems?.length], [0, 10]);
  });

  test('the first problems, and how many there are', () => {
    const status = nodeStatus('n1', policy(), matched(8, waiting), undefined);
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

suite('what the operator says of a policy', () => {
  const entry = (name: string, watchedFiles: number, problemCount = 0) => ({
    name,
    matchedContainers: 1,
    watchedFiles,
    problemCount,
  });
  const all = (): boolean => true;

  test('a second look changes nothing', () => {
    const first = clusterStatus(policy({ nodes: [entry('n1', 2)] }), all);
    assert.equal(first.conditions?.[0]?.status, 'True');
    assert.equal(clusterStatus(policy(first), all), first);
  });

  test('the last alert stays when its node goes', () => {
    const before: PolicyStatus = {
      nodes: [{ ...entry('n1', 1), lastAlertTime: '2026-11-21T10:00:00Z' }, entry('n2', 1)],
    };
    const both = clusterStatus(policy(before), all);
    const one = clusterStatus(policy({ ...both }), (name) => name === 'n2');
    assert.equal(one.lastAlertTime, '2026-11-21T10:00:00Z');
    assert.deepEqual(
      one.nodes?.map(({ name }) => name),
      ['n2'],
    );
  });

  test('callbacks that take no alerts are a condition of their own, from the first time on', () => {
    const withCallback = (status: PolicyStatus): KivePolicy => {
      const plain = policy(status);
      return { ...plain, spec: { traps: [{ ...trapOn('/secret.txt'), callback: 'https://sink/' }] } };
    };
    const callbackProblems = [{ callback: 'https://sink#1', message: 'HTTP 404' }];
    const well = clusterStatus(withCallback({ nodes: [entry('n1', 2)] }), all);
    assert.equal(well.conditions?.length, 1);
    const failing = clusterStatus(
      withCallback({ ...well, nodes: [{ ...entry('n1', 2), callbackProblems }] }),
      all,
    );
    const [ready, delivering] = failing.conditions ?? [];
    assert.equal(ready?.status, 'True');
    assert.deepEqual(
      [delivering?.type, delivering?.status, delivering?.reason, delivering?.message],
      ['Delivering', 'False', 'CallbackFailing', 'Not delivered: alerts for https://sink#1 on n1: HTTP 404.'],
    );
    assert.equal(clusterStatus(withCallback(failing), all), failing);
    const mended = clusterStatus(withCallback({ ...failing, nodes: [entry('n1', 2)] }), all);
    assert.equal(mended.conditions?.[1]?.status, 'True');
    // No trap has a callback any more.
    assert.equal(clusterStatus(policy(mended), all).conditions?.length, 1);
  });

  test('ready is only what is watched as a whole', () => {
    const reason = (status: PolicyStatus): string | undefined =>
      clusterStatus(policy(status), all).conditions?.[0]?.reason;
    assert.equal(reason({}), 'NoMatch');
    assert.equal(reason({ nodes: [entry('n1', 0)] }), 'Watching');
    assert.equal(reason({ nodes: [entry('n1', 1, 1)] }), 'FilesMissing');
    const refused = policyOf('p', trapOn('not-absolute'), trapOn('/etc/shadow'));
    const { conditions } = clusterStatus(refused, all);
    assert.equal(conditions?.[0]?.reason, 'TrapsRefused');
    assert.match(conditions?.[0]?.message ?? '', /spec\.traps\[0\].*The other 1 works\.$/);
  });
});
