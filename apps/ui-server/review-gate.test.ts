import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { LineFeed } from '../../lib/feed/line-feed.ts';
import { feedOf } from '../ui/finding-feed.ts';
import { isRefusal } from '../ui/gate.ts';
import { ReviewGate } from './review-gate.ts';

const HOUR_MS = 3_600_000;

/** Whose token is their name. */
function gateOf(clock = { monotonicMs: () => 0 }): ReviewGate {
  return new ReviewGate({
    sources: {
      ...{ guards: [], findings: feedOf(new LineFeed()), groups: { hours: async () => [] } },
      status: async () => ({ failure: 'none' }),
      state: () => ({ isLive: true, note: '', missed: 0, hours: [] }),
      pictures: { guards: [], read: () => undefined },
    },
    tokens: { userOf: async (name) => ({ name, uid: '', groups: [], extra: {} }) },
    access: { may: async () => false },
    clock,
  });
}

async function sessionOf(gate: ReviewGate, user: string): Promise<{ readonly cookie: string }> {
  const given = await gate.exchange(user);
  assert.ok(typeof given === 'string');
  return { cookie: given.replace(/;.*/, '') };
}

async function viewOf(gate: ReviewGate, headers: { readonly cookie: string }) {
  const view = await gate.admit(headers);
  return isRefusal(view) ? undefined : view;
}

suite('the users of a cluster', () => {
  test('whoever opens many sessions ends their own oldest; each ends after a working day', async () => {
    let nowMs = 0;
    const gate = gateOf({ monotonicMs: () => nowMs });
    const [bob, first] = [await sessionOf(gate, 'bob'), await sessionOf(gate, 'ann')];
    let last = first;
    for (let times = 0; times < 20; times++) last = await sessionOf(gate, 'ann');
    assert.equal(await viewOf(gate, first), undefined);
    for (const session of [bob, last]) assert.ok(await viewOf(gate, session));
    // The cookie of another server on this host, beside ours.
    assert.ok(await viewOf(gate, { cookie: `rampart-ui=other; ${last.cookie}` }));
    nowMs = 12 * HOUR_MS;
    for (const session of [bob, last]) assert.equal(await viewOf(gate, session), undefined);
  });

  test('whoever follows findings many times ends their own oldest stream', async () => {
    const gate = gateOf();
    const failed: string[] = [];
    const follow = async (user: string, name: string): Promise<Disposable> => {
      const view = await viewOf(gate, await sessionOf(gate, user));
      assert.ok(view);
      const reader = { line: () => undefined, live: () => undefined, fail: () => void failed.push(name) };
      return view.findings.follow(0, reader);
    };
    using stack = new DisposableStack();
    stack.use(await follow('bob', 'of bob'));
    const ended = await follow('ann', 'ended');
    for (let at = 0; at < 15; at++) stack.use(await follow('ann', `of ann, ${at}`));
    ended[Symbol.dispose]();
    stack.use(await follow('ann', 'in its place'));
    assert.deepEqual(failed, []);
    stack.use(await follow('ann', 'one more'));
    assert.deepEqual(failed, ['of ann, 0']);
  });
});
