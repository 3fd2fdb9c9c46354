/**
 * Prepares a policy's module for compilation: limits its memory, and exports everything that it can change, so that an instance
 * can be reset to its state before a request.
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
import { importsOf, limitsOf, type MemoryLimits } from './module-imports.ts';
import { reachable, type Restoring } from './put-back.ts';

export const pageBytes = 65_536;

export interface PreparedModule {
  readonly bytes: Uint8Array<ArrayBuffer>;
  /** Undefined if the module can change what cannot be reset: then each evaluation gets a new instance. */
  readonly restoring: Restoring | undefined;
  /** Limits of a memory that the module imports from the host. */
  readonly importedMemory: MemoryLimits | undefined;
}

/**
 * Prepares a module.
 *
 * @param memoryPages - Limit of the module's memory.
 * @throws {EvaluationError} `memory` if the module starts with more memory.
 * @throws {BinaryError} if it is not a module with one 32-bit memory.
 */
export function prepareModule(module: Uint8Array, memoryPages: number): PreparedModule {
  // Custom sections do not matter for running the module, and code positions in them may change.
  const sections = sectionsOf(module).filter(({ id }) => id !== sectionIds.custom);
  const memory = memoryOf(sections);
  if (memory.min > memoryPages) throw tooLarge(memory.min, memoryPages);
  const bounded = sections.map((section) =>
    section.id === sectionIds.memory ? limited(section, memoryPages) : section,
  );
  const importedMemory = memory.isImported ? { min: memory.min, max: memory.max } : undefined;
  const made = reachable(bounded, memory.min);
  return made === undefined
    ? { bytes: moduleOf(bounded), restoring: undefined, importedMemory }
    : { bytes: moduleOf(made.sections), restoring: made.restoring, importedMemory };
}

/** The one memory of the module. */
function memoryOf(sections: readonly Section[]): MemoryLimits & { readonly isImported: boolean } {
  const imported = importsOf(contentOf(sections, sectionIds.import)).memories;
  const content = contentOf(sections, sectionIds.memory);
  const reader = new BinaryReader(content ?? Uint8Array.of(0));
  const own = Array.from({ length: Math.min(2, reader.u32()) }, () => limitsOf(reader));
  const [memory, second] = [...imported, ...own];
  if (memory === undefined || second !== undefined) {
    throw new BinaryError(`the module has ${memory === undefined ? 'no memory' : 'more than one memory'}`);
  }
  return { min: memory.min, max: memory.max, isImported: imported.length > 0 };
}

function contentOf(sections: readonly Section[], wanted: number): Uint8Array | undefined {
  return sections.find(({ id }) => id === wanted)?.content;
}

/** The memory section, with a maximum size for each memory. */
function limited({ id, content }: Section, memoryPages: number): Section {
  const reader = new BinaryReader(content);
  const writer = new BinaryWriter();
  const count = reader.u32();
  writer.u32(count);
  for (let left = count; left > 0; left--) {
    const { flags, min, max } = limitsOf(reader);
    writer.byte(flags | 1);
    writer.u32(min);
    writer.u32(Math.min(max ?? memoryPages, memoryPages));
  }
  return { id, content: writer.finish() };
}

/** The initial memory of an instance exceeds the limit. */
export function tooLarge(min: number, memoryPages: number): EvaluationError {
  const [needs, may] = [min, memoryPages].map((pages) => `${(pages * pageBytes) / 2 ** 20} MiB`);
  return new EvaluationError(
    'memory',
    `the policy requires ${needs} of memory at start, more than the limit of ${may}`,
  );
}
