/** Linux capabilities of this process, by name. */
import { readFileSync } from 'node:fs';

/** Names by number (include/uapi/linux/capability.h). */
const capabilityNames: readonly string[] = (
  'CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE ' +
  'NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO SYS_CHROOT ' +
  'SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME SYS_TTY_CONFIG MKNOD LEASE ' +
  'AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM BLOCK_SUSPEND AUDIT_READ ' +
  'PERFMON BPF CHECKPOINT_RESTORE'
)
  .split(' ')
  .map((name) => `CAP_${name}`);

/** The capabilities that eBPF requires. CAP_SYS_ADMIN replaces each of the others; before 5.8, CAP_BPF and CAP_PERFMON did not exist. */
export const ebpfCapabilities = ['CAP_BPF', 'CAP_PERFMON', 'CAP_NET_ADMIN', 'CAP_SYS_ADMIN'] as const;
export type EbpfCapability = (typeof ebpfCapabilities)[number];

/**
 * The names of the capabilities in the `CapEff:` line of a /proc/PID/status, in the order of their numbers. A bit
 * without a name here appears as `CAP_<number>`. Empty if the text has no such line.
 */
export function parseEffectiveCapabilities(status: string): readonly string[] {
  const digits = /^CapEff:\s*([0-9a-f]{1,16})$/m.exec(status)?.[1];
  if (digits === undefined) return [];
  const bits = BigInt(`0x${digits}`);
  const names: string[] = [];
  for (let number = 0; number < 64; number++) {
    if ((bits >> BigInt(number)) & 1n) names.push(capabilityNames[number] ?? `CAP_${number}`);
  }
  return names;
}

export function effectiveCapabilities(): readonly string[] {
  return parseEffectiveCapabilities(readFileSync('/proc/self/status', 'latin1'));
}

export function missingCapabilities(
  held: readonly string[],
  needed: readonly EbpfCapability[],
): readonly EbpfCapability[] {
  return held.includes('CAP_SYS_ADMIN') ? [] : needed.filter((name) => !held.includes(name));
}

/**
 * Whether this process is in a user namespace other than the initial one. Its capabilities then do not count in the initial
 * namespace, where bpf(2) checks them. The initial namespace maps all IDs to themselves (user_namespaces(7)).
 */
export function inUserNamespace(uidMap: string = readFileSync('/proc/self/uid_map', 'latin1')): boolean {
  return !/^\s*0\s+0\s+4294967295\s*$/.test(uidMap);
}
