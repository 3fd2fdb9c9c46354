/** The imports of a module that affect what it can change. */
import { BinaryError, BinaryReader } from './binary.ts';
import { skipImportType } from './metadata.ts';

/** In pages of 64 KiB. */
export interface MemoryLimits {
  readonly min: number;
  readonly max: number | undefined;
}

export function limitsOf(reader: BinaryReader): { flags: number; min: number; max: number | undefined } {
  const flags = reader.byte();
  if (flags > 3) throw new BinaryError('the module has a 64-bit memory');
  const min = reader.u32();
  return { flags, min, max: (flags & 1) === 0 ? undefined : reader.u32() };
}

/** `changeable`: whether the module imports a table or a global, which its provider could still change. */
export function importsOf(content: Uint8Array | undefined): {
  memories: MemoryLimits[];
  globals: number;
  functions: number;
  changeable: boolean;
} {
  const found = { memories: [] as MemoryLimits[], globals: 0, functions: 0, changeable: false };
  if (content === undefined) return found;
  const reader = new BinaryReader(content);
  for (let left = reader.u32(); left > 0; left--) {
    reader.name();
    reader.name();
    const kind = content[reader.at];
    if (kind === 2) found.memories.push(limitsOf(new BinaryReader(content, reader.at + 1)));
    if (kind === 3) found.globals++;
    if (kind === 0) found.functions++;
    if (kind === 1 || kind === 3) found.changeable = true;
    skipImportType(reader);
  }
  return found;
}
