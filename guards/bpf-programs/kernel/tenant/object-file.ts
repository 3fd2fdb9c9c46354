/**
 * Reads the requirements of an object file before libbpf opens it: the file is untrusted. It parses the file as libbpf does (src/libbpf.c),
 * and examines more wherever the two could differ: libbpf takes the code of a program from the program's section and from `.text`.
 */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

const FILE_HEADER_BYTES = 64;
const SECTION_HEADER_BYTES = 64;
const SYMBOL_BYTES = 24;
const RELOCATION_BYTES = 16;
const SHT_PROGBITS = 1;
const SHT_SYMTAB = 2;
const SHT_REL = 9;
const SHF_EXECINSTR = 4n;
/** elf(5): the symbol is defined in another file. */
const SHN_UNDEF = 0;

const SHT_NOBITS = 8;
/** Maximum length of a symbol's or section's name, in bytes. The kernel's own names have up to 512 bytes. */
const LONGEST_NAME = 4096;
const MAX_EXTERNS = 1000;

interface Section {
  readonly name: string;
  readonly type: number;
  readonly isExecutable: boolean;
  /** For a relocation table: the section that its relocations apply to. */
  readonly info: number;
  readonly link: number;
  /** Not a copy: a view of the file. */
  readonly bytes: Buffer;
}

/** A relocatable ELF file with eBPF programs, 64-bit and little-endian (elf(5)). */
export class ObjectFile {
  readonly #sections: readonly Section[];

  /** @throws {RampartError} `DECODE` */
  constructor(bytes: Uint8Array) {
    const file = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    if (
      file.length < FILE_HEADER_BYTES ||
      file.readUInt32BE(0) !== 0x7f454c46 ||
      file[4] !== 2 ||
      file[5] !== 1
    )
      throw malformed('it is not a 64-bit little-endian ELF file');
    this.#sections = sectionsOf(file);
  }

  /** The instructions from which libbpf takes a program in a section of this name; a view, not a copy. @throws {RampartError} `DECODE` */
  code(section: string): readonly Buffer[] {
    // If no instructions are found where libbpf has found a program, libbpf has parsed the file differently.
    const sections = this.#sections.filter(isCodeOf(section));
    if (!sections.some(({ name, bytes }) => name === section && bytes.length > 0))
      throw malformed(`it has no instructions of section ${section}`);
    return sections.map(({ bytes }) => bytes);
  }

  /** All instructions of the file; views, not copies. */
  get allCode(): readonly Buffer[] {
    return this.#sections
      .filter(({ type, isExecutable }) => type === SHT_PROGBITS && isExecutable)
      .map(({ bytes }) => bytes);
  }

  /** Its sections with BTF; views, not copies. libbpf uses one of them. */
  get types(): readonly Buffer[] {
    return this.#sections.filter(({ name }) => name === '.BTF').map(({ bytes }) => bytes);
  }

  /** Kernel functions and variables that the instructions of {@link code} refer to by name. */
  externs(section: string): readonly string[] {
    const isCode = isCodeOf(section);
    const symbols = new Set<number>();
    for (const { type, info, bytes } of this.#sections) {
      const changed = this.#sections[info];
      if (type !== SHT_REL || changed === undefined || !isCode(changed)) continue;
      for (let at = 0; at + RELOCATION_BYTES <= bytes.length; at += RELOCATION_BYTES)
        symbols.add(bytes.readUInt32LE(at + 12));
    }
    return this.#undefinedNames(symbols).filter((name) => !isConfiguration(name));
  }

  #undefinedNames(indexes: ReadonlySet<number>): readonly string[] {
    // libbpf uses the only symbol table, whichever one a relocation table names.
    const [table, ...more] = this.#sections.filter(({ type }) => type === SHT_SYMTAB);
    if (more.length > 0) throw malformed('it has more than one table of symbols');
    const names = new Set<string>();
    for (const index of indexes) {
      const at = index * SYMBOL_BYTES;
      if (table === undefined || at + SYMBOL_BYTES > table.bytes.length)
        throw malformed('a relocation has no symbol');
      if (index === 0 || table.bytes.readUInt16LE(at + 6) !== SHN_UNDEF) continue;
      names.add(textAt(this.#sections[table.link]?.bytes, table.bytes.readUInt32LE(at)));
      if (names.size > MAX_EXTERNS)
        throw malformed(`a program names more than ${MAX_EXTERNS} functions of the kernel`);
    }
    return [...names];
  }
}

function isCodeOf(section: string): (of: Section) => boolean {
  return ({ name, type, isExecutable }) =>
    type === SHT_PROGBITS && isExecutable && (name === section || name === '.text');
}

/** Whether it is an `extern ... __kconfig`: libbpf recognizes these by name, and sets values that every process can read. */
function isConfiguration(name: string): boolean {
  return /^(?:CONFIG|LINUX)_/.test(name);
}

function sectionsOf(file: Buffer): readonly Section[] {
  const offset = Number(file.readBigUInt64LE(40));
  const count = file.readUInt16LE(60);
  const end = offset + count * SECTION_HEADER_BYTES;
  // A count of 0 means that the first section header has the count, for files with 65,280 sections or more.
  if (file.readUInt16LE(58) !== SECTION_HEADER_BYTES || count === 0 || !(end <= file.length))
    throw malformed('its section headers are not in the file');
  const headers = Array.from({ length: count }, (_, index) =>
    file.subarray(offset + index * SECTION_HEADER_BYTES, offset + (index + 1) * SECTION_HEADER_BYTES),
  );
  const bytesOf = (header: Buffer | undefined): Buffer => {
    const from = Number(header?.readBigUInt64LE(24) ?? 0);
    const to = from + Number(header?.readBigUInt64LE(32) ?? 0);
    return to <= file.length ? file.subarray(from, to) : file.subarray(0, 0);
  };
  const namesAt = file.readUInt16LE(62);
  // SHN_XINDEX means that the first header has the index, for files with that many sections. libbpf follows it in any file, so it is
  // refused here.
  if (namesAt >= count) throw malformed('its section names are not in the file');
  const names = bytesOf(headers[namesAt]);
  let left = file.length;
  return headers.map((header) => {
    const type = header.readUInt32LE(4);
    const bytes = type === SHT_NOBITS ? file.subarray(0, 0) : bytesOf(header);
    // Otherwise each of 65,000 sections could contain the whole file.
    if ((left -= bytes.length) < 0) throw malformed('its sections overlap');
    if (type === SHT_PROGBITS && BigInt(bytes.length) !== header.readBigUInt64LE(32))
      throw malformed('a section ends behind the end of the file');
    return {
      name: textAt(names, header.readUInt32LE(0)),
      type,
      isExecutable: (header.readBigUInt64LE(8) & SHF_EXECINSTR) !== 0n,
      link: header.readUInt32LE(40),
      info: header.readUInt32LE(44),
      bytes,
    };
  });
}

/** Converts a name. Names that are equal for libbpf are equal here as well. */
function textAt(strings: Buffer | undefined, at: number): string {
  if (strings === undefined || at >= strings.length) return '';
  const length = strings.subarray(at, at + LONGEST_NAME).indexOf(0);
  if (length < 0) throw malformed('a name does not end');
  return strings.toString('utf8', at, at + length);
}

function malformed(why: string): RampartError {
  return new RampartError(errorCodes.DECODE, { what: 'cannot read the object file', why });
}
