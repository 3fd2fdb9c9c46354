/** Structures of an eBPF object or of its headers, as bpftool reads them, for tests of layouts. */
import assert from 'node:assert/strict';
import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export const BPF_DIRECTORY = join(import.meta.dirname, 'bpf');

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

export class Btf {
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

/**
 * A header compiled by itself: a type that no map or variable of the object has is not in its BTF.
 *
 * @param names - The types that are wanted: `struct record`.
 */
export function compileHeader(header: string, names: readonly string[]): Btf {
  const directory = mkdtempSync(join(tmpdir(), 'rampart-layout-'));
  try {
    const source = join(directory, 'types.c');
    const object = join(directory, 'types.o');
    writeFileSync(
      source,
      `#include "${header}"\n${names.map((name, index) => `${name} variable${index};`).join('\n')}\n`,
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
/** Why the BTF of an object cannot be read, or false. */
export const btfSkip = present('bpftool') ? false : 'bpftool is not installed';
/** Why a header cannot be compiled, or false. */
export const headerSkip = btfSkip || (present('clang-14') ? false : 'clang-14 is not installed');

export const snake = (name: string): string =>
  name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
/** The names of a layout as C spells them. */
export const snakeKeys = (fields: Readonly<Record<string, number>>): Record<string, number> =>
  Object.fromEntries(Object.entries(fields).map(([name, offset]) => [snake(name), offset]));
