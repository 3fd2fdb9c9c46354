import assert from 'node:assert/strict';
import { test } from 'node:test';

import { pino } from 'pino';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { ExchangeError } from '../../../lib/oci/exchange.ts';
import type { ParentObject } from '../api.ts';
import { parentOf } from '../engine/parent.ts';
import { parentKind } from '../parent-kind.fixture.ts';
import { BytecodeSource } from './bytecode.ts';
import { patience } from '../../../lib/testing/until.fixture.ts';

test('whether a host named by a namespaced program answers is only in the log, not in its status', async () => {
  const cause = new ExchangeError(new Error('connect ECONNREFUSED 10.0.0.7:5432'), '10.0.0.7:5432');
  const error = new RampartError(errorCodes.API_UNREACHABLE, { what: cause.message, cause });
  const logged: string[] = [];
  const logger = pino({ level: 'warn' }, { write: (line) => void logged.push(line) });
  for (const scope of ['Namespaced', 'Cluster'] as const) {
    const bytecode = { image: { url: '10.0.0.7:5432/a:v1', imagepullpolicy: 'Always' } };
    const object = { metadata: { name: 'a', namespace: 'acme' }, spec: { bytecode } };
    const kind = parentKind(scope === 'Cluster' ? 'BpfApplication' : 'BpfNsApplication', 'v0.5');
    const parent = parentOf(kind, object as unknown as ParentObject);
    using source = new BytecodeSource({
      ...{ hostRoot: '/', logger, onChange: () => undefined, signal: new AbortController().signal },
      pull: () => Promise.reject(error),
    });
    source.stateOf(parent);
    await source.soon(patience());
    const state = source.stateOf(parent);
    assert.ok(state.is === 'failed');
    assert.match(
      state.message,
      scope === 'Cluster' ? /ECONNREFUSED/ : /cannot fetch from 10\.0\.0\.7:5432: there is no/,
    );
    if (scope === 'Namespaced') assert.doesNotMatch(state.message, /ECONNREFUSED/);
  }
  assert.equal(logged.filter((line) => line.includes('ECONNREFUSED')).length, 2);
});
