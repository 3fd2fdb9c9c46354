import assert from 'node:assert/strict';
import { test } from 'node:test';

import { requestAnnotation, requestsOf } from './node-requests.ts';

test('reads requests as they were written, and ignores other values', () => {
  const reinit = { kind: 're-init', id: 'a1', by: 'annotation' } as const;
  const accept = { kind: 'accept', id: 'b2', path: '/etc/*', author: 'me', reason: 'an update' } as const;
  const seen = { ...accept, id: 'b3', seenUntilMs: 1_700_000_000_123 };
  const annotations = {
    ...requestAnnotation(accept),
    ...requestAnnotation(seen),
    ...requestAnnotation(reinit),
    'file-integrity.openshift.io/holdoff': '',
    'file-integrity.openshift.io/request-c3': 'no JSON',
    'file-integrity.openshift.io/request-d4': '{"kind":"explode","id":"d4"}',
    'file-integrity.openshift.io/request-b4': '{"kind":"accept","id":"b4","seenUntilMs":"now"}',
    'file-integrity.openshift.io/request-e5': '{"kind":"re-init","id":"other","by":""}',
  };
  assert.deepEqual(requestsOf(annotations), [reinit, accept, seen]);
  assert.deepEqual(requestsOf(undefined), []);
});
