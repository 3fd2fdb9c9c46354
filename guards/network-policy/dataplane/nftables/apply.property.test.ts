import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { type Change, change } from '../../random-cluster.fixture.ts';
import { openNftablesDataplane } from './dataplane.ts';

function give(engine: PolicyEngine, { kind, key, object }: Change): void {
  if (kind === 'pod') {
    if (object === undefined) engine.removePod(key);
    else engine.upsertPod(object);
  } else if (kind === 'policy') {
    if (object === undefined) engine.removePolicy(key);
    else engine.upsertPolicy(object);
  } else if (object === undefined) engine.removeNamespace(key);
  else engine.upsertNamespace(object);
}

test(
  'whatever changes: the kernel has what a sync of the same rules would program',
  { skip: namespaceObstacle() ?? false },
  async () => {
    let [applied, replaced] = [0, 0];
    await fc.assert(
      fc.asyncProperty(fc.array(change, { minLength: 10, maxLength: 60, size: 'max' }), async (changes) => {
        using namespace = new NetworkNamespace();
        using dataplane = namespace.run(() => openNftablesDataplane());
        const engine = new PolicyEngine('one');
        await dataplane.sync(engine.rules);
        engine.takeChange();
        for (const one of changes) {
          give(engine, one);
          const { replacedBecause } = await dataplane.apply(engine.rules, engine.takeChange());
          applied++;
          if (replacedBecause !== undefined) replaced++;
          assert.deepEqual(await dataplane.verify(), []);
        }
        using next = namespace.run(() => openNftablesDataplane());
        assert.deepEqual(await next.sync(engine.rules), { commands: 0 });
      }),
      { numRuns: 100 },
    );
    assert.equal(replaced, 0, `of ${applied} changes`);
  },
);
