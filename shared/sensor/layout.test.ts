import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { suite, test } from 'node:test';

import * as layout from './layout.ts';
import { syscallKinds } from './syscalls.ts';

const BPF_DIRECTORY = new URL('./bpf', import.meta.url).pathname;

/** The part of `bpftool -j btf dump` that is read here. */
interface BtfType {
  readonly id: number;
  readonly kind: string;
  readonly name: string;
  readonly size?: number;
  readonly type_id?: number;
  readonly nr_elems?: number;
  readonly members?: readonly {
    readonly name: string;
    readonly type_id: number;
    readonly bits_offset: number;
  }[];
  readonly values?: readonly { readonly name: string; readonly val: number }[];
  readonly vars?: readonly { readonly type_id: number; readonly offset: number; readonly size: number }[];
}

class Btf {
  readonly #types: ReadonlyMap<number, BtfType>;

  constructor(object: string) {
    const dump = spawnSync('bpftool', ['-j', 'btf', 'dump', 'file', object], { encoding: 'utf8' });
    assert.equal(dump.status, 0, dump.stderr);
    const { types } = JSON.parse(dump.stdout) as { types: BtfType[] };
    this.#types = new Map(types.map((type) => [type.id, type]));
  }

  find(kind: string, name: string): BtfType | undefined {
    return [...this.#types.values()].find((type) => type.kind === kind && type.name === name);
  }

  /** Behind typedefs and qualifiers. */
  resolve(id: number): BtfType {
    const type = this.#types.get(id);
    assert.ok(type, `no type ${id}`);
    const isName = ['TYPEDEF', 'CONST', 'VOLATILE'].includes(type.kind);
    return isName && type.type_id !== undefined ? this.resolve(type.type_id) : type;
  }

  /** Field names -> byte offsets, with the size; padding named `zero` is left out. */
  structure(name: string): Record<string, number> | undefined {
    const type = this.find('STRUCT', name);
    if (type === undefined) return undefined;
    const fields = (type.members ?? [])
      .filter((member) => member.name !== 'zero')
      .map((member) => [member.name, member.bits_offset / 8]);
    return { ...Object.fromEntries(fields), size_bytes: type.size };
  }

  member(structure: string, name: string): BtfType {
    const found = this.find('STRUCT', structure)?.members?.find((member) => member.name === name);
    assert.ok(found, `${structure}.${name}`);
    return this.resolve(found.type_id);
  }

  enumeration(name: string): Record<string, number> {
    const values = this.find('ENUM', name)?.values;
    assert.ok(values, `enum ${name}`);
    return Object.fromEntries(values.map((value) => [value.name, value.val]));
  }
}

/** The header compiled by itself: a type that no map or variable of the object has is not in its BTF. */
function compileHeader(): Btf {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-layout-'));
  try {
    const source = join(directory, 'types.c');
    const object = join(directory, 'types.o');
    const names = ['struct record', 'enum verdict', 'enum record_flags', 'enum syscall_kind'];
    writeFileSync(
      source,
      `#include "sensor.h"\n${names.map((name, index) => `${name} variable${index};`).join('\n')}\n`,
    );
    const headers = spawnSync('uname', ['-m'], { encoding: 'utf8' }).stdout.trim();
    const options = [
      '-target',
      'bpf',
      '-O2',
      '-g',
      '-I',
      BPF_DIRECTORY,
      '-idirafter',
      `/usr/include/${headers}-linux-gnu`,
    ];
    const clang = spawnSync('clang-14', [...options, '-c', source, '-o', object], { encoding: 'utf8' });
    assert.equal(clang.status, 0, clang.stderr);
    return new Btf(object);
  } finally {
    rmSync(directory, { recursive: true });
  }
}

const present = (tool: string): boolean => spawnSync(tool, ['--version']).status === 0;
const skip = present('bpftool') ? false : 'bpftool is not installed';
const skipHeader = skip || (present('clang-14') ? false : 'clang-14 is not installed');

const snake = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
const snakeKeys = (fields: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(fields).map(([name, offset]) => [snake(name), offset]));

suite('the committed object has the structures of layout.ts', { skip }, () => {
  const btf = skip ? undefined : new Btf(`${BPF_DIRECTORY}/sensor.bpf.o`);

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

  test('struct pending: where the time of the access is', () => {
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

suite('the header has the record and the words of layout.ts', { skip: skipHeader }, () => {
  const btf = skipHeader ? undefined : compileHeader();

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
