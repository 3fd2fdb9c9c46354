/** The three ways the sensor can be attached, what each needs, and exactly what each can see. */
import type { BpfLink } from '../ebpf/link.ts';
import type { BpfObject } from '../ebpf/object.ts';
import { attributeBits, operationBits } from './access.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import type { Feature, KernelFeatures } from '../ebpf/features/feature.ts';

export const sensorModeNames = ['fentry', 'kprobe', 'raw_tracepoint'] as const;
export type SensorModeName = (typeof sensorModeNames)[number];

/**
 * One thing a process can do to a file, and which modes see it.
 *
 * @example
 * const read: Operation = { name: 'read', what: 'open for reading', seen: { fentry: 36, kprobe: 36, raw_tracepoint: 36 } };
 * const check: Operation = {
 *   name: 'check',
 *   what: 'access(2): a check only',
 *   seen: { fentry: 20, kprobe: 20 },
 *   unseenBecause: 'the call opens nothing',
 * };
 */
export interface Operation {
  /** Stable word, used in tests and in documentation. */
  readonly name: string;
  readonly what: string;
  /** The mask of its record in each mode that sees it (MAY_*, see access.ts); a mode not named does not see it. */
  readonly seen: Partial<Readonly<Record<SensorModeName, number>>>;
  /** Why some modes do not see it. */
  readonly unseenBecause?: string;
}

const everyMode = (mask: number): Operation['seen'] => ({ fentry: mask, kprobe: mask, raw_tracepoint: mask });
const permissionModes = (mask: number): Operation['seen'] => ({ fentry: mask, kprobe: mask });

const NOT_ASKED = 'the kernel checks no permission on the inode itself';
const ONLY_SUCCESS = 'only system calls that succeeded reach the file';

/** What the modes see, operation by operation; the suite in sensor.test.ts verifies every line. */
export const operations: readonly Operation[] = [
  { name: 'read', what: 'open for reading', seen: everyMode(36) },
  { name: 'write', what: 'open for writing, or with O_TRUNC', seen: everyMode(34) },
  { name: 'read-write', what: 'open for reading and writing', seen: everyMode(38) },
  { name: 'append', what: 'open for appending', seen: everyMode(42) },
  { name: 'execute', what: 'execute a program', seen: everyMode(33) },
  { name: 'hard-link', what: 'open through another hard link', seen: everyMode(36) },
  { name: 'symlink', what: 'open through a symbolic link', seen: everyMode(36) },
  {
    name: 'truncate',
    what: 'truncate by path (raw_tracepoint: before kernel 6.13 not on tmpfs, xfs and overlay)',
    seen: everyMode(2),
  },
  {
    name: 'denied',
    what: 'an open that is refused (EACCES)',
    seen: permissionModes(36),
    unseenBecause: ONLY_SUCCESS,
  },
  {
    name: 'check',
    what: 'access(2), faccessat(2): a check only',
    seen: permissionModes(20),
    unseenBecause: 'the call opens nothing that this mode could see',
  },
  {
    name: 'link',
    what: 'link(2), while fs.protected_hardlinks is on',
    seen: permissionModes(6),
    unseenBecause: 'the call opens nothing that this mode could see',
  },
  {
    name: 'script',
    what: 'execute a script',
    seen: permissionModes(33),
    unseenBecause:
      'at the exec tracepoint the program is the interpreter already; its open of the script is seen as a read',
  },
  {
    name: 'open-descriptor-read',
    what: 'first read or mmap by a process through a descriptor opened before the watch',
    seen: { raw_tracepoint: 4 },
    unseenBecause: NOT_ASKED,
  },
  {
    name: 'open-descriptor-write',
    what: 'first write, ftruncate, fallocate or shared mmap through such a descriptor',
    seen: { raw_tracepoint: 2 },
    unseenBecause: NOT_ASKED,
  },
  {
    name: 'io_uring-open',
    what: 'open by io_uring (raw_tracepoint: since kernel 5.19, and not into a fixed slot)',
    seen: everyMode(36),
  },
  {
    name: 'delete',
    what: 'unlink of a name of the file (raw_tracepoint: since kernel 6.13; on overlay only files of its upper layer)',
    seen: everyMode(operationBits.delete),
  },
  {
    name: 'rename',
    what: 'rename of the file (raw_tracepoint: since kernel 6.13)',
    seen: everyMode(operationBits.rename),
  },
  {
    name: 'replace',
    what: 'rename of another file over it, as by mv and ln -sf (raw_tracepoint: as delete)',
    seen: everyMode(operationBits.replace),
  },
  {
    name: 'chmod',
    what: 'chmod and its kin (raw_tracepoint: since kernel 6.13)',
    seen: everyMode(operationBits.attributes | attributeBits.mode),
  },
  {
    name: 'chown',
    what: 'chown and its kin (raw_tracepoint: since kernel 6.13)',
    seen: everyMode(operationBits.attributes | attributeBits.owner),
  },
  {
    name: 'utime',
    what: 'utime and its kin (raw_tracepoint: since kernel 6.13)',
    seen: everyMode(operationBits.attributes | attributeBits.times),
  },
  {
    name: 'setxattr',
    what: 'setxattr, removexattr (raw_tracepoint: since kernel 6.13; the others: not of ACLs)',
    seen: everyMode(operationBits.attributes | attributeBits.extended),
  },
  {
    name: 'denied-operation',
    what: 'one of these that is refused (EACCES, EPERM, EROFS)',
    seen: permissionModes(operationBits.delete),
    unseenBecause: ONLY_SUCCESS,
  },
  { name: 'metadata', what: 'stat of the file', seen: {}, unseenBecause: NOT_ASKED },
];

