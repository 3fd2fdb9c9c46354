/** Lists maps, and reads and changes them with keys and values in JSON, by their types. */
import { constants } from 'node:os';

import { errno, libbpf } from '../../../../lib/ebpf/ffi.ts';
import { errnoText } from '../../../../lib/ebpf/libc.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { putValue } from '../btf/btf-bytes.ts';
import type { Btf } from '../btf/btf.ts';
import { type JsonValue, valueOf } from '../btf/btf-value.ts';
import { mapInfo } from '../info.ts';
import { mapTypeName } from '../type-names.ts';
import { type ReadOptions, readKept } from './kept.ts';
import {
  type MapName,
  mapState,
  openMap,
  type OpenMap,
  ownMaps,
  type PodPlace,
  programsOfMaps,
} from './kernel-map.ts';
import { idsOf, openById } from './kernel-ids.ts';
import { entriesOf, isPerCpu, type MapEntry, possibleCpus, readEntry, valueStep } from './map-entries.ts';

export interface ListedMap {
  /** The kernel's ID. */
  readonly id: number;
  readonly name: string;
  /** The name after `BPF_MAP_TYPE_`, in lower case. */
  readonly type: string;
  readonly keySizeBytes: number;
  readonly valueSizeBytes: number;
  readonly maxEntries: number;
  /** According to the kernel, which reports 0 for a ring buffer before 6.4. */
  readonly memoryBytes: number;
  /** Whether processes can no longer change it. */
  readonly frozen: boolean;
  /** Whether a program of Rampart uses it. */
  readonly own: boolean;
  /** The Kubernetes objects that requested these programs; for maps of others, the names of the programs in the kernel. */
  readonly usedBy: readonly string[];
  readonly places: readonly PodPlace[];
}

export interface ShownEntry {
  readonly key: JsonValue;
  /** If the map is per CPU, a list of one value for each CPU. */
  readonly value: JsonValue;
}

export interface MapDump {
  readonly name: string;
  readonly id: number;
  readonly entries: readonly ShownEntry[];
  /** Whether there are more entries than requested. */
  readonly truncated: boolean;
}

/**
 * Maps in the order of their IDs.
 *
 * @param isAll - Whether to include maps that no program of Rampart uses.
 */
export function listMaps(options: ReadOptions, isAll: boolean): readonly ListedMap[] {
  const own = ownMaps(readKept(options));
  const others = isAll ? programsOfMaps() : new Map<number, []>();
  const ids = isAll ? [...idsOf('map')] : [...own.keys()].toSorted((a, b) => a - b);
  return ids.flatMap((id): readonly ListedMap[] => {
    using map = openById('map', id);
    if (map === undefined) return [];
    const info = mapInfo(map.fd);
    const ours = own.get(id);
    const { memoryBytes, isFrozen } = mapState(map.fd);
    return [
      {
        ...{ id, name: ours?.name ?? info.name, type: mapTypeName(info.type) },
        ...{ keySizeBytes: info.keySizeBytes, valueSizeBytes: info.valueSizeBytes },
        ...{ maxEntries: info.maxEntries, memoryBytes, frozen: isFrozen, own: ours !== undefined },
        places: ours?.places ?? [],
        usedBy: ours?.owners ?? (others.get(id) ?? []).map(({ name }) => name),
      },
    ];
  });
}

/**
 * The entries of a map, decoded by BTF if the map has it; otherwise keys and values are hexadecimal.
 *
 * @param program - See {@link MapName}.
 * @throws {RampartError} `NOT_FOUND`; `UNSUPPORTED` for a map without readable entries.
 */
export function dumpMap(options: ReadOptions, program: string, mapName: string, limit = 10_000): MapDump {
  using map = openMap(readKept(options), { program, map: mapName });
  const entries: ShownEntry[] = [];
  let truncated = false;
  for (const entry of entriesOf(map.fd, map.info)) {
    if (entries.length === limit) {
      truncated = true;
      break;
    }
    entries.push(shownEntry(map, entry));
  }
  return { name: map.name, id: map.info.id, entries, truncated };
}

/**
 * The entry with a key; undefined if it does not exist.
 *
 * @param key - In JSON, in the form that {@link dumpMap} shows; or `hex:` and its bytes.
 * @throws {RampartError} as {@link dumpMap}; `INPUT` for a key that does not fit its type.
 */
export function lookupEntry(options: ReadOptions, name: MapName, key: string): ShownEntry | undefined {
  using map = openMap(readKept(options), name);
  refuseUnreadable(map);
  const entry = readEntry(map.fd, map.info, keyBytes(map, key));
  return entry && shownEntry(map, entry);
}

export interface ChangeOptions {
  /** Whether to change maps that no program of Rampart uses. */
  readonly force: boolean;
}

/** BPF_ANY, BPF_NOEXIST and BPF_EXIST of bpf.h. */
const updateFlags = { any: 0, noexist: 1, exist: 2 } as const;

