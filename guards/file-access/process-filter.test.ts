import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { compilePolicy } from './policy/matching.ts';
import { policyOf, trapOn } from './policy/policy.fixture.ts';
import { type ProcessFilterKind, raisesAlert } from './process-filter.ts';

const vault = { inode: 7n, device: 8, generation: 9 };
const other = { ...vault, inode: 70n };

suite('whether an access raises an alert', () => {
  for (const [kind, files, executable, isAtHome, expected] of [
    ['except', [vault], vault, true, false],
    ['except', [other, vault], vault, true, false],
    ['except', [vault], other, true, true],
    ['except', [vault], { ...vault, device: 80 }, true, true],
    ['except', [vault], { ...vault, generation: 90 }, true, true],
    // Its number was given again, or is that of a file system without generations.
    ['except', [vault], { ...vault, generation: 0 }, true, true],
    ['except', [vault], vault, false, true],
    ['except', [vault], undefined, true, true],
    ['except', [], vault, true, true],
    ['only', [vault], vault, true, true],
    ['only', [vault], vault, false, true],
    ['only', [vault], other, true, false],
    ['only', [], other, true, false],
    ['only', [vault], undefined, true, true],
  ] as const) {
    const text = `${executable?.inode ?? 'unknown'} of generation ${executable?.generation}`;
    test(`${kind} ${files.length} files: ${text}, ${isAtHome ? 'at home' : 'from elsewhere'}`, () => {
      assert.equal(
        raisesAlert({ kind, files }, executable, () => isAtHome),
        expected,
      );
    });
  }
});

test('each trap has the processes that its policy names', () => {
  const named = (processes: Partial<Record<ProcessFilterKind, string[]>> | undefined) =>
    compilePolicy(policyOf('p', { ...trapOn('/a'), ...(processes && { processes }) })).traps[0]?.processes;
  assert.equal(named(undefined), undefined);
  assert.deepEqual(named({ except: ['/bin/a', '/b'] }), { kind: 'except', paths: ['/bin/a', '/b'] });
  assert.deepEqual(named({ only: ['/bin/a'] }), { kind: 'only', paths: ['/bin/a'] });
});
