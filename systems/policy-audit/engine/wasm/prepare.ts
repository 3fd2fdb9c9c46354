/**
 * A policy's module as it is compiled: with a bound on its memory, and with all that it can change in reach, so that an instance
 * can be put back to where it was before a request.
 *
 * @module
 */
import { EvaluationError } from '../evaluator.ts';
import {
  BinaryError,
  BinaryReader,
  BinaryWriter,
  moduleOf,
  type Section,
  sectionIds,
  sectionsOf,
} from './binary.ts';
import { changesOnlyMemoryAndGlobals } from './instructions.ts';
import { skipImportType, skipValueType } from './metadata.ts';

export const pageBytes = 65_536;

/** How an instance is put back: the exports that hold all that it can change. */
export interface Restoring {
  readonly memory: string;
  readonly globals: readonly string[];
}

/** In pages. */
export interface MemoryLimits {
  readonly least: number;
  readonly most: number | undefined;
}

export interface PreparedModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Undefined where the module can change what cannot be put back: then each evaluation has an instance of its own. */
  readonly restoring: Restoring | undefined;
  /** Of a memory that the module wants from the host. */
  readonly importedMemory: MemoryLimits | undefined;
}

/** No name of a policy's own begins so. */
const prefix = 'rampart:';

/**
 * @param memoryPages what the module's memory may grow to.
 * @throws {EvaluationError} `memory` for one that begins with more.
 * @throws {BinaryError} for what is no module of one memory of 32 bits.
 */
export function prepareModule(module: Uint8Array, memoryPages: number): PreparedModule {
  const sections = sectionsOf(module).map((section) =>
    section.id === sectionIds.memory ? limited(section, memoryPages) : section,
  );
  const imported = importsOf(contentOf(sections, sectionIds.import));
  const own = contentOf(sections, sectionIds.memory);
  const importedMemory = imported.memories[0];
  if ((importedMemory?.least ?? 0) > memoryPages) throw tooLarge(importedMemory?.least ?? 0, memoryPages);
  const memories = imported.memories.length + (own === undefined ? 0 : new BinaryReader(own).u32());
  if (memories !== 1) throw new BinaryError(`the module has ${memories} memories; policies have one`);
  const globals = mutableGlobals(contentOf(sections, sectionIds.global), imported.globals);
  const code = contentOf(sections, sectionIds.code);
  const restorable =
    globals !== undefined &&
    !imported.changeable &&
    (code === undefined || changesOnlyMemoryAndGlobals(code));
  if (!restorable) return { bytes: moduleOf(sections), restoring: undefined, importedMemory };
  const added = [
    { name: `${prefix}memory`, kind: 2, index: 0 },
    ...globals.map((index) => ({ name: `${prefix}global:${index}`, kind: 3, index })),
  ];
  return {
    bytes: moduleOf(withExports(sections, added)),
    restoring: { memory: `${prefix}memory`, globals: added.slice(1).map(({ name }) => name) },
    importedMemory,
  };
}

function contentOf(sections: readonly Section[], wanted: number): Uint8Array | undefined {
  return sections.find(({ id }) => id === wanted)?.content;
}

/** The section of memories with a maximum for each. */
function limited({ id, content }: Section, memoryPages: number): Section {
  const reader = new BinaryReader(content);
  const writer = new BinaryWriter();
  const count = reader.u32();
  writer.u32(count);
  for (let left = count; left > 0; left--) {
    const { flags, least, most } = limitsOf(reader);
    if (least > memoryPages) throw tooLarge(least, memoryPages);
    writer.byte(flags | 1);
    writer.u32(least);
    writer.u32(Math.min(most ?? memoryPages, memoryPages));
  }
  return { id, content: writer.finish() };
}

function limitsOf(reader: BinaryReader): { flags: number; least: number; most: number | undefined } {
  const flags = reader.byte();
  if (flags > 3) throw new BinaryError('the module has a memory of 64 bits');
  const least = reader.u32();
  return { flags, least, most: (flags & 1) === 0 ? undefined : reader.u32() };
}

/** What an instance begins with is over the limit. */
export function tooLarge(least: number, memoryPages: number): EvaluationError {
  const [needs, may] = [least, memoryPages].map((pages) => `${(pages * pageBytes) / 2 ** 20} MiB`);
  return new EvaluationError(
    'memory',
    `the policy begins with ${needs} of memory, more than the limit of ${may}`,
  );
}

/** `changeable`: it imports a table or a global, which whoever it comes from could hold on to. */
function importsOf(content: Uint8Array | undefined): {
  memories: MemoryLimits[];
  globals: number;
  changeable: boolean;
} {
  const found = { memories: [] as MemoryLimits[], globals: 0, changeable: false };
  if (content === undefined) return found;
  const reader = new BinaryReader(content);
  for (let left = reader.u32(); left > 0; left--) {
    reader.name();
    reader.name();
    const kind = content[reader.at];
    if (kind === 2) found.memories.push(limitsOf(new BinaryReader(content, reader.at + 1)));
    if (kind === 3) found.globals++;
    if (kind === 1 || kind === 3) found.changeable = true;
    skipImportType(reader);
  }
  return found;
}

/** The numbers of the globals that code can set; undefined where one is of a kind that JavaScript cannot read and set. */
function mutableGlobals(content: Uint8Array | undefined, imported: number): number[] | undefined {
  const found: number[] = [];
  if (content === undefined) return found;
  const reader = new BinaryReader(content);
  const count = reader.u32();
  for (let index = imported; index < imported + count; index++) {
    const type = content[reader.at];
    skipValueType(reader);
    const isMutable = reader.byte() === 1;
    // i32, i64, f32, f64.
    if (isMutable && (type === undefined || type < 0x7c || type > 0x7f)) return undefined;
    if (isMutable) found.push(index);
    if (!skipConstant(reader)) return undefined;
  }
  return found;
}

/** The expression that a global begins with; false for one that is not understood. */
function skipConstant(reader: BinaryReader): boolean {
  for (;;) {
    const opcode = reader.byte();
    if (opcode === 0x0b) return true;
    // i32.const, i64.const, global.get, ref.null, ref.func: a number.
    if ([0x41, 0x42, 0x23, 0xd0, 0xd2].includes(opcode)) reader.skipLeb();
    else if (opcode === 0x43) reader.take(4);
    else if (opcode === 0x44) reader.take(8);
    // add, sub, mul: nothing.
    else if (![0x6a, 0x6b, 0x6c, 0x7c, 0x7d, 0x7e].includes(opcode)) return false;
  }
}

function withExports(
  sections: readonly Section[],
  added: readonly { readonly name: string; readonly kind: number; readonly index: number }[],
): Section[] {
  const old = contentOf(sections, sectionIds.export);
  const reader = new BinaryReader(old ?? Uint8Array.of(0));
  const writer = new BinaryWriter();
  writer.u32(reader.u32() + added.length);
  writer.bytes(reader.rest());
  for (const { name, kind, index } of added) {
    writer.name(name);
    writer.byte(kind);
    writer.u32(index);
  }
  const made = { id: sectionIds.export, content: writer.finish() };
  if (old !== undefined) return sections.map((section) => (section.id === made.id ? made : section));
  // Sections stand in the order of their numbers, but for custom ones, which may stand anywhere, and tags (13).
  const at = sections.findIndex(({ id }) => id > made.id && id !== 13);
  return sections.toSpliced(at < 0 ? sections.length : at, 0, made);
}
