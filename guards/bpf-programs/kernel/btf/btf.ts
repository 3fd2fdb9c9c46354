/**
 * Parses BTF (Documentation/bpf/btf.rst), the type information of eBPF: used to find global variables by name, and to decode values of
 * maps. Untrusted BTF may be malformed: each access is checked.
 */
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';

export interface BtfMember {
  /** '' for an anonymous structure or union, whose members count as members of the enclosing one. */
  readonly name: string;
  readonly typeId: number;
  readonly bitOffset: number;
  /** The width of a bit field; 0 for a member that is as wide as its type. */
  readonly bits: number;
}

interface SectionVariable {
  readonly typeId: number;
  readonly offset: number;
  readonly sizeBytes: number;
}

export type BtfType =
  | { readonly kind: 'void' | 'other'; readonly name: string }
  | {
      readonly kind: 'int';
      readonly name: string;
      readonly sizeBytes: number;
      readonly as: 'boolean' | 'character' | 'signed' | 'unsigned';
    }
  | { readonly kind: 'float'; readonly name: string; readonly sizeBytes: number }
  | { readonly kind: 'pointer'; readonly name: string; readonly typeId: number }
  | { readonly kind: 'array'; readonly name: string; readonly typeId: number; readonly count: number }
  | {
      readonly kind: 'struct' | 'union';
      readonly name: string;
      readonly sizeBytes: number;
      readonly members: readonly BtfMember[];
    }
  | {
      readonly kind: 'enum';
      readonly name: string;
      readonly sizeBytes: number;
      readonly signed: boolean;
      readonly values: ReadonlyMap<bigint, string>;
    }
  /** An alias is a typedef, const, volatile, restrict or tag; a variable has a name. */
  | { readonly kind: 'alias' | 'variable'; readonly name: string; readonly typeId: number }
  /** `typeId` is that of its prototype. */
  | { readonly kind: 'function'; readonly name: string; readonly typeId: number }
  | { readonly kind: 'prototype'; readonly name: string; readonly parameterTypeIds: readonly number[] }
  | {
      readonly kind: 'section';
      readonly name: string;
      readonly variables: readonly SectionVariable[];
    };

/**
 * Limit of types, members, enumeration values and variables together. A kernel's BTF has some 500,000, but that of a program only the few
 * that it uses.
 */
const MAX_ENTRIES = 400_000;
/** The kernel's own limit of names is 512 bytes (include/linux/kallsyms.h). */
const LONGEST_NAME = 4096;

const MAGIC = 0xeb9f;
const VOID: BtfType = { kind: 'void', name: '' };
/** A chain of typedefs and qualifiers longer than this must be circular. */
const LONGEST_CHAIN = 32;

/** One parsed BTF. Type 0 is void. */
export class Btf {
  readonly types: readonly BtfType[];

  /** @throws {RampartError} `DECODE` if the bytes are not valid BTF. */
  constructor(bytes: Uint8Array) {
    try {
      this.types = [VOID, ...parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength))];
    } catch (error) {
      if (!(error instanceof RangeError)) throw error;
      throw new RampartError(errorCodes.DECODE, { what: 'malformed BTF', why: error.message, cause: error });
    }
  }

  /** A type without its typedefs and qualifiers. @throws {RampartError} `DECODE` for an unknown id */
  resolved(id: number): BtfType {
    for (let left = LONGEST_CHAIN; left > 0; left--) {
      const type = this.types[id];
      if (type === undefined) break;
      if (type.kind !== 'alias' && type.kind !== 'variable') return type;
      id = type.typeId;
    }
    throw new RampartError(errorCodes.DECODE, { what: 'malformed BTF', why: `it has no type ${id}` });
  }

  /** The ID of a structure, union, enumeration or typedef; undefined for an unknown name. */
  idOf(name: string): number | undefined {
    const isNamed = ({ kind, name: own }: BtfType): boolean =>
      own === name && ['struct', 'union', 'enum', 'alias', 'int'].includes(kind);
    const id = this.types.findIndex(isNamed);
    return id < 0 ? undefined : id;
  }

  /** The global variables, by name. */
  variables(): ReadonlyMap<string, { readonly section: string } & SectionVariable> {
    const found = new Map<string, { readonly section: string } & SectionVariable>();
    for (const section of this.types) {
      if (section.kind !== 'section') continue;
      for (const entry of section.variables) {
        const variable = this.types[entry.typeId];
        if (variable?.kind === 'variable') found.set(variable.name, { section: section.name, ...entry });
      }
    }
    return found;
  }

  /** Whether an object file gives a map initial contents: then the map's variable is larger than its type. */
  hasInitialValues(mapName: string): boolean {
    const variable = this.variables().get(mapName);
    const type = variable && this.resolved(variable.typeId);
    return type?.kind === 'struct' && variable !== undefined && variable.sizeBytes > type.sizeBytes;
  }
}

