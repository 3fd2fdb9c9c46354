/**
 * Rewrites a module so that the host can reach everything that its code can change: memory and globals are
 * exported, and the size of the memory is in a global, too. So an instance can be reset even if its memory has
 * grown: the guest sees its initial size, and all memory beyond that is zero. (A guest that reads beyond that
 * traps in a new instance, and reads zeros in one that was reset.)
 */
import { BinaryReader, BinaryWriter, type Section, sectionIds } from './binary.ts';
import { changesOnlyMemoryAndGlobals, skipInstruction, skipLocals } from './instructions.ts';
import { skipValueType } from './metadata.ts';
import { importsOf } from './module-imports.ts';

/** How an instance is reset: the exports that contain everything that it can change. */
export interface Restoring {
  readonly memory: string;
  readonly globals: readonly string[];
}

/** Prefix of the added exports: no export of a policy starts with it. */
const prefix = 'rampart:';
const [memorySize, memoryGrow, call, end] = [0x3f, 0x40, 0x10, 0x0b];
const [i32, functionType, mutable] = [0x7f, 0x60, 1];

/**
 * Rewrites a module so that everything it can change is exported. Undefined if it can change more than memory and globals, or cannot be
 * parsed.
 */
export function reachable(
  sections: readonly Section[],
  minPages: number,
): { readonly sections: readonly Section[]; readonly restoring: Restoring } | undefined {
  const contents = new Map(sections.map(({ id, content }) => [id, content]));
  const imported = importsOf(contents.get(sectionIds.import));
  const globals = mutableGlobals(contents.get(sectionIds.global), imported.globals);
  const code = contents.get(sectionIds.code);
  const types = plainTypes(contents.get(sectionIds.type));
  if (globals === undefined || imported.changeable || types === undefined) return undefined;
  if (code !== undefined && !changesOnlyMemoryAndGlobals(code)) return undefined;
  const globalCount = countOf(contents.get(sectionIds.global));
  const pages = imported.globals + globalCount;
  const grow = imported.functions + countOf(contents.get(sectionIds.function));
  const added = new Map([
    [sectionIds.type, extended(contents.get(sectionIds.type), [growType, sizeType])],
    [sectionIds.function, extended(contents.get(sectionIds.function), [leb(types), leb(types + 1)])],
    [
      sectionIds.global,
      extended(contents.get(sectionIds.global), [[i32, mutable, ...constant(minPages), end]]),
    ],
    [
      sectionIds.code,
      extended(code === undefined ? undefined : withOwnSize(code, grow), [growBody(pages), sizeBody(pages)]),
    ],
  ] as const);
  const named = [
    { name: `${prefix}memory`, kind: 2, index: 0 },
    ...[...globals, pages].map((index) => ({ name: `${prefix}global:${index}`, kind: 3, index })),
  ];
  const exports = extended(
    contents.get(sectionIds.export),
    named.map(({ name, kind, index }) => exportOf(name, kind, index)),
  );
  return {
    sections: withSections(sections, new Map([...added, [sectionIds.export, exports]])),
    restoring: { memory: named[0]?.name ?? '', globals: named.slice(1).map(({ name }) => name) },
  };
}

function countOf(content: Uint8Array | undefined): number {
  return content === undefined ? 0 : new BinaryReader(content).u32();
}

/** The number of types; undefined if some are not function types, in which case the indexes of types would differ. */
function plainTypes(content: Uint8Array | undefined): number | undefined {
  if (content === undefined) return 0;
  const reader = new BinaryReader(content);
  const count = reader.u32();
  for (let left = count; left > 0; left--) {
    if (reader.byte() !== functionType) return undefined;
    for (const _of of ['parameters', 'results'])
      for (let values = reader.u32(); values > 0; values--) skipValueType(reader);
  }
  return count;
}

/** A section with items appended. */
function extended(content: Uint8Array | undefined, more: readonly (readonly number[])[]): Uint8Array {
  const reader = new BinaryReader(content ?? Uint8Array.of(0));
  const writer = new BinaryWriter();
  writer.u32(reader.u32() + more.length);
  writer.bytes(reader.rest());
  for (const bytes of more) writer.bytes(bytes);
  return writer.finish();
}

/** Sections are ordered by number, except tags (13), which come before globals, and the data count (12). */
function withSections(sections: readonly Section[], made: ReadonlyMap<number, Uint8Array>): Section[] {
  const all = sections.map(({ id, content }) => ({ id, content: made.get(id) ?? content }));
  for (const [id, content] of made) {
    if (all.some((section) => section.id === id)) continue;
    const at = all.findIndex((section) => placeOf(section.id) > placeOf(id));
    all.splice(at < 0 ? all.length : at, 0, { id, content });
  }
  return all;
}

function placeOf(id: number): number {
  if (id === 13) return 5.5;
  return id === 12 ? 9.5 : id;
}