export interface UpdateOptions extends ChangeOptions {
  /** `noexist`: only if there is no entry with this key yet; `exist`: only if there is one. */
  readonly only: keyof typeof updateFlags;
}

/**
 * Sets the value of a key. Omitted members of structures and variables keep their values; in a new entry they are 0. The value for a
 * per-CPU map is an array with one value for each CPU, or one value for all of them.
 *
 * @returns the new entry. If programs write to omitted members during the change, those writes are lost.
 * @throws {RampartError} `INPUT` for values that do not fit the types, and for a map of others without `force`; `UNSUPPORTED` for types of
 * maps whose values refer to objects of the kernel; `EXISTS`, `NOT_FOUND` as `only` requires; `EBPF` for the kernel's refusal.
 */
export function updateEntry(
  options: ReadOptions,
  name: MapName,
  written: { readonly key: string; readonly value: string },
  { force, only }: UpdateOptions,
): ShownEntry {
  const kept = readKept(options);
  using map = openMap(kept, name);
  refuseChange(map, force);
  const key = keyBytes(map, written.key);
  const before = readEntry(map.fd, map.info, key);
  const value = valueBytes(map, written.value, before?.values);
  if (libbpf().mapUpdate(map.fd, key, value, updateFlags[only]) !== 0)
    throw refusalOf(map, 'update', errno());
  const after = readEntry(map.fd, map.info, key);
  return shownEntry(map, after ?? { key, values: split(map, value) });
}

/**
 * Removes the entry with a key; false if it does not exist.
 *
 * @throws {RampartError} as {@link updateEntry}.
 */
export function deleteEntry(
  options: ReadOptions,
  name: MapName,
  key: string,
  { force }: ChangeOptions,
): boolean {
  using map = openMap(readKept(options), name);
  refuseChange(map, force);
  if (libbpf().mapDelete(map.fd, keyBytes(map, key)) === 0) return true;
  const code = errno();
  if (code === constants.errno.ENOENT) return false;
  throw refusalOf(map, 'delete from', code);
}

/** Types of maps whose values refer to objects of the kernel, so that they cannot be written as JSON. */
const holdsObjects: ReadonlySet<string> = new Set([
  ...[
    'prog_array',
    'perf_event_array',
    'cgroup_array',
    'array_of_maps',
    'hash_of_maps',
    'sockmap',
    'sockhash',
  ],
  ...[
    'xskmap',
    'reuseport_sockarray',
    'sk_storage',
    'inode_storage',
    'task_storage',
    'cgrp_storage',
    'struct_ops',
  ],
]);
const keyless: ReadonlySet<string> = new Set([
  'queue',
  'stack',
  'ringbuf',
  'user_ringbuf',
  'bloom_filter',
  'arena',
]);

function refuseUnreadable({ info, name }: OpenMap): void {
  const type = mapTypeName(info.type);
  if (!keyless.has(type)) return;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: `cannot look up a key in map ${name}`,
    why: `a map of type ${type} has no keys`,
  });
}

function refuseChange(map: OpenMap, force: boolean): void {
  refuseUnreadable(map);
  refuseOfOthers(map, force, 'change');
  const type = mapTypeName(map.info.type);
  if (!holdsObjects.has(type)) return;
  throw new RampartError(errorCodes.UNSUPPORTED, {
    what: `cannot change map ${map.name}`,
    why: `it has type ${type}, whose entries stand for objects of the kernel`,
  });
}

