import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { BPF_DIRECTORY, Btf, btfSkip, compileHeader, headerSkip, snake, snakeKeys } from './btf.fixture.ts';
import * as layout from './layout.ts';
import { syscallKinds } from './syscalls.ts';

suite('the committed object has the structures of layout.ts', { skip: btfSkip }, () => {
  const btf = btfSkip ? undefined : new Btf(`${BPF_DIRECTORY}/sensor.bpf.o`);

  const structures = {
    target_key: layout.targetKey,
    target: layout.target,
    counters: layout.counters,
    identity: layout.identity,
    state: layout.state,
    settings: layout.settings,
    bucket_key: layout.bucketKey,
    bucket: layout.bucket,
  };
  for (const [name, fields] of Object.entries(structures)) {
    test(`struct ${name}`, () => {
      // `state` and the others are whole: every field of the C structure is mirrored, and no other.
      const { size_bytes: sizeBytes, ...expected } = snakeKeys(fields);
      const { size_bytes: actualSizeBytes, ...actual } = btf?.structure(name) ?? {};
      assert.deepEqual(actual, expected);
      assert.equal(sizeBytes, actualSizeBytes);
    });
  }

  test('struct pending has the time of the access at its offset', () => {
    const pending = btf?.structure('pending');
    const access = btf?.structure('access');
    assert.deepEqual(
      {
        sp: pending?.['sp'],
        timeNs: (pending?.['access'] ?? -1) + (access?.['time_ns'] ?? -1),
        sizeBytes: pending?.['size_bytes'],
      },
      layout.pending,
    );
  });

  test('every counter is a u64', () => {
    for (const name of Object.keys(layout.counters)) {
      if (name !== 'sizeBytes') assert.equal(btf?.member('counters', snake(name)).size, 8, name);
    }
  });

  test('the system call tables have their length', () => {
    for (const name of ['native_syscalls', 'compat_syscalls']) {
      assert.equal(btf?.member('settings', name).nr_elems, layout.syscallTableLength);
    }
  });

  for (const [section, variable, sizeBytes] of [
    ['.bss', 'state', layout.state.sizeBytes],
    ['.rodata', 'settings', layout.settings.sizeBytes],
  ] as const) {
    test(`${section} holds \`${variable}\` and nothing else`, () => {
      const vars = btf?.find('DATASEC', section)?.vars;
      assert.equal(vars?.length, 1);
      const only = vars?.[0];
      assert.equal(btf?.find('VAR', variable)?.id, only?.type_id);
      assert.deepEqual({ offset: only?.offset, size: only?.size }, { offset: 0, size: sizeBytes });
    });
  }
});

suite('the header has the record and the words of layout.ts', { skip: headerSkip }, () => {
  const btf = headerSkip
    ? undefined
    : compileHeader('sensor.h', ['struct record', 'enum verdict', 'enum record_flags', 'enum syscall_kind']);

  test('struct record', () => {
    assert.deepEqual(btf?.structure('record'), snakeKeys(layout.record));
    assert.equal(btf?.member('record', 'comm').nr_elems, layout.commSizeBytes);
  });

  test('enum verdict', () => {
    const expected = layout.verdicts.map((word, value) => [`VERDICT_${word.toUpperCase()}`, value]);
    assert.deepEqual(btf?.enumeration('verdict'), Object.fromEntries(expected));
  });

  test('enum record_flags', () => {
    const expected = Object.entries(layout.recordFlags).map(([name, bit]) => [
      snake(name).toUpperCase(),
      bit,
    ]);
    assert.deepEqual(btf?.enumeration('record_flags'), Object.fromEntries(expected));
  });

  test('enum syscall_kind', () => {
    const expected = syscallKinds.map((word, value) => [`SYSCALL_${word.toUpperCase()}`, value]);
    assert.deepEqual(btf?.enumeration('syscall_kind'), Object.fromEntries(expected));
  });
});
