/**
 * The parts of WASI preview 1 that a policy gets: arguments, standard streams in memory, clocks, random numbers.
 * There are no files, no environment and no sockets: all other functions return that they are not supported.
 */
import { randomFillSync } from 'node:crypto';

import { GuestFailure } from './failure.ts';
import type { GuestMemory } from './memory.ts';

/** `proc_exit`: ends the call of the guest, even with code 0. */
export class GuestExit extends Error {
  readonly code: number;

  constructor(code: number) {
    super(`the policy exited with code ${code}`);
    this.code = code;
  }
}

export interface Streams {
  readonly args: readonly string[];
  /** The guest's input; more may be added while it runs. */
  readonly stdin: Uint8Array[];
  /** @throws {GuestFailure} if the output gets too large. */
  write(stream: 'stderr' | 'stdout', bytes: Uint8Array): void;
}

const success = 0;
const badDescriptor = 8;
const notImplemented = 52;
const notSeekable = 70;
const characterDevice = 2;
const waiting = new Int32Array(new SharedArrayBuffer(4));
/** Limit of a single sleep of a guest; the guest's deadline ends it long before. */
const longestWaitMs = 60_000;

type HostFunction = (...args: never[]) => number | void;

/** The functions, keyed by their names in `wasi_snapshot_preview1`. `memory` is called when the guest runs. */
export function preview1(
  memory: () => GuestMemory,
  streams: Streams,
): Readonly<Record<string, HostFunction>> {
  return {
    ...argumentsOf(memory, streams),
    ...descriptorsOf(memory, streams),
    environ_sizes_get(count: number, size: number) {
      memory().setU32(count, 0);
      memory().setU32(size, 0);
      return success;
    },
    environ_get: () => success,
    clock_res_get(_clock: number, result: number) {
      memory().setU64(result, 1000n);
      return success;
    },
    clock_time_get(clock: number, _precision: bigint, result: number) {
      memory().setU64(result, nowNs(clock));
      return success;
    },
    path_open: () => badDescriptor,
    poll_oneoff: (subscriptions: number, events: number, count: number, result: number) =>
      poll(memory(), { subscriptions, events, count, result }),
    proc_exit(code: number) {
      throw new GuestExit(code);
    },
    random_get(address: number, size: number) {
      randomFillSync(memory().view(address, size));
      return success;
    },
    sched_yield: () => success,
  };
}

function argumentsOf(memory: () => GuestMemory, streams: Streams): Record<string, HostFunction> {
  const args = (): Uint8Array[] => streams.args.map((text) => new TextEncoder().encode(`${text}\0`));
  return {
    args_sizes_get(count: number, size: number) {
      const texts = args();
      memory().setU32(count, texts.length);
      memory().setU32(
        size,
        texts.reduce((sum, text) => sum + text.length, 0),
      );
      return success;
    },
    args_get(pointers: number, bytes: number) {
      let at = bytes;
      for (const [index, text] of args().entries()) {
        memory().setU32(pointers + 4 * index, at);
        memory().write(at, text);
        at += text.length;
      }
      return success;
    },
  };
}

/** A policy has only standard input, output and error. */
function descriptorsOf(memory: () => GuestMemory, streams: Streams): Record<string, HostFunction> {
  const isStream = (fd: number): boolean => fd >= 0 && fd <= 2;
  return {
    fd_close: (fd: number) => (isStream(fd) ? success : badDescriptor),
    fd_fdstat_get(fd: number, result: number) {
      if (!isStream(fd)) return badDescriptor;
      const all = 0xffff_ffff_ffff_ffffn;
      memory().setU64(result, BigInt(characterDevice));
      memory().setU64(result + 8, all);
      memory().setU64(result + 16, all);
      return success;
    },
    fd_fdstat_set_flags: (fd: number) => (isStream(fd) ? success : badDescriptor),
    fd_filestat_get(fd: number, result: number) {
      if (!isStream(fd)) return badDescriptor;
      memory().view(result, 64).fill(0);
      memory().write(result + 16, Uint8Array.of(characterDevice));
      return success;
    },
    fd_seek: (fd: number) => (isStream(fd) ? notSeekable : badDescriptor),
    fd_tell: (fd: number) => (isStream(fd) ? notSeekable : badDescriptor),
    fd_read(fd: number, places: number, count: number, result: number) {
      if (fd !== 0) return badDescriptor;
      let read = 0;
      for (const place of placesOf(memory(), places, count)) {
        const bytes = taken(streams.stdin, place.length);
        place.set(bytes);
        read += bytes.length;
        if (bytes.length < place.length) break;
      }
      memory().setU32(result, read);
      return success;
    },
    fd_write(fd: number, places: number, count: number, result: number) {
      if (fd !== 1 && fd !== 2) return badDescriptor;
      let written = 0;
      for (const place of placesOf(memory(), places, count)) {
        streams.write(fd === 1 ? 'stdout' : 'stderr', place);
        written += place.length;
      }
      memory().setU32(result, written);
      return success;
    },
    fd_prestat_get: () => badDescriptor,
    fd_prestat_dir_name: () => badDescriptor,
  };
}

/** Stands in for a function that a module imports, but that is not implemented here. */
export const missingFunction: HostFunction = () => notImplemented;

/** @param clock - 0 is the time of day; all others are monotonic. */
function nowNs(clock: number): bigint {
  return clock === 0 ? BigInt(Date.now()) * 1_000_000n : process.hrtime.bigint();
}

function* placesOf(memory: GuestMemory, places: number, count: number): Generator<Uint8Array> {
  if (count >>> 0 > 1024)
    throw new GuestFailure('trap', 'the policy passed more than 1,024 buffers in one call');
  for (let index = 0; index < count; index++) {
    const at = places + 8 * index;
    yield memory.view(memory.u32(at), memory.u32(at + 4));
  }
}

/** Removes up to `size` bytes from the front. */
function taken(from: Uint8Array[], size: number): Uint8Array {
  while (from[0]?.length === 0) from.shift();
  const [first] = from;
  if (first === undefined) return new Uint8Array();
  const bytes = first.subarray(0, size);
  from[0] = first.subarray(bytes.length);
  return bytes;
}

/** Sleeps until the first clock expires; streams are always ready. */
function poll(
  memory: GuestMemory,
  at: { subscriptions: number; events: number; count: number; result: number },
): number {
  let [first, minNs] = [0, -1n];
  for (let index = 0; index < at.count >>> 0; index++) {
    const view = memory.view(at.subscriptions + 48 * index, 48);
    const data = new DataView(view.buffer, view.byteOffset);
    let ns = 0n;
    if (data.getUint8(8) === 0) {
      const timeout = data.getBigUint64(24, true);
      ns = (data.getUint16(40, true) & 1) === 0 ? timeout : timeout - nowNs(data.getUint32(16, true));
      if (ns < 0n) ns = 0n;
    }
    if (minNs < 0n || ns < minNs) [first, minNs] = [index, ns];
  }
  if (minNs > 0n) Atomics.wait(waiting, 0, 0, Math.min(longestWaitMs, Number(minNs) / 1e6));
  const from = memory.view(at.subscriptions + 48 * first, 48);
  const event = memory.view(at.events, 32);
  event.fill(0);
  // The number that the subscriber gave to the event, and the event type.
  event.set(from.subarray(0, 8));
  event[10] = from[8] ?? 0;
  memory.setU32(at.result, at.count === 0 ? 0 : 1);
  return success;
}
