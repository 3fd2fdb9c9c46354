/** `rampart bpf map list`, `dump`, `lookup`, `update` and `delete`. */
import { printable } from '../../../lib/output/printable.ts';
import type { Row } from '../../../lib/output/table.ts';
import type { MapName } from '../kernel/running/kernel-map.ts';
import {
  deleteEntry,
  dumpMap,
  listMaps,
  lookupEntry,
  type ShownEntry,
  updateEntry,
} from '../kernel/running/maps.ts';
import type { MapChangeOptions, MapListOptions, MapUpdateOptions } from './map-command.ts';
import type { BpfOptions } from './options.ts';
import { isPrinted, noPrograms, place, print } from './print.ts';

export function runMapList(options: MapListOptions): void {
  const maps = listMaps(place(options), options.all === true);
  if (isPrinted(options, 'rampart.dev/bpf-maps/v1', { maps })) return;
  if (maps.length === 0) {
    process.stdout.write(options.all === true ? 'There are no eBPF maps in this kernel.\n' : noPrograms);
    return;
  }
  const inPods = maps.some(({ places }) => places.length > 0);
  const sizes = ['KEY', 'VALUE', 'MAX ENTRIES', 'MEMORY'];
  print(
    ['ID', 'NAME', 'TYPE', ...sizes, ...(inPods ? ['POD', 'CONTAINER'] : []), 'USED BY'],
    maps.map(({ id, name, type, keySizeBytes, valueSizeBytes, maxEntries, memoryBytes, usedBy, places }) => ({
      cells: [
        ...[String(id), name || '-', type, `${keySizeBytes} B`, `${valueSizeBytes} B`, String(maxEntries)],
        kibibytes(memoryBytes),
        ...(inPods ? [listed(places.map(({ pod }) => pod)), listed(places.map((one) => one.container))] : []),
        listed(usedBy),
      ].map(printable),
    })),
    options,
  );
}

/** The distinct texts in one cell, separated by spaces; `-` without any. */
function listed(all: readonly (string | undefined)[]): string {
  return [...new Set(all)].filter((one) => one !== undefined).join(' ') || '-';
}

function kibibytes(bytes: number): string {
  return bytes === 0 ? '-' : `${Math.ceil(bytes / 1024)} KiB`;
}

export function runDump(name: MapName, options: BpfOptions): void {
  const dumped = dumpMap(place(options), name.program, name.map);
  if (isPrinted(options, 'rampart.dev/bpf-map-dump/v1', dumped)) return;
  printEntries(dumped.entries, options);
  if (dumped.truncated) process.stderr.write('rampart: the map has more entries than are shown\n');
}

/** @returns the exit code: 1 if there is no such entry. */
export function runLookup(name: MapName, key: string, options: BpfOptions): number {
  const entry = lookupEntry(place(options), name, key);
  if (entry === undefined) return noEntry(key);
  printEntry(entry, options);
  return 0;
}

export function runUpdate(
  name: MapName,
  written: { readonly key: string; readonly value: string },
  options: MapUpdateOptions,
): void {
  const only = options.exist === true ? 'exist' : options.noexist === true ? 'noexist' : 'any';
  const force = options.force === true;
  printEntry(updateEntry(place(options), name, written, { force, only }), options);
}

/** @returns the exit code: 1 if there is no such entry. */
export function runDelete(name: MapName, key: string, options: MapChangeOptions): number {
  const isRemoved = deleteEntry(place(options), name, key, { force: options.force === true });
  if (!isRemoved) return noEntry(key);
  if (!isPrinted(options, 'rampart.dev/bpf-map-delete/v1', { removed: true }))
    process.stdout.write('Removed.\n');
  return 0;
}

function noEntry(key: string): number {
  process.stderr.write(`rampart: the map has no entry with key ${printable(key)}\n`);
  return 1;
}

function printEntry(entry: ShownEntry, options: BpfOptions): void {
  if (!isPrinted(options, 'rampart.dev/bpf-map-entry/v1', entry)) printEntries([entry], options);
}

function printEntries(entries: readonly ShownEntry[], options: BpfOptions): void {
  const text = (value: unknown): string =>
    printable(typeof value === 'string' ? value : JSON.stringify(value));
  print(
    ['KEY', 'VALUE'],
    entries.map(({ key, value }): Row => ({ cells: [text(key), text(value)] })),
    options,
  );
}