export function blindSpots(mode: SensorModeName): readonly Operation[] {
  return operations.filter((operation) => operation.seen[mode] === undefined);
}

/**
 * A way to attach the sensor's programs.
 *
 * @example
 * const openOnly: SensorMode = {
 *   name: 'raw_tracepoint',
 *   summary: 'the end of system calls',
 *   programs: ['sys_exit'],
 *   unavailable: (features) => (features.attach.raw_tracepoint.available ? undefined : 'raw tracepoints are not available'),
 *   attach: (object) => [object.program('sys_exit').attach()],
 * };
 */
export interface SensorMode {
  readonly name: SensorModeName;
  /** One line for people. */
  readonly summary: string;
  /** The programs that this mode loads in addition to `identify`. */
  readonly programs: readonly string[];
  /** Why this kernel does not support the mode; undefined if it does. */
  unavailable(features: KernelFeatures): string | undefined;
  /** Attaches all of it; what was attached before a failure is detached again. */
  attach(object: BpfObject): BpfLink[];
}

/** Names of the programs on functions that change names and attributes: vfs_unlink, notify_change, ... */
const operationFunctions = ['unlink', 'rename', 'attributes', 'set_extended', 'remove_extended'] as const;

/** Best first. */
export const sensorModes: readonly SensorMode[] = [
  {
    name: 'fentry',
    summary:
      'fexit on inode_permission and on changes of names and attributes, with the verdict, at the lowest cost',
    programs: [
      'permission_exit',
      'open_entry',
      ...operationFunctions.flatMap((name) => [`${name}_entry`, `${name}_exit`]),
    ],
    unavailable: (features) => firstMissing(needs(features, 'fexit')),
    attach: (object) =>
      attachAll([
        () => object.program('permission_exit').attach(),
        () => object.program('open_entry').attach(),
        ...operationFunctions.flatMap((name) => [
          () => object.program(`${name}_exit`).attach(),
          () => object.program(`${name}_entry`).attach(),
        ]),
      ]),
  },
  {
    name: 'kprobe',
    summary:
      'kprobe and kretprobe on inode_permission and on changes of names and attributes, with the verdict',
    programs: [
      'permission_entry',
      'permission_return',
      'open_called',
      ...operationFunctions.flatMap((name) => [`${name}_called`, `${name}_return`]),
    ],
    unavailable: (features) => firstMissing(needs(features, 'kprobe', 'kretprobe')),
    // The return probe is attached first: without it, accesses seen at the entry would wait for ever.
    attach: (object) =>
      attachAll([
        () => object.program('permission_return').attach(),
        () => object.program('permission_entry').attach(),
        () => object.program('open_called').attach(),
        ...operationFunctions.flatMap((name) => [
          () => object.program(`${name}_return`).attach(),
          () => object.program(`${name}_called`).attach(),
        ]),
      ]),
  },
  {
    name: 'raw_tracepoint',
    summary: 'raw tracepoints on system calls and exec: successful calls only',
    programs: ['syscall_exit', 'process_exec', 'inode_changes', 'uring_complete'],
    unavailable: (features) => firstMissing(needs(features, 'raw_tracepoint')),
    attach: (object) =>
      attachAll([
        ...[...changeTimeTracepoints, dirtyTracepoint].map(
          (name) => () => attachIfThere(object, 'inode_changes', name),
        ),
        () => attachIfThere(object, 'uring_complete', 'io_uring_complete'),
        () => object.program('process_exec').attach(),
        () => object.program('syscall_exit').attach(),
      ]),
  },
];

