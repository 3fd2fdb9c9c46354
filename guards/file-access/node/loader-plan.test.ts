import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { fileKey } from '../../../lib/sensor/access.ts';
import * as fc from '../../../lib/testing/fast-check.fixture.ts';
import { alertedOfData } from '../alert/alerted-file.ts';
import type { KiveData } from '../api.ts';
import { loaderPlan, type LoaderPlan, type PlannedAlert, planChanges } from './loader-plan.ts';

const anyData: fc.Arbitrary<KiveData[]> = fc.uniqueArray(
  fc
    .record({
      name: fc.constantFrom('a', 'b', 'c', 'd', 'e'),
      inode: fc.integer({ min: 1, max: 3 }),
      generation: fc.constantFrom(0, 1),
      callback: fc.constantFrom('', 'http://sink/'),
      severity: fc.constantFrom('low', 'high'),
      secret: fc.constantFrom('', 'shop/hook', 'bank/hook'),
      moved: fc.constantFrom('', '1:3:1', '2:3:1,3:3:1', '3:3:0,1:3:0'),
    })
    .map(({ name, inode, ...more }) => dataOf(name, inode, more)),
  { selector: ({ metadata }) => metadata.name, maxLength: 5 },
);

function dataOf(
  name: string,
  inode: number,
  { generation = 0, callback = '', severity = 'low', secret = '', namespace = 'shop', moved = '' } = {},
): KiveData {
  return {
    metadata: {
      name,
      annotations: {
        callback,
        path: `/${name}`,
        'node-name': 'n',
        'kivebpf.san7o.github.io/file': `${inode}:3:${generation}`,
        'kivebpf.san7o.github.io/policy-namespace': namespace,
        ...(secret !== '' && { 'kivebpf.san7o.github.io/callback-secret': secret }),
        ...(moved !== '' && { 'kivebpf.san7o.github.io/moved-files': moved }),
      },
    },
    spec: { inodeNo: inode, devId: 3, kernelId: 'k', metadata: { severity } },
  };
}

function planOf(data: readonly KiveData[], before?: LoaderPlan): LoaderPlan {
  return loaderPlan(
    data.flatMap((one) => alertedOfData(one) ?? []),
    before,
  );
}

/** The alerts for an access to a file, at each moment of the steps from one plan to the next. */
function reported(plan: LoaderPlan | ReadonlySet<PlannedAlert>): Map<string, string[]> {
  const files = new Map<string, string[]>();
  for (const { identity, context, callbackSecret } of plan.values()) {
    const says = JSON.stringify([context, callbackSecret]);
    files.set(fileKey(identity), [...(files.get(fileKey(identity)) ?? []), says].sort());
  }
  return files;
}

suite('the plan of a kernel', () => {
  test('all its KiveData but those that are being deleted', () => {
    const gone: KiveData = { ...dataOf('x', 9), metadata: { name: 'x', deletionTimestamp: 'now' } };
    const plan = planOf([dataOf('a', 1), dataOf('b', 1), gone]);
    assert.deepEqual([...plan.keys()], ['a', 'b']);
    assert.deepEqual(reported(plan).get('1:3:0')?.length, 2);
  });

  test('who does not know the generation of a file takes it from who does', () => {
    const data = [dataOf('a', 1), dataOf('b', 1, { generation: 7 }), dataOf('c', 2)];
    const plan = planOf(data);
    assert.deepEqual(
      [...plan.values()].map(({ identity }) => fileKey(identity)),
      ['1:3:7', '1:3:7', '2:3:0'],
    );
    assert.deepEqual(planChanges(plan, planOf(data, plan)).move, []);
  });

  test('is the same objects where nothing changed', () => {
    fc.assert(
      fc.property(anyData, (data) => {
        const plan = planOf(data);
        const again = planOf(structuredClone(data), plan);
        for (const [name, planned] of plan) assert.equal(again.get(name), planned);
        assert.deepEqual(planChanges(plan, again), { replace: [], move: [], add: [], remove: [] });
      }),
    );
  });
});

