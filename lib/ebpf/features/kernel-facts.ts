/** Facts about the running kernel from /proc and /sys; `undefined` if this process cannot know. */
import { readFileSync } from 'node:fs';

import { libbpf, libc, syscallNumbers } from '../ffi.ts';

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8').trim();
  } catch {
    return undefined;
  }
}

function readInteger(path: string): number | undefined {
  const text = readText(path);
  return text !== undefined && /^-?\d+$/.test(text) ? Number(text) : undefined;
}

/** Whether eBPF programs are compiled. Only root in the initial network namespace can read this. */
export function jitEnabled(): boolean | undefined {
  const value = readInteger('/proc/sys/net/core/bpf_jit_enable');
  return value === undefined ? undefined : value !== 0;
}

/** kernel.unprivileged_bpf_disabled (Documentation/admin-guide/sysctl/kernel.rst). */
export function unprivilegedBpfDisabled(): number | undefined {
  return readInteger('/proc/sys/kernel/unprivileged_bpf_disabled');
}

/** The word in brackets of /sys/kernel/security/lockdown: "none [integrity] confidentiality". */
export function parseLockdown(text: string): 'none' | 'integrity' | 'confidentiality' | undefined {
  const word = /\[(none|integrity|confidentiality)\]/.exec(text)?.[1];
  return word as 'none' | 'integrity' | 'confidentiality' | undefined;
}

/** Lockdown mode. Without securityfs, it is known only if lockdown is not an active security module. */
export function lockdownMode(lsms: readonly string[] | undefined) {
  const text = readText('/sys/kernel/security/lockdown');
  if (text !== undefined) return parseLockdown(text);
  return lsms !== undefined && !lsms.includes('lockdown') ? 'none' : undefined;
}

/** Names of security modules, from LSM_ID 100 on (include/uapi/linux/lsm.h). */
const lsmNames = [
  'capability',
  'selinux',
  'smack',
  'tomoyo',
  'apparmor',
  'yama',
  'loadpin',
  'safesetid',
  'lockdown',
  'bpf',
  'landlock',
  'ima',
  'evm',
  'ipe',
] as const;

/** Active security modules: from securityfs, or from lsm_list_modules(2) (since 6.8) if that is not mounted. */
export function activeLsms(): readonly string[] | undefined {
  const text = readText('/sys/kernel/security/lsm');
  if (text !== undefined) return text.split(',').filter((name) => name !== '');
  const ids = new BigUint64Array(64);
  const size: [number] = [ids.byteLength];
  const count = libc.lsmListModules(syscallNumbers.lsmListModules, new Uint8Array(ids.buffer), size, 0);
  if (count < 0) return undefined;
  return Array.from(ids.subarray(0, count), (id) => lsmNames[Number(id) - 100] ?? `lsm-${id}`);
}

/** Versions of the cgroup hierarchies in a /proc/PID/mounts (proc_pid_mounts(5)). */
export function parseCgroupVersions(mounts: string): readonly (1 | 2)[] {
  const types = new Set(mounts.split('\n').map((line) => line.split(' ')[2]));
  return [...(types.has('cgroup') ? ([1] as const) : []), ...(types.has('cgroup2') ? ([2] as const) : [])];
}

export function cgroupVersions(): readonly (1 | 2)[] {
  return parseCgroupVersions(readText('/proc/self/mounts') ?? '');
}

/** "v1.1", or undefined if libbpf.so.1 is not installed. */
export function libbpfVersion(): string | undefined {
  try {
    return libbpf().versionString();
  } catch {
    return undefined;
  }
}

/** RLIMIT_MEMLOCK of getrlimit(2). */
const RLIMIT_MEMLOCK = 8;

/** Lifts the limit on locked memory, to which kernels before 5.11 charge eBPF memory, if this process may. */
export function liftMemlockLimit(): void {
  libc.setrlimit(RLIMIT_MEMLOCK, new Uint8Array(16).fill(0xff));
}
