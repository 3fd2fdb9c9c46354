import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { PolicyEngine } from '../engine/engine.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { Enforcement } from './enforcement.ts';
import { NodeCounts } from './metrics.ts';
import type { Refusals } from './refusals.ts';
import type { SourceCheck } from './sources/source-check.ts';

suite('packets that bypass the rules', () => {
  test('refusal of unknown pods without known addresses: reported once, until they are known', async () => {
    const engine = new PolicyEngine('one');
    const warned: string[] = [];
    const counts = new NodeCounts();
    const departed = { programmed: () => undefined, problem: undefined };
    const programmed = () => Promise.resolve({ commands: 1 });
    const enforcement = new Enforcement({
      dataplane: { sync: programmed, apply: programmed } as unknown as Dataplane,
      refusals: { open: () => undefined } as unknown as Refusals,
      sources: {
        look: () => undefined,
        program: () => undefined,
        unchecked: new Set(),
      } as unknown as SourceCheck,
      logger: { warn: (text: string) => void warned.push(text) } as never,
      ...{ engine, counts, cutter: undefined, departed, signal: AbortSignal.timeout(60_000) },
      ...{ refusesUnknown: true, bridges: { bridges: () => [] } },
    });
    await enforcement.programAll();
    await enforcement.programAll();
    assert.match(enforcement.bypassed ?? '', /unknown pods are not refused.*--pod-cidr$/);
    assert.deepEqual(warned, [enforcement.bypassed]);
    engine.setPodCidrs(['10.1.0.0/24']);
    await enforcement.programChange();
    assert.equal(enforcement.bypassed, undefined);
    assert.equal(counts.syncSeconds.count, 3);
  });
});
