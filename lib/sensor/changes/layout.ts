/**
 * The memory layout of the programs of changes.bpf.c: bpf/changes.h as byte offsets. layout.test.ts compares every number
 * here with the BTF of the committed object or, for types that it lacks, of the header.
 */

/** `struct directory`, the value of a watched directory. */
export const directory = { id: 0, sizeBytes: 8 } as const;

/** `enum change_record_type`, the first word of a record. */
export const recordTypes = { process: 1, change: 2 } as const;

/** `struct process_record`; `struct record` of ../layout.ts follows. */
export const processRecord = { type: 0, facts: 4, parentBytes: 8, sizeBytes: 16 } as const;

/** `struct change`; the name follows. */
export const change = {
  type: 0,
  facts: 4,
  timeNs: 8,
  inode: 16,
  device: 24,
  generation: 28,
  directory: 32,
  mask: 36,
  pid: 40,
  nameBytes: 44,
  flags: 46,
  call: 47,
  sizeBytes: 48,
} as const;

/** `enum change_flags`. */
export const changeFlags = { ofName: 1, made: 2, named: 4 } as const;

/** `enum change_call`, in its order. */
export const changeCalls = ['unknown', 'content', 'names', 'attributes'] as const;
export type ChangeCall = (typeof changeCalls)[number];
