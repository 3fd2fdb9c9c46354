/** Loads the committed object file: its programs are then in the kernel, configured but not attached. */
import { readFileSync } from 'node:fs';

import type { MappedMemory } from '../ebpf/map.ts';
import { BpfObject } from '../ebpf/object.ts';
import { settings as settingsAt } from './layout.ts';
import type { SensorMode } from './modes.ts';
import {
  defaultCapacity,
  defaultDirectoryCapacity,
  defaultRatePerSecond,
  defaultRingSizeBytes,
  type SensorOptions,
} from './options.ts';
import { syscallTablesOf } from './syscalls.ts';
import type { Watcher } from './targets.ts';

const OBJECT_FILE = new URL('./bpf/sensor.bpf.o', import.meta.url);
/** How far a bucket may run ahead: a burst may have as many accesses as the rate allows in one second. */
const BURST_NS = 1_000_000_000n;

/** A loaded object that is not attached yet. */
export interface LoadedSensor {
  readonly object: BpfObject;
  readonly mode: SensorMode;
  /** `struct state` of the programs, mapped: it shows their writes at once. */
  readonly memory: MappedMemory;
}

/**
 * Loads the programs of one mode. The caller disposes the memory and then the object.
 *
 * @throws {RampartError} `EBPF` when the kernel refuses them; nothing stays open then.
 */
export function loadSensor<W extends Watcher>(mode: SensorMode, options: SensorOptions<W>): LoadedSensor {
  const object = BpfObject.open(readFileSync(OBJECT_FILE), 'sensor');
  try {
    const wanted = new Set([...mode.programs, 'identify']);
    for (const program of object.programs()) program.autoload = wanted.has(program.name);
    object.map('targets').maxEntries = options.capacity ?? defaultCapacity;
    object.map('directories').maxEntries = options.directoryCapacity ?? defaultDirectoryCapacity;
    object.map('ring').maxEntries = options.ringSizeBytes ?? defaultRingSizeBytes;
    writeSettings(object.initialValue('.rodata'), options.ratePerSecond ?? defaultRatePerSecond);
    object.load();
    return { object, mode, memory: object.map('.bss').mapMemory() };
  } catch (error) {
    object[Symbol.dispose]();
    throw error;
  }
}

function writeSettings(rodata: Uint8Array, ratePerSecond: number): void {
  const view = new DataView(rodata.buffer, rodata.byteOffset, rodata.byteLength);
  const tables = syscallTablesOf(process.arch);
  rodata.set(tables.native, settingsAt.nativeSyscalls);
  rodata.set(tables.compat, settingsAt.compatSyscalls);
  if (ratePerSecond === 0) return;
  view.setBigUint64(settingsAt.nanosecondsPerAccess, BigInt(Math.ceil(1e9 / ratePerSecond)), true);
  view.setBigUint64(settingsAt.burstNs, BURST_NS, true);
}
