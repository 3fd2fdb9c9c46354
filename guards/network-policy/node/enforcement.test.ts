import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { PolicyEngine } from '../engine/engine.ts';
import type { Dataplane } from '../dataplane/dataplane.ts';
import { pod, policy } from '../meaning.fixture.ts';
import { Enforcement } from './enforcement.ts';
import { NodeCounts } from './metrics.ts';
import type { Refusals } from './refusals.ts';
import type { SourceCheck } from './sources/source-check.ts';

test('a change of pods of other nodes is programmed before interfaces are looked for, one of own pods after it', async () => {
  const engine = new PolicyEngine('node');
  const done: string[] = [];
  const did = (what: string) => () => void done.push(what);
  const programmed = (what: string) => () => Promise.resolve(did(what)()).then(() => ({ commands: 1 }));
  const enforcement = new Enforcement({
    dataplane: { sync: programmed('sync'), apply: programmed('apply') } as unknown as Dataplane,
    refusals: { open: () => undefined } as unknown as Refusals,
    sources: {
      look: did('look'),
      program: did('sources'),
      unchecked: new Set(),
    } as unknown as SourceCheck,
    ...{ engine, counts: new NodeCounts(), cutter: undefined, logger: {} as never },
    departed: { programmed: () => undefined, problem: undefined },
    ...{ signal: AbortSignal.timeout(60_000), refusesUnknown: false, bridges: { bridges: () => [] } },
  });
  engine.upsertPod(pod('x/a', '10.1.0.1'));
  engine.upsertPolicy(policy('x/p', { podSelector: {}, ingress: [{ from: [{ podSelector: {} }] }] }));
  await enforcement.programAll();
  const { spec, ...other } = pod('x/b', '10.1.0.2');
  engine.upsertPod({ ...other, spec: { ...spec, nodeName: 'other' } });
  done.length = 0;
  await enforcement.programChange();
  assert.deepEqual(done, ['apply', 'look', 'sources']);
  engine.upsertPod(pod('x/c', '10.1.0.3'));
  done.length = 0;
  await enforcement.programChange();
  assert.deepEqual(done, ['look', 'apply', 'sources']);
});

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
