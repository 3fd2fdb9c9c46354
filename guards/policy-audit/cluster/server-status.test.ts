import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { PolicyServer } from '../api.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';
import { withAudit } from './server-status.ts';

test('how far the audit is', () => {
  const server = { metadata: { name: 'default', generation: 2 } } as PolicyServer;
  const lastPass = { endedMs: Date.UTC(2026, 10, 27, 12), seconds: 3.5 } as PassSummary;
  const passProgress = { since: '2026-11-27T13:00:00.000Z', namespaces: 3, left: 1 };
  const reported = (audit: Parameters<typeof withAudit>[2]): string | undefined => {
    const [condition, ...more] = withAudit([], server, audit) ?? [];
    assert.deepEqual(more, []);
    return condition && `${condition.status} ${condition.reason} ${condition.message}`;
  };
  assert.equal(reported(undefined), undefined);
  assert.equal(reported({ lastPass: undefined, passProgress: undefined }), undefined);
  const none = 'no full pass over the objects has ended yet';
  const ended = 'the last full pass over the objects ended at 2026-11-27T12:00:00.000Z and took 3.5 s';
  const runs = 'the one that began at 2026-11-27T13:00:00.000Z has 1 of 3 namespaces left';
  assert.equal(reported({ lastPass: undefined, passProgress }), `False PassRuns ${none}; ${runs}`);
  assert.equal(reported({ lastPass, passProgress }), `True PassRuns ${ended}; ${runs}`);
  assert.equal(reported({ lastPass, passProgress: undefined }), `True PassEnded ${ended}`);
});