/**
 * Tracepoints that fire when an inode's change time is set, as by every change of the inode, even truncation by path
 * (include/trace/events/timestamp.h, since 6.13).
 */
export const changeTimeTracepoints = ['inode_set_ctime_to_ts', 'ctime_ns_xchg', 'ctime_xchg_skip'] as const;
/** On older kernels: the inode is marked dirty (include/trace/events/writeback.h). */
export const dirtyTracepoint = 'writeback_mark_inode_dirty';

/** The mode of that name. @throws {RampartError} `INPUT` for an unknown name. */
export function sensorMode(name: string): SensorMode {
  const mode = sensorModes.find((candidate) => candidate.name === name);
  if (mode === undefined) {
    throw new RampartError(errorCodes.INPUT, {
      what: `unknown sensor mode "${name}"`,
      next: `Use one of: ${sensorModeNames.join(', ')}`,
    });
  }
  return mode;
}

/** The features that {@link SensorMode.unavailable} checks, for a probe of these only. */
export const attachKindsOfModes = ['fexit', 'kprobe', 'kretprobe', 'raw_tracepoint'] as const;

/** What a mode needs: BTF to relocate types by, its hooks, the ring, and permission to read kernel memory (lockdown can forbid it). */
export function needs(
  features: KernelFeatures,
  ...hooks: readonly (typeof attachKindsOfModes)[number][]
): readonly Feature[] {
  return [
    features.btf,
    ...hooks.map((hook) => features.attach[hook]),
    features.ringBuffer,
    features.probeReadKernel,
  ];
}

/** The reason that the first unavailable feature is unavailable; undefined if all are available. */
export function firstMissing(features: readonly Feature[]): string | undefined {
  for (const feature of features) {
    if (!feature.available) return `${feature.reason}: ${feature.detail}`;
  }
  return undefined;
}

/** Undefined when the kernel has no such tracepoint. @throws {RampartError} `EBPF` for anything else. */
export function attachIfThere(object: BpfObject, program: string, tracepoint: string): BpfLink | undefined {
  try {
    return object.program(program).attachRawTracepoint(tracepoint);
  } catch (error) {
    // The tracepoints of a kernel depend on its version; for any other one it returns ENOENT.
    if (error instanceof RampartError && error.message.includes('ENOENT')) return undefined;
    throw error;
  }
}

/** All or none: what was attached before a failure is detached again. */
export function attachAll(steps: readonly (() => BpfLink | undefined)[]): BpfLink[] {
  const links: BpfLink[] = [];
  try {
    for (const step of steps) {
      const link = step();
      if (link !== undefined) links.push(link);
    }
  } catch (error) {
    for (const link of links) link[Symbol.dispose]();
    throw error;
  }
  return links;
}

/** The first line of a refusal's message, which may end with the log of the verifier. */
export function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? text;
}
