/**
 * The entries of a map, by the types that its BTF has for keys and values.
 *
 * @module
 */
import { readFileSync } from 'node:fs';
import { join } from 'node:path';

import { Btf, type BtfType } from '../../../shared/ebpf/btf.ts';
import { errno, libbpf } from '../../../shared/ebpf/ffi.ts';
import { btfById, type MapInfo, mapInfo } from '../../../shared/ebpf/info.ts';
import { openPin } from '../../../shared/ebpf/pin.ts';
import { errorCodes, RampartError } from '../../../shared/observe/errors.ts';
import type { Inspected } from './place.ts';
import { possibleCpus } from './runs.ts';

/** Numbers of 64 bits as text, where a JSON number would be rounded. */
export type DumpedValue =
  boolean | number | string | readonly DumpedValue[] | { readonly [name: string]: DumpedValue };

export interface DumpedMap {
  readonly name: string;
  readonly id: number;
  readonly owner: string;
  readonly entries: readonly { readonly key: DumpedValue; readonly value: DumpedValue }[];
  /** More entries than were read, or some came and went meanwhile. */
  readonly isCut: boolean;
}

const MAX_ENTRIES = 100_000;
/** enum bpf_map_type: values for each CPU. */
const perCpuTypes: ReadonlySet<number> = new Set([5, 6, 10]);
/** Those that are read by key: HASH, ARRAY, PERCPU_*, LRU_*, LPM_TRIE. */
const readableTypes: ReadonlySet<number> = new Set([1, 2, 5, 6, 9, 10, 11]);

/**
 * @param program - The id, the name of the object of the node, or the owner: `XdpProgram/count`.
 * @throws {RampartError} `NOT_FOUND` for a program or map that is not there, `UNSUPPORTED` for a map that is not read by key.
 */
