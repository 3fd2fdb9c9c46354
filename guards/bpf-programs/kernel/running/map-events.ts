/** Follows the records that programs write to ring buffers and perf event arrays. */
import { readdirSync, readFileSync, readlinkSync } from 'node:fs';

import { openPerfBuffer } from '../../../../lib/ebpf/perf-buffer.ts';
import { openRingBuffer } from '../../../../lib/ebpf/ring-buffer.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import { Btf } from '../btf/btf.ts';
import { type JsonValue, valueOf } from '../btf/btf-value.ts';
import { btfById } from '../info.ts';
import { type ReadOptions, readKept } from './kept.ts';
import { type MapName, openMap, type OpenMap, programsOfMaps } from './kernel-map.ts';
import { mapTypeName } from '../type-names.ts';
import { refuseOfOthers } from './maps.ts';

export interface MapEvent {
  /** When it was read, in milliseconds since 1970. */
  readonly atMs: number;
  /** The CPU that the program ran on; undefined for a ring buffer, which does not record it. */
  readonly cpu: number | undefined;
  readonly sizeBytes: number;
  /** Decoded with a type; without one, hexadecimal. */
  readonly data: JsonValue;
}

export interface EventOptions {
  /** Read events even if another process reads them, or the map is not Rampart's. */
  readonly force: boolean;
  /** The name of a type in a program that uses the map. */
  readonly type: string | undefined;
  readonly onEvent: (event: MapEvent) => void;
  /** Called with the number of events for which the buffer of a perf event array had no room. Ring buffers do not count such events. */
  readonly onLost: (count: bigint) => void;
  /** Called when the map is corrupt: reading has ended. */
  readonly onError: (error: unknown) => void;
}

/**
 * Reads new events, and those that a ring buffer still contains. Reading an event removes it: another reader of the same map does not get
 * it. Dispose of the result to end; until then it keeps the process alive.
 *
 * @throws {RampartError} `NOT_FOUND`; `UNSUPPORTED` for other types of maps; `INPUT` for a map of others or an unknown type; `IN_USE` if
 * another process reads the map.
 */
export function openEvents(options: ReadOptions, name: MapName, request: EventOptions): Disposable {
  using opening = new DisposableStack();
  const map = opening.use(openMap(readKept(options), name));
  const type = mapTypeName(map.info.type);
  if (type !== 'ringbuf' && type !== 'perf_event_array') {
    throw new RampartError(errorCodes.UNSUPPORTED, {
      what: `cannot read events of map ${map.name}`,
      why: `it has type ${type}, and only ringbuf and perf_event_array have events`,
    });
  }
  refuseOfOthers(map, request.force, 'read the events of');
  if (!request.force) refuseInUse(map, type);
  const decode = decoder(map, request.type);
  const reported = (bytes: Buffer, cpu: number | undefined): void =>
    request.onEvent({ atMs: Date.now(), cpu, sizeBytes: bytes.length, data: decode(bytes) });
  if (type === 'ringbuf') {
    opening.use(
      openRingBuffer({
        mapFd: map.fd,
        sizeBytes: map.info.maxEntries,
        onBatch: ({ count, offsets, lengths, bytes }) => {
          for (let at = 0; at < count; at++) {
            const offset = offsets[at] ?? 0;
            reported(Buffer.from(bytes.subarray(offset, offset + (lengths[at] ?? 0))), undefined);
          }
        },
        onError: request.onError,
      }),
    );
  } else {
    const cpus = onlineCpus().filter((cpu) => cpu < map.info.maxEntries);
    opening.use(openPerfBuffer({ mapFd: map.fd, cpus, onEvent: reported, onLost: request.onLost }));
  }
  return opening.move();
}

/** The CPUs in a list such as `0-3,6`. Default: those of `/sys/devices/system/cpu/online`. */
export function onlineCpus(
  list = readFileSync('/sys/devices/system/cpu/online', 'latin1'),
): readonly number[] {
  return list
    .trim()
    .split(',')
    .flatMap((range) => {
      const [first = 0, last = first] = range.split('-').map(Number);
      return Array.from({ length: last - first + 1 }, (_, at) => first + at);
    });
}

/** @throws {RampartError} `INPUT` if no program that uses the map has such a type */
function decoder({ info, name }: OpenMap, type: string | undefined): (bytes: Buffer) => JsonValue {
  if (type === undefined) return (bytes) => bytes.toString('hex');
  // The kernel keeps no types for these maps, but the programs that use them have those of their object files.
  for (const { btfId } of programsOfMaps().get(info.id) ?? []) {
    if (btfId === 0) continue;
    const btf = new Btf(btfById(btfId));
    const id = btf.idOf(type);
    if (id !== undefined) return (bytes) => valueOf(btf, id, bytes);
  }
  throw new RampartError(errorCodes.INPUT, {
    what: `no program that uses map ${name} has a type ${type}`,
    next: 'Omit --type to see the bytes',
  });
}

/** How the mapping of a process that reads such a map is named: the map itself, or the rings of the CPUs. */
const mappings = { ringbuf: 'anon_inode:bpf-map', perf_event_array: 'anon_inode:[perf_event]' } as const;

function refuseInUse({ info, name }: OpenMap, type: keyof typeof mappings): void {
  for (const pid of readdirSync('/proc').filter((entry) => /^\d+$/.test(entry))) {
    if (Number(pid) === process.pid || !reads(pid, info.id, mappings[type])) continue;
    const command = textAt(`/proc/${pid}/comm`).trim();
    throw new RampartError(errorCodes.IN_USE, {
      what: `cannot read the events of map ${name}`,
      why: `process ${pid} (${command}) reads them, and would lose what is shown here`,
      next: 'To take them all the same, add --force',
    });
  }
}

/** Whether a process reads the map. One that has closed the map's descriptor after mapping it is not found. */
function reads(pid: string, mapId: number, mapping: string): boolean {
  if (!textAt(`/proc/${pid}/maps`).includes(mapping)) return false;
  let fds: readonly string[];
  try {
    fds = readdirSync(`/proc/${pid}/fd`);
  } catch {
    return false;
  }
  return fds.some((fd) => {
    try {
      if (readlinkSync(`/proc/${pid}/fd/${fd}`) !== 'anon_inode:bpf-map') return false;
    } catch {
      return false;
    }
    return new RegExp(`^map_id:\\s*${mapId}$`, 'm').test(textAt(`/proc/${pid}/fdinfo/${fd}`));
  });
}

/** '' if the process has just ended. */
function textAt(path: string): string {
  try {
    return readFileSync(path, 'latin1');
  } catch {
    return '';
  }
}
