import assert from 'node:assert/strict';
import { test } from 'node:test';

import { assertReached, scaled } from '../../testing/depth.fixture.ts';
import * as fc from '../../testing/fast-check.fixture.ts';
import type { JsonObject } from '../../json/json.ts';
import { serverSideApply, trackInFull, trackUpdate, type WriteContext } from './field-manager.ts';
import { configuration, thing } from './field-manager.fixture.ts';

const label = fc.constantFrom('a', 'b', 'c');
const item = fc.record({ name: label, image: label }, { requiredKeys: ['name'] });
const rest = fc.record(
  {
    metadata: fc.record({ labels: fc.dictionary(label, label, { maxKeys: 2 }) }, { requiredKeys: [] }),
    spec: fc.record(
      {
        replicas: fc.nat(2),
        containers: fc.uniqueArray(item, { maxLength: 3, selector: ({ name }) => name }),
        zones: fc.uniqueArray(label, { maxLength: 2 }),
        selector: fc.record({ matchLabels: fc.dictionary(label, label, { maxKeys: 1 }) }),
      },
      { requiredKeys: [] },
    ),
    status: fc.record({ phase: label }),
  },
  { requiredKeys: [] },
);
const write = fc.record({
  how: fc.constantFrom('update', 'update', 'status', 'apply'),
  manager: fc.constantFrom('one', 'two', ''),
  rest,
  sends: fc.constantFrom('nothing', 'stored', 'reset'),
  seconds: fc.nat(2),
});

test('the short ways of an update lead where the long one does', () => {
  let updates = 0;
  fc.assert(
    fc.property(fc.array(write, { minLength: 1, maxLength: 16 }), (writes) => {
      let live: JsonObject | undefined;
      let now = 0;
      for (const { how, manager, rest: sent, sends, seconds } of writes) {
        now += seconds * 1000;
        const base = { type: thing, manager, apiVersion: 'example.com/v1', now: new Date(now) };
        const object = configuration(sent);
        if (how === 'apply') {
          live = serverSideApply(live, object, { ...base, manager: 'applier', force: true }).object;
          continue;
        }
        const context: WriteContext =
          how === 'status'
            ? { ...base, subresource: 'status', resetFields: [['spec'], ['metadata']] }
            : { ...base, resetFields: [['status']] };
        const stored = (live?.['metadata'] as JsonObject | undefined)?.['managedFields'];
        const entries = sends === 'stored' ? structuredClone(stored) : sends === 'reset' ? [] : undefined;
        const metadata = {
          ...(object['metadata'] as JsonObject),
          ...(entries === undefined ? {} : { managedFields: entries }),
        };
        const updated = { ...object, metadata };
        const short = trackUpdate(live, updated, context);
        assert.deepEqual(short, trackInFull(live, updated, context));
        if (live !== undefined) updates++;
        live = short;
      }
    }),
    { numRuns: 400 },
  );
  assertReached(updates > scaled(500), `${updates} updates`);
});