/** @throws {RampartError} `INPUT` for a map that no program of Rampart uses, unless `force` is set. */
export function refuseOfOthers({ isOwn, name, info }: OpenMap, force: boolean, verb: string): void {
  if (isOwn || force) return;
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot ${verb} map ${name} (ID ${info.id})`,
    why: 'no program of Rampart uses it, so another program relies on what is in it',
    next: 'To do it all the same, add --force',
  });
}

function refusalOf({ fd, name }: OpenMap, verb: string, code: number): RampartError {
  const { EEXIST, ENOENT, EPERM, EINVAL } = constants.errno;
  const what = `cannot ${verb} map ${name}`;
  if (code === EEXIST) return new RampartError(errorCodes.EXISTS, { what, why: 'it has this key already' });
  if (code === ENOENT) return new RampartError(errorCodes.NOT_FOUND, { what, why: 'it has no such key' });
  let why = errnoText(code);
  if (code === EPERM && mapState(fd).isFrozen) why = 'it is frozen: its values are constants of its programs';
  else if (code === EPERM) why = 'it is read-only for processes';
  else if (code === EINVAL && verb === 'delete from') why = 'this type of map keeps all its keys';
  return new RampartError(errorCodes.EBPF, { what, why });
}

function shownEntry(map: OpenMap, { key, values }: MapEntry): ShownEntry {
  const { info } = map;
  const shown = values.map((value) => shownValue(map, info.btfValueTypeId, value));
  return {
    // In a data section, the key has no type; the only key is 0.
    key:
      info.btfKeyTypeId === 0 && key.length === 4
        ? key.readUInt32LE(0)
        : shownValue(map, info.btfKeyTypeId, key),
    value: isPerCpu(info) ? shown : (shown[0] ?? null),
  };
}

function shownValue({ types }: OpenMap, typeId: number, bytes: Buffer): JsonValue {
  return types === undefined || typeId === 0 ? bytes.toString('hex') : valueOf(types, typeId, bytes);
}

/** @throws {RampartError} `INPUT` if the text does not fit the type of the key */
function keyBytes(map: OpenMap, text: string): Buffer {
  const { keySizeBytes, btfKeyTypeId } = map.info;
  const raw = rawBytes('key', text, keySizeBytes);
  if (raw !== undefined) return raw;
  const bytes = Buffer.alloc(keySizeBytes);
  const { types } = map;
  if (types !== undefined && btfKeyTypeId !== 0)
    putValue({ btf: types, path: 'key', isComplete: true }, btfKeyTypeId, jsonOf(text), bytes);
  else if (keySizeBytes !== 4) return untypedBytes('key', text, keySizeBytes);
  else if (/^\d+$/.test(text) && Number(text) <= 0xffff_ffff) bytes.writeUInt32LE(Number(text));
  else throw untyped('key', keySizeBytes);
  return bytes;
}

/** @throws {RampartError} `INPUT` if the text does not fit the type of the value */
function valueBytes(map: OpenMap, text: string, before: readonly Buffer[] | undefined): Buffer {
  const { info, types } = map;
  const [step, count] = isPerCpu(info) ? [valueStep(info), possibleCpus()] : [info.valueSizeBytes, 1];
  const bytes = Buffer.alloc(step * count);
  const isTyped = types !== undefined && info.btfValueTypeId !== 0;
  const raw =
    rawBytes('value', text, info.valueSizeBytes) ??
    (isTyped ? undefined : untypedBytes('value', text, info.valueSizeBytes));
  const each =
    isTyped && isPerCpu(info) ? eachCpu(types, info.btfValueTypeId, jsonOf(text), count) : undefined;
  for (let cpu = 0; cpu < count; cpu++) {
    const part = bytes.subarray(cpu * step, cpu * step + info.valueSizeBytes);
    before?.[cpu]?.copy(part);
    if (raw !== undefined || !isTyped) raw?.copy(part);
    else {
      const path = each === undefined ? 'value' : `value[${cpu}]`;
      const value = each === undefined ? jsonOf(text) : each[cpu];
      putValue({ btf: types, path, isComplete: false }, info.btfValueTypeId, value, part);
    }
  }
  return bytes;
}

/** The values for each CPU; undefined if `value` is a single value for all CPUs. */
function eachCpu(types: Btf, typeId: number, value: unknown, count: number): readonly unknown[] | undefined {
  if (!Array.isArray(value) || value.length !== count) return undefined;
  // The value's type is itself an array, so this may be a single value.
  const isOne =
    types.resolved(typeId).kind === 'array' &&
    !value.every((one) => typeof one === 'string' || Array.isArray(one));
  return isOne ? undefined : value;
}

function split({ info }: OpenMap, bytes: Buffer): readonly Buffer[] {
  const step = isPerCpu(info) ? valueStep(info) : info.valueSizeBytes;
  return Array.from({ length: bytes.length / step }, (_, at) =>
    bytes.subarray(at * step, at * step + info.valueSizeBytes),
  );
}

/** The bytes of a text such as `hex:0a000001` or `hex:0a 00 00 01`; undefined for other texts. */
function rawBytes(what: string, text: string, sizeBytes: number): Buffer | undefined {
  if (!text.startsWith('hex:')) return undefined;
  const digits = text.slice(4).replaceAll(/[\s:]/g, '');
  if (/^(?:[0-9a-f]{2})*$/i.test(digits) && digits.length === sizeBytes * 2)
    return Buffer.from(digits, 'hex');
  throw new RampartError(errorCodes.INPUT, {
    what: `the ${what} ${text.slice(0, 80)} does not fit`,
    why: `it must be hex: and ${sizeBytes * 2} hexadecimal digits`,
  });
}

/** Bytes without a type, given in the form in which they are shown: hexadecimal digits. */
function untypedBytes(what: string, text: string, sizeBytes: number): Buffer {
  if (/^[0-9a-f]*$/i.test(text) && text.length === sizeBytes * 2) return Buffer.from(text, 'hex');
  throw untyped(what, sizeBytes);
}

function untyped(what: string, sizeBytes: number): RampartError {
  return new RampartError(errorCodes.INPUT, {
    what: `the map does not have the type of its ${what}`,
    next: `Write it as bytes: hex: and ${sizeBytes * 2} digits`,
  });
}

/** Parses JSON; a text that is not JSON is returned as it is. Integers that a number would round stay texts. */
function jsonOf(text: string): unknown {
  try {
    return JSON.parse(text, (_, value: unknown, context?: { readonly source?: string }) =>
      typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '')
        ? context?.source
        : value,
    ) as unknown;
  } catch {
    return text;
  }
}