suite('moved files', () => {
  const shown = (plan: LoaderPlan): string[] =>
    [...plan.values()].map(
      ({ name, identity, context }) =>
        `${name} ${fileKey(identity)}${context.moved === true ? ' moved' : ''}`,
    );

  test('are planned beside the file, or are the file itself', () => {
    assert.deepEqual(shown(planOf([dataOf('a', 1, { generation: 1, moved: '2:3:1,4:3:1' })])), [
      'a 1:3:1',
      'a/2:3:1 2:3:1 moved',
      'a/4:3:1 4:3:1 moved',
    ]);
    assert.deepEqual(shown(planOf([dataOf('a', 2, { generation: 1, moved: '2:3:1,4:3:1' })])), [
      'a 2:3:1 moved',
      'a/4:3:1 4:3:1 moved',
    ]);
  });

  test('ignores an invalid list of files, and reads no more than the maximum', () => {
    for (const moved of ['x', ',', '1:2', '1:2:3:4', '-1:2:3', '[]']) {
      assert.deepEqual(shown(planOf([dataOf('a', 1, { moved })])), ['a 1:3:0']);
    }
    const moved = Array.from({ length: 100 }, (_, number) => `${number + 5}:3:1`).join();
    assert.equal(planOf([dataOf('a', 1, { moved })]).size, 5);
  });

  test('leave and come back in one step, while another file takes the path', () => {
    const before = planOf([dataOf('a', 1, { generation: 1 })]);
    const after = planOf([dataOf('a', 2, { generation: 1, moved: '1:3:1' })], before);
    for (const [from, to, changes] of [
      ['a', 'a/1:3:1', planChanges(before, after)],
      ['a/1:3:1', 'a', planChanges(after, before)],
    ] as const) {
      assert.deepEqual(
        changes.replace.map((step) => [step.from.name, step.to.name]),
        [[from, to]],
      );
      assert.equal(changes.move.length, 0);
      assert.equal(changes.add.length + changes.remove.length, 1);
    }
  });
});

suite('the Secret of a callback', () => {
  const secretIn = (more: object): string | undefined =>
    planOf([dataOf('a', 1, more)]).get('a')?.callbackSecret;

  test('is one of the namespace of the policy', () => {
    assert.equal(secretIn({}), '');
    assert.equal(secretIn({ secret: 'shop/hook' }), 'shop/hook');
    for (const secret of ['bank/hook', 'shopping/hook', 'sho/hook', 'hook', '/hook', 'x/shop/hook']) {
      assert.equal(secretIn({ secret }), undefined, secret);
    }
    // The policy is unknown if the object does not name it.
    assert.equal(secretIn({ secret: 'shop/hook', namespace: '' }), undefined);
    assert.equal(secretIn({ secret: '/hook', namespace: '' }), undefined);
  });

  test('is put in place in one step', () => {
    const before = planOf([dataOf('a', 1)]);
    const after = planOf([dataOf('a', 1, { secret: 'shop/hook' })], before);
    const { replace, ...others } = planChanges(before, after);
    assert.deepEqual(
      replace.map(({ to }) => to.callbackSecret),
      ['shop/hook'],
    );
    assert.deepEqual(others, { move: [], add: [], remove: [] });
  });
});

suite('from one plan to the next', () => {
  test('the changes reach the new plan; in each step a file keeps what both plans share', () => {
    fc.assert(
      fc.property(anyData, anyData, (first, second) => {
        const before = planOf(first);
        const after = planOf(second, before);
        const { replace, move, add, remove } = planChanges(before, after);
        const now = new Set(before.values());
        for (const step of [
          ...replace.map((pair) => () => now.delete(pair.from) && now.add(pair.to)),
          ...add.map((one) => () => now.add(one)),
          ...move.map(
            ({ to }) =>
              () =>
                now.add(to),
          ),
          ...move.map((pair) => () => now.delete(pair.from)),
          ...remove.map((one) => () => now.delete(one)),
        ]) {
          step();
          const [left, meanwhile, right] = [reported(before), reported(now), reported(after)];
          for (const [file, alerts] of left) {
            const min = Math.min(alerts.length, right.get(file)?.length ?? 0);
            assert.ok((meanwhile.get(file)?.length ?? 0) >= min, file);
          }
        }
        assert.deepEqual(now, new Set(after.values()));
      }),
    );
  });

  test('another KiveData on the same file takes over in one step', () => {
    const before = planOf([dataOf('a', 1)]);
    const after = planOf([dataOf('b', 1)], before);
    const { add, remove, replace } = planChanges(before, after);
    assert.deepEqual([add, remove], [[], []]);
    assert.deepEqual(
      replace.map(({ from, to }) => [from.name, to.name]),
      [['a', 'b']],
    );
  });
});
