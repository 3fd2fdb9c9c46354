import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { findingLine } from '../../guard/stream/finding.ts';
import { LineFeed } from '../../lib/feed/line-feed.ts';
import { guards } from '../guards.ts';
import { feedOf } from '../ui/finding-feed.ts';
import { FindingGroups } from './finding-groups.ts';
import { keyOf, rightsFor } from './rights.ts';
import { UserView } from './user-view.ts';

function lineOf(namespace: string, keys: object = {}): string {
  const finding = findingLine(
    {
      ...{ guard: 'file-access', kind: 'KiveAlert', time: new Date().toISOString(), node: { name: 'n' } },
      ...{ severity: 'low', verdict: 'allowed', message: '' },
      object: { kind: 'Pod', namespace, name: 'p' },
      policy: { kind: 'KivePolicy', namespace, name: 'k' },
    },
    keys,
  );
  return `{"finding":${finding},"command":null}`;
}

suite('the view of one user', () => {
  const waiting = new AbortController().signal;
  test('the rights that a finding needs: of all namespaces that it names, and of its policy', () => {
    const rights = (line: string): string[] | undefined => {
      const { finding } = JSON.parse(line) as { finding: Parameters<typeof rightsFor>[1] };
      return rightsFor(guards, finding, finding)?.map(keyOf).toSorted();
    };
    const list = 'list kivebpf.san7o.github.io/kivepolicies/ a';
    assert.deepEqual(rights(lineOf('a')), ['get /pods/log a', list]);
    const accessor = { accessor: { pod: { namespace: 'b', name: 'x' } }, process: { 'pid-namespace': 3 } };
    assert.deepEqual(rights(lineOf('a', accessor)), ['get /pods/log a', 'get /pods/log b', list]);
    assert.deepEqual(rights(lineOf('a', { ends: [{ 'kive-policy-namespace': 'c' }] })), [
      ...['get /pods/log a', 'get /pods/log c', list],
    ]);
    // About the cluster, or by what its guard does not know.
    assert.equal(rights(lineOf('')), undefined);
    assert.equal(rights(lineOf('a').replace('"KivePolicy"', '"Other"')), undefined);
    assert.equal(rights(lineOf('a').replace('"file-access"', '"other"')), undefined);
  });

  const feed = new LineFeed();
  const groups = new FindingGroups(guards, feed);
  const viewOf = (may: (right: string) => boolean | Error, isKnown = (): boolean => true): UserView =>
    new UserView({
      who: 'jane',
      sources: {
        ...{ guards, groups, findings: feedOf(feed) },
        pictures: { guards: ['network-policy'], read: async () => ({ picture: null, failure: 'read' }) },
        status: async () => ({ failure: 'none' }),
        state: () => ({ isLive: true, note: 'of all', missed: 0, hours: [] }),
      },
      may: async (question) => {
        const answer = may(keyOf(question));
        if (answer instanceof Error) throw answer;
        return answer;
      },
      isKnown: async () => isKnown(),
      stream: () => ({ [Symbol.dispose]: () => undefined }),
    });
  const follow = (view: UserView) => {
    const reported: (number | string)[] = [];
    let wake = Promise.withResolvers<void>();
    const notify = (what: number | string): void => {
      reported.push(what);
      wake.resolve();
      wake = Promise.withResolvers();
    };
    const following = view.findings.follow(0, {
      line: (number) => notify(number),
      live: () => notify('live'),
      fail: () => notify('failed'),
    });
    const until = async (what: number | string): Promise<void> => {
      while (!reported.includes(what)) await wake.promise;
    };
    return { reported, until, [Symbol.dispose]: () => following[Symbol.dispose]() };
  };
  const ofA = (right: string): boolean => right.endsWith(' a');

  test('in order, what comes while one waits for answers too', async () => {
    for (const namespace of ['a', 'b', 'a']) feed.push(lineOf(namespace));
    using followed = follow(viewOf(ofA));
    feed.push(lineOf('b'));
    feed.push(lineOf('a'));
    await followed.until(5);
    assert.deepEqual(followed.reported, [1, 3, 'live', 5]);
    const [hour] = (await viewOf(ofA).report(waiting)).findings.hours;
    assert.deepEqual([hour?.guard, hour?.findings], ['file-access', { low: 3 }]);
  });

  test('ends without an answer, and with a token that is no longer good', async () => {
    using unanswered = follow(viewOf(() => new Error('no answer')));
    await unanswered.until('failed');
    assert.deepEqual(unanswered.reported, ['failed']);
    let isGood = true;
    using revoked = follow(viewOf(ofA, () => isGood));
    await revoked.until('live');
    isGood = false;
    feed.push(lineOf('a'));
    feed.push(lineOf('a'));
    await revoked.until('failed');
    assert.equal(revoked.reported.at(-1), 'failed');
    const { status, failure, findings } = await viewOf(() => new Error('no answer')).report(waiting);
    assert.deepEqual([status, findings.hours, findings.isLive], [null, [], false]);
    assert.match(failure ?? '', /cannot be found out: no answer/);
  });

  test('a picture is of the whole cluster: it is for whoever may read all of that', async () => {
    const failureOf = async (view: UserView) => (await view.picture('network-policy', waiting))?.failure;
    const missing = (one: string) => viewOf((right) => right !== one);
    assert.equal(await failureOf(viewOf(() => true)), 'read');
    for (const right of ['get /pods/log rampart-system', 'list /nodes/ ', 'list /pods/ ', 'list /services/ '])
      assert.match((await failureOf(missing(right))) ?? '', /you may not read all of that/, right);
    assert.match(
      (await failureOf(viewOf(() => new Error('no answer')))) ?? '',
      /cannot be found out: no answer/,
    );
    assert.equal(viewOf(() => true).picture('file-access', waiting), undefined);
    assert.equal((await viewOf(() => true).report(waiting)).who, 'jane');
  });
});
