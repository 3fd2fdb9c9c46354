/** Where programs begin, for uprobes on what has no symbols. */
import { readFileSync } from 'node:fs';

/** Where in the file of a program its first instruction is (elf(5)). */
export function entryOffset(path: string): number {
  const elf = readFileSync(path);
  const entry = elf.readBigUInt64LE(24);
  const headers = Number(elf.readBigUInt64LE(32));
  const count = elf.readUInt16LE(56);
  for (let index = 0; index < count; index++) {
    const at = headers + index * elf.readUInt16LE(54);
    const [offset, address, size] = [8, 16, 32].map((field) => elf.readBigUInt64LE(at + field));
    if (offset === undefined || address === undefined || size === undefined) break;
    // PT_LOAD
    if (elf.readUInt32LE(at) === 1 && entry >= address && entry < address + size) {
      return Number(entry - address + offset);
    }
  }
  throw new Error(`${path} has no entry`);
}