function* parse(bytes: Buffer): Generator<BtfType, void> {
  if (bytes.length < 24 || bytes.readUInt16LE(0) !== MAGIC)
    throw new RangeError('its BTF has another byte order');
  const headerBytes = bytes.readUInt32LE(4);
  const begin = headerBytes + bytes.readUInt32LE(8);
  const end = begin + bytes.readUInt32LE(12);
  const stringsBegin = headerBytes + bytes.readUInt32LE(16);
  const strings = bytes.subarray(stringsBegin, stringsBegin + bytes.readUInt32LE(20));
  if (end > bytes.length) throw new RangeError('it ends in the middle of its types');
  // Each name is decoded once; if their total is much larger than the section, names overlap, which is malformed.
  const known = new Map<number, string>();
  let leftBytes = 2 * strings.length;
  const nameAt = (offset: number): string => {
    const before = known.get(offset);
    if (before !== undefined) return before;
    const length = strings.subarray(offset, offset + LONGEST_NAME).indexOf(0);
    if (length < 0) throw new RangeError(`no string at ${offset}`);
    if ((leftBytes -= length) < 0) throw new RangeError('its strings overlap');
    const name = strings.toString('latin1', offset, offset + length);
    known.set(offset, name);
    return name;
  };
  let entries = 0;
  for (let at = begin; at < end;) {
    const name = nameAt(bytes.readUInt32LE(at));
    const info = bytes.readUInt32LE(at + 4);
    const count = info & 0xffff;
    entries += 1 + count;
    if (entries > MAX_ENTRIES) throw new RangeError(`it has more than ${MAX_ENTRIES} types and members`);
    const flag = info >>> 31 === 1;
    // A size or a type id, depending on the kind.
    const value = bytes.readUInt32LE(at + 8);
    const rest = at + 12;
    const [type, restBytes] = parseOne(bytes, (info >>> 24) & 0x1f, {
      name,
      count,
      flag,
      value,
      rest,
      nameAt,
    });
    yield type;
    at = rest + restBytes;
  }
}

interface Raw {
  readonly name: string;
  readonly count: number;
  readonly flag: boolean;
  readonly value: number;
  readonly rest: number;
  readonly nameAt: (offset: number) => string;
}

/** The kind of integer, from the encoding bits of BTF_KIND_INT. */
function meaningOf(info: number): 'boolean' | 'character' | 'signed' | 'unsigned' {
  const encoding = info >>> 24;
  if ((encoding & 4) !== 0) return 'boolean';
  if ((encoding & 2) !== 0) return 'character';
  return (encoding & 1) !== 0 ? 'signed' : 'unsigned';
}

/** Parses a type of the kind BTF_KIND_*. Also returns how many bytes follow the first twelve, which all kinds have. */
function parseOne(bytes: Buffer, kind: number, raw: Raw): readonly [BtfType, number] {
  const { name, count, flag, value, rest, nameAt } = raw;
  const entries = <T>(sizeBytes: number, read: (at: number) => T): T[] =>
    Array.from({ length: count }, (_, index) => read(rest + index * sizeBytes));
  switch (kind) {
    case 1:
      return [{ kind: 'int', name, sizeBytes: value, as: meaningOf(bytes.readUInt32LE(rest)) }, 4];
    case 2:
      return [{ kind: 'pointer', name, typeId: value }, 0];
    case 3:
      return [
        { kind: 'array', name, typeId: bytes.readUInt32LE(rest), count: bytes.readUInt32LE(rest + 8) },
        12,
      ];
    case 4:
    case 5: {
      const members = entries(12, (at): BtfMember => {
        const place = bytes.readUInt32LE(at + 8);
        return {
          name: nameAt(bytes.readUInt32LE(at)),
          typeId: bytes.readUInt32LE(at + 4),
          bitOffset: flag ? place & 0xffffff : place,
          bits: flag ? place >>> 24 : 0,
        };
      });
      return [{ kind: kind === 4 ? 'struct' : 'union', name, sizeBytes: value, members }, count * 12];
    }
    case 6: {
      const values = entries(
        8,
        (at) => [BigInt(bytes.readInt32LE(at + 4)), nameAt(bytes.readUInt32LE(at))] as const,
      );
      return [{ kind: 'enum', name, sizeBytes: value, signed: flag, values: new Map(values) }, count * 8];
    }
    case 19: {
      const values = entries(
        12,
        (at) => [bytes.readBigInt64LE(at + 4), nameAt(bytes.readUInt32LE(at))] as const,
      );
      return [{ kind: 'enum', name, sizeBytes: value, signed: flag, values: new Map(values) }, count * 12];
    }
    // typedef, volatile, const, restrict, type tag
    case 8:
    case 9:
    case 10:
    case 11:
    case 18:
      return [{ kind: 'alias', name, typeId: value }, 0];
    case 14:
      return [{ kind: 'variable', name, typeId: value }, 4];
    case 15: {
      const variables = entries(12, (at) => ({
        typeId: bytes.readUInt32LE(at),
        offset: bytes.readUInt32LE(at + 4),
        sizeBytes: bytes.readUInt32LE(at + 8),
      }));
      return [{ kind: 'section', name, variables }, count * 12];
    }
    case 16:
      return [{ kind: 'float', name, sizeBytes: value }, 0];
    case 12:
      return [{ kind: 'function', name, typeId: value }, 0];
    case 13: {
      const parameterTypeIds = entries(8, (at) => bytes.readUInt32LE(at + 4));
      return [{ kind: 'prototype', name, parameterTypeIds }, count * 8];
    }
    // A declaration without its definition, a tag of a declaration.
    case 7:
      return [{ kind: 'other', name }, 0];
    case 17:
      return [{ kind: 'other', name }, 4];
    default:
      throw new RangeError(`unknown kind ${kind}`);
  }
}