/** The code, with its instructions that read the size of the memory or grow it replaced by calls of the added functions. */
function withOwnSize(content: Uint8Array, grow: number): Uint8Array {
  const reader = new BinaryReader(content);
  const writer = new BinaryWriter();
  const count = reader.u32();
  writer.u32(count);
  for (let left = count; left > 0; left--) {
    const body = rewritten(reader.take(reader.u32()), grow);
    writer.u32(body.length);
    writer.bytes(body);
  }
  return writer.finish();
}

function rewritten(body: Uint8Array, grow: number): Uint8Array {
  const reader = new BinaryReader(body);
  const writer = new BinaryWriter();
  let copied = 0;
  skipLocals(reader);
  while (!reader.atEnd) {
    const { at } = reader;
    const opcode = body[at];
    skipInstruction(reader);
    if (opcode !== memorySize && opcode !== memoryGrow) continue;
    writer.bytes(body.subarray(copied, at));
    writer.bytes([call, ...leb(opcode === memoryGrow ? grow : grow + 1)]);
    copied = reader.at;
  }
  if (copied === 0) return body;
  writer.bytes(body.subarray(copied));
  return writer.finish();
}

const growType = [functionType, 1, i32, 1, i32];
const sizeType = [functionType, 0, 1, i32];

/**
 * `grow(pages)`, which replaces memory.grow. `size` is a global, `sum` a local:
 *
 *     if (pages > 65536) return -1;
 *     sum = size + pages;
 *     if (sum > memory.size && memory.grow(sum - memory.size) === -1) return -1;
 *     const before = size; size = sum; return before;
 */
function growBody(global: number): number[] {
  const [pages, sum] = [0, 1];
  const [get, set, getGlobal, setGlobal] = [0x20, 0x21, 0x23, 0x24];
  const [greater, equal, plus, minus] = [0x4b, 0x46, 0x6a, 0x6b];
  const refuse = [0x04, 0x40, ...constant(-1), 0x0f, end];
  const body = [
    ...[1, 1, i32],
    ...[get, pages, ...constant(65_536), greater, ...refuse],
    ...[getGlobal, ...leb(global), get, pages, plus, set, sum],
    ...[get, sum, memorySize, 0, greater, 0x04, 0x40],
    ...[get, sum, memorySize, 0, minus, memoryGrow, 0, ...constant(-1), equal, ...refuse],
    end,
    ...[getGlobal, ...leb(global), get, sum, setGlobal, ...leb(global)],
    end,
  ];
  return [...leb(body.length), ...body];
}

function sizeBody(global: number): number[] {
  const body = [0, 0x23, ...leb(global), end];
  return [...leb(body.length), ...body];
}

function exportOf(name: string, kind: number, index: number): number[] {
  const writer = new BinaryWriter();
  writer.name(name);
  writer.byte(kind);
  writer.u32(index);
  return [...writer.finish()];
}

function leb(value: number): number[] {
  const writer = new BinaryWriter();
  writer.u32(value);
  return [...writer.finish()];
}

/** An `i32.const`, whose operand is signed: values up to 65,536, and -1, are needed. */
function constant(value: number): number[] {
  const bytes: number[] = [];
  let left = value;
  for (;;) {
    const low = left & 0x7f;
    left >>= 7;
    const isLast = (left === 0 && (low & 0x40) === 0) || (left === -1 && (low & 0x40) !== 0);
    bytes.push(isLast ? low : low | 0x80);
    if (isLast) return [0x41, ...bytes];
  }
}

/** The indexes of the globals that code can set; undefined if JavaScript cannot read and set the type of one of them. */
function mutableGlobals(content: Uint8Array | undefined, imported: number): number[] | undefined {
  const found: number[] = [];
  if (content === undefined) return found;
  const reader = new BinaryReader(content);
  const count = reader.u32();
  for (let index = imported; index < imported + count; index++) {
    const type = content[reader.at];
    skipValueType(reader);
    const isMutable = reader.byte() === 1;
    // JavaScript can read and set i32, i64, f32 and f64.
    if (isMutable && (type === undefined || type < 0x7c || type > 0x7f)) return undefined;
    if (isMutable) found.push(index);
    if (!skipConstant(reader)) return undefined;
  }
  return found;
}

/** Skips the initializer of a global. @returns false if it cannot be parsed */
function skipConstant(reader: BinaryReader): boolean {
  for (;;) {
    const opcode = reader.byte();
    if (opcode === 0x0b) return true;
    // i32.const, i64.const, global.get, ref.null, ref.func have a number.
    if ([0x41, 0x42, 0x23, 0xd0, 0xd2].includes(opcode)) reader.skipLeb();
    else if (opcode === 0x43) reader.take(4);
    else if (opcode === 0x44) reader.take(8);
    // add, sub, mul have no operand.
    else if (![0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e].includes(opcode)) return false;
  }
}
