import assert from 'node:assert/strict';
import { mkdtempDisposableSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';

import { createLogger } from '../../../lib/telemetry/log.ts';
import { systemClock } from '../../../lib/time/clock.ts';
import type { PolicyRequest } from '../engine/evaluator.ts';
import { ServedExceptions } from './served-exceptions.ts';
import type { ServedPolicy } from './served-policy.ts';

const rule = { kinds: ['Pod'], names: ['web'] };
const exception = (name: string) => ({
  metadata: { namespace: 'shop', name: 'one' },
  spec: { policies: [{ kind: 'ClusterAdmissionPolicy', name }], match: rule, reason: 'a test' },
});
const policy = (id: string, origin?: ServedPolicy['origin']) => ({ id, origin }) as ServedPolicy;
const request = (namespace: string) =>
  ({
    ...{ kind: { group: '', version: 'v1', kind: 'Pod' }, namespace },
    object: { metadata: { name: 'web', namespace } },
  }) as unknown as PolicyRequest;

test('exceptions of a file, by the origin of a policy or its id; a file that cannot be read changes nothing', async () => {
  using directory = mkdtempDisposableSync(join(tmpdir(), 'rampart-exceptions-'));
  const path = join(directory.path, 'exceptions.yml');
  const exceptions = new ServedExceptions(path, createLogger({ level: 'silent' }), systemClock);
  await assert.rejects(exceptions.load(), /it does not exist/);
  writeFileSync(path, JSON.stringify([exception('root')]));
  await exceptions.load();
  const isExcepted = (of: ServedPolicy, namespace = 'shop'): boolean =>
    exceptions.find(of, request(namespace)) !== undefined;
  assert.ok(isExcepted(policy('clusterwide-root')));
  assert.ok(
    isExcepted(policy('any', { kind: 'ClusterAdmissionPolicy', namespace: '', name: 'root' })),
    'by its origin',
  );
  assert.ok(!isExcepted(policy('clusterwide-group-root')));
  assert.ok(!isExcepted(policy('clusterwide-root'), 'other'));
  writeFileSync(path, '[{}]');
  await assert.rejects(exceptions.load(), /spec/);
  assert.ok(isExcepted(policy('clusterwide-root')));
  writeFileSync(path, JSON.stringify([exception('other')]));
  await exceptions.load();
  assert.ok(!isExcepted(policy('clusterwide-root')));
});
