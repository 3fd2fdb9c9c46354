/**
 * The memory layout of the sensor's programs: the structures of bpf/sensor.h as byte offsets. layout.test.ts
 * compares every number here with the BTF of the committed object or, for types that it lacks, of the header.
 */

/** `struct record`: fixed part of what the ring carries. Little-endian, as both supported machines are. */
export const record = {
  timeNs: 0,
  inode: 8,
  cgroupId: 16,
  bucketBornNs: 24,
  device: 32,
  mask: 36,
  targetId: 40,
  foldedTotal: 44,
  tid: 48,
  pid: 52,
  ppid: 56,
  uid: 60,
  gid: 64,
  pidNamespace: 68,
  mountNamespace: 72,
  verdict: 76,
  flags: 77,
  executableBytes: 78,
  cwdBytes: 80,
  argumentBytes: 82,
  cgroupBytes: 84,
  fromBytes: 86,
  comm: 88,
  toBytes: 104,
  executableInode: 112,
  executableDevice: 120,
  executableGeneration: 124,
  sizeBytes: 128,
} as const;

export const commSizeBytes = 16;

/** `enum verdict`, in its order. */
export const verdicts = ['unknown', 'allowed', 'denied'] as const;

/** `enum record_flags`. */
export const recordFlags = {
  executableCut: 1,
  cwdCut: 2,
  argumentsCut: 4,
  executableDeleted: 8,
  argumentsUnreadable: 16,
  cgroupCut: 32,
  namesOfFileSystem: 64,
} as const;

/** `struct target_key` and `struct target`. */
export const targetKey = { inode: 0, device: 8, sizeBytes: 16 } as const;
export const target = { filter: 0, generation: 4, id: 8, lent: 12, sizeBytes: 16 } as const;

/** `struct counters`, each a u64. */
export const counters = {
  produced: 0,
  emitted: 8,
  folded: 16,
  lostRingFull: 24,
  lostNoReturn: 32,
  recycled: 40,
  own: 48,
  verdictUnknown: 56,
  busy: 64,
  sizeBytes: 72,
} as const;

/** `struct identity`. */
export const identity = { inode: 0, device: 8, generation: 12, pid: 16, error: 20, sizeBytes: 24 } as const;

/** `struct state`, the whole of .bss. */
export const state = {
  counters: 0,
  identity: 72,
  agentPid: 96,
  epoch: 100,
  arrivedNs: 104,
  directories: 112,
  sizeBytes: 120,
} as const;

/** `ARRIVAL_NS`. */
export const arrivalNs = 10_000_000_000n;

/** `struct settings`, the whole of .rodata. */
export const settings = {
  nanosecondsPerAccess: 0,
  burstNs: 8,
  nativeSyscalls: 16,
  compatSyscalls: 564,
  sizeBytes: 1112,
} as const;

/** `struct bucket_key` and `struct bucket`: the rate limit. */
export const bucketKey = {
  processBorn: 0,
  pid: 8,
  execId: 12,
  targetId: 16,
  maskAndVerdict: 20,
  sizeBytes: 24,
} as const;
export const bucket = { nextNs: 0, bornNs: 8, folded: 16, sizeBytes: 24 } as const;

/** `struct pending`: the access between its entry and its return (kprobe mode). */
export const pending = { sp: 0, timeNs: 8, sizeBytes: 48 } as const;

/** Length of each system call table in `struct settings`. */
export const syscallTableLength = 548;
