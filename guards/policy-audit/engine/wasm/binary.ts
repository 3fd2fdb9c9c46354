/** The part of the WebAssembly binary format that is parsed and rewritten here: sections, integers (LEB128), names. */

/** The module is not WebAssembly, or is truncated. */
export class BinaryError extends Error {
  override readonly name = 'BinaryError';
}

export const sectionIds = {
  custom: 0,
  type: 1,
  import: 2,
  function: 3,
  table: 4,
  memory: 5,
  global: 6,
  export: 7,
  code: 10,
} as const;

export interface Section {
  readonly id: number;
  readonly content: Uint8Array;
}

/** There are thirteen kinds of sections, and tools add custom ones. */
const maxSections = 10_000;

const header = [0x00, 0x61, 0x73, 0x6d, 0x01, 0x00, 0x00, 0x00];

/** @throws {BinaryError} */
export function sectionsOf(module: Uint8Array): Section[] {
  if (header.some((byte, at) => module[at] !== byte)) {
    throw new BinaryError('this is not a WebAssembly module of version 1');
  }
  const sections: Section[] = [];
  const reader = new BinaryReader(module, header.length);
  while (!reader.atEnd) {
    const id = reader.byte();
    if (sections.length === maxSections)
      throw new BinaryError(`the module has more than ${maxSections} sections`);
    sections.push({ id, content: reader.take(reader.u32()) });
  }
  return sections;
}

export function moduleOf(sections: readonly Section[]): Uint8Array<ArrayBuffer> {
  const writer = new BinaryWriter();
  writer.bytes(header);
  for (const { id, content } of sections) {
    writer.byte(id);
    writer.u32(content.length);
    writer.bytes(content);
  }
  return writer.finish();
}

/** The content of the first custom section with this name, without the name. */
export function customSection(sections: readonly Section[], name: string): Uint8Array | undefined {
  for (const { id, content } of sections) {
    if (id !== sectionIds.custom) continue;
    const reader = new BinaryReader(content);
    if (reader.name() === name) return reader.rest();
  }
  return undefined;
}

export class BinaryReader {
  readonly #from: Uint8Array;
  #at: number;

  constructor(from: Uint8Array, at = 0) {
    this.#from = from;
    this.#at = at;
  }

  get at(): number {
    return this.#at;
  }

  get atEnd(): boolean {
    return this.#at >= this.#from.length;
  }

  byte(): number {
    const byte = this.#from[this.#at++];
    if (byte === undefined) throw new BinaryError('the module is truncated');
    return byte;
  }

  take(size: number): Uint8Array {
    if (this.#at + size > this.#from.length) throw new BinaryError('the module is truncated');
    return this.#from.subarray(this.#at, (this.#at += size));
  }

  rest(): Uint8Array {
    return this.#from.subarray(this.#at);
  }

  /** Skips an integer of any width, signed or unsigned. */
  skipLeb(): void {
    for (let length = 0; length < 10; length++) if (this.byte() < 0x80) return;
    throw new BinaryError('an integer is too long');
  }

  u32(): number {
    let [value, shift] = [0, 1];
    for (let length = 0; length < 5; length++) {
      const byte = this.byte();
      value += (byte & 0x7f) * shift;
      if (byte < 0x80) {
        if (value > 0xffff_ffff) break;
        return value;
      }
      shift *= 128;
    }
    throw new BinaryError('an integer is too long');
  }

  name(): string {
    return new TextDecoder().decode(this.take(this.u32()));
  }
}

export class BinaryWriter {
  readonly #parts: Uint8Array[] = [];
  #size = 0;

  byte(value: number): void {
    this.bytes([value]);
  }

  bytes(values: Uint8Array | readonly number[]): void {
    const part = values instanceof Uint8Array ? values : Uint8Array.from(values);
    this.#parts.push(part);
    this.#size += part.length;
  }

  u32(value: number): void {
    const bytes: number[] = [];
    let left = value;
    do {
      const low = left % 128;
      left = Math.floor(left / 128);
      bytes.push(left > 0 ? low | 0x80 : low);
    } while (left > 0);
    this.bytes(bytes);
  }

  name(text: string): void {
    const bytes = new TextEncoder().encode(text);
    this.u32(bytes.length);
    this.bytes(bytes);
  }

  finish(): Uint8Array<ArrayBuffer> {
    const all = new Uint8Array(this.#size);
    let at = 0;
    for (const part of this.#parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  }
}