export function dumpMap({ programs, pins }: Inspected, program: string, map: string): DumpedMap {
  const found = programs.filter(({ id, owner, programId }) =>
    [id, owner, String(programId)].includes(program),
  );
  const [record] = found;
  if (record === undefined) throw notFound(`program ${program}`, 'rampart bpf list shows all');
  if (found.length > 1) {
    throw new RampartError(errorCodes.INPUT, {
      what: `${program} is attached at ${found.length} places, each with maps of its own`,
      next: `Name one: ${found.map(({ programId }) => programId).join(', ')}`,
    });
  }
  const kept = record.maps.find(({ name, id }) => name === map || String(id) === map);
  if (kept === undefined) {
    const names = record.maps.filter(({ internal }) => !internal).map(({ name }) => name);
    throw notFound(`map ${map} of ${program}`, `It has ${names.length === 0 ? 'none' : names.join(', ')}`);
  }
  using pinned = openPin(join(pins.program(record), 'maps', kept.pin));
  if (pinned === undefined) throw notFound(`map ${map} of ${program}`, 'rampart bpf list shows all');
  const info = mapInfo(pinned.fd);
  if (!readableTypes.has(info.type)) {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot show map ${map} of ${program}`,
      why: `a map of type ${info.type} is not read by key`,
    });
  }
  return { name: kept.name, id: info.id, owner: record.owner, ...entriesOf(pinned.fd, info) };
}

function entriesOf(fd: number, info: MapInfo): Pick<DumpedMap, 'entries' | 'isCut'> {
  const btf = info.btfId === 0 ? undefined : new Btf(btfById(info.btfId));
  const shown = (typeId: number, bytes: Buffer): DumpedValue =>
    btf === undefined || typeId === 0 ? bytes.toString('hex') : valueOf(btf, typeId, bytes);
  const cpus = perCpuTypes.has(info.type)
    ? possibleCpus(readFileSync('/sys/devices/system/cpu/possible', 'utf8'))
    : undefined;
  const stride = Math.ceil(info.valueSizeBytes / 8) * 8;
  const value = Buffer.alloc(cpus === undefined ? info.valueSizeBytes : stride * cpus);
  const entries: { key: DumpedValue; value: DumpedValue }[] = [];
  let key: Buffer | null = null;
  for (;;) {
    const next = Buffer.alloc(info.keySizeBytes);
    if (libbpf().mapNextKey(fd, key, next) !== 0) return { entries, isCut: false };
    // Where a key goes while it is read, the kernel begins anew: that would have no end.
    if (entries.length >= Math.min(MAX_ENTRIES, info.maxEntries)) return { entries, isCut: true };
    key = next;
    if (libbpf().mapLookup(fd, key, value) !== 0) {
      if (errno() === 2) continue;
      return { entries, isCut: true };
    }
    const read =
      cpus === undefined
        ? shown(info.btfValueTypeId, value)
        : Array.from({ length: cpus }, (_, cpu) =>
            shown(info.btfValueTypeId, value.subarray(cpu * stride, cpu * stride + info.valueSizeBytes)),
          );
    entries.push({ key: shown(info.btfKeyTypeId, key), value: read });
  }
}

/** Deeper types lead in a circle, which no value can. */
const MAX_DEPTH = 32;

export function valueOf(btf: Btf, typeId: number, bytes: Buffer, depth = 0): DumpedValue {
  const type = btf.resolved(typeId);
  if (depth > MAX_DEPTH) return bytes.toString('hex');
  switch (type.kind) {
    case 'int':
      return integerOf(type, bytes);
    case 'enum': {
      const number = numberOf(bytes, type.sizeBytes, type.signed);
      return type.values.get(number) ?? plain(number);
    }
    case 'pointer':
      return `0x${numberOf(bytes, 8, false).toString(16)}`;
    case 'float':
      return type.sizeBytes === 4 ? bytes.readFloatLE(0) : bytes.readDoubleLE(0);
    case 'array': {
      const element = btf.resolved(type.typeId);
      const size = type.count === 0 ? 0 : Math.floor(bytes.length / type.count);
      if (element.kind === 'int' && (element.as === 'character' || element.name === 'char')) {
        const text = bytes.toString('utf8').replace(/\0+$/, '');
        if (!text.includes('\0') && !text.includes('\ufffd')) return text;
      }
      return Array.from({ length: type.count }, (_, index) =>
        valueOf(btf, type.typeId, bytes.subarray(index * size, (index + 1) * size), depth + 1),
      );
    }
    case 'struct':
    case 'union':
      return structOf(btf, type, bytes, depth);
    default:
      return bytes.toString('hex');
  }
}

function structOf(
  btf: Btf,
  { members }: Extract<BtfType, { kind: 'struct' | 'union' }>,
  bytes: Buffer,
  depth: number,
): DumpedValue {
  const fields: Record<string, DumpedValue> = {};
  for (const { name, typeId, bitOffset, bits } of members) {
    if (bits > 0) {
      let whole = 0n;
      const first = bitOffset >> 3;
      const last = (bitOffset + bits + 7) >> 3;
      for (let at = last - 1; at >= first; at--) whole = (whole << 8n) | BigInt(bytes[at] ?? 0);
      fields[name] = plain((whole >> BigInt(bitOffset & 7)) & ((1n << BigInt(bits)) - 1n));
      continue;
    }
    const part = valueOf(
      btf,
      typeId,
      bytes.subarray(bitOffset >> 3, (bitOffset >> 3) + sizeOf(btf, typeId)),
      depth + 1,
    );
    if (name === '' && typeof part === 'object' && !Array.isArray(part)) Object.assign(fields, part);
    else fields[name] = part;
  }
  return fields;
}

function sizeOf(btf: Btf, typeId: number, depth = 0): number {
  const type = btf.resolved(typeId);
  if (depth > MAX_DEPTH) return 0;
  if (type.kind === 'pointer') return 8;
  if (type.kind === 'array') return type.count * sizeOf(btf, type.typeId, depth + 1);
  return 'sizeBytes' in type ? type.sizeBytes : 0;
}

function integerOf({ sizeBytes, as }: Extract<BtfType, { kind: 'int' }>, bytes: Buffer): DumpedValue {
  const number = numberOf(bytes, sizeBytes, as === 'signed' || as === 'character');
  return as === 'boolean' ? number !== 0n : plain(number);
}

/** Kernel and programs have the byte order of this machine, which is little-endian wherever Rampart runs. */
function numberOf(bytes: Buffer, sizeBytes: number, signed: boolean): bigint {
  let number = 0n;
  for (let at = Math.min(sizeBytes, bytes.length) - 1; at >= 0; at--)
    number = (number << 8n) | BigInt(bytes[at] ?? 0);
  return signed ? BigInt.asIntN(sizeBytes * 8, number) : number;
}

function plain(number: bigint): DumpedValue {
  return BigInt(Number(number)) === number && Number.isSafeInteger(Number(number))
    ? Number(number)
    : String(number);
}

function notFound(what: string, next: string): RampartError {
  return new RampartError(errorCodes.NOT_FOUND, { what: `there is no ${what}`, next });
}
