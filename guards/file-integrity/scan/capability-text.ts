/** The capabilities of a file in the text form of cap_to_text(3) of libcap 2.66, which AIDE stores. */
import { readFileSync } from 'node:fs';

/** In the order of include/uapi/linux/capability.h. */
const names: readonly string[] = (
  'chown dac_override dac_read_search fowner fsetid kill setgid setuid setpcap linux_immutable net_bind_service ' +
  'net_broadcast net_admin net_raw ipc_lock ipc_owner sys_module sys_rawio sys_chroot sys_ptrace sys_pacct ' +
  'sys_admin sys_boot sys_nice sys_resource sys_time sys_tty_config mknod lease audit_write audit_control setfcap ' +
  'mac_override mac_admin syslog wake_alarm block_suspend audit_read perfmon bpf checkpoint_restore'
)
  .split(' ')
  .map((name) => `cap_${name}`);

/** The extended attribute `security.capability` (include/uapi/linux/capability.h, struct vfs_cap_data). */
const revisionMask = 0xff000000;
const effectiveFlag = 1;
const bytesOfRevision = new Map([
  [0x01000000, 12],
  [0x02000000, 20],
  [0x03000000, 24],
]);
const allBits = 64;
const flags = { effective: 1, permitted: 2, inheritable: 4 } as const;

/** Number of capabilities that this kernel knows; libcap treats the others separately. */
export function capabilitiesOfKernel(): number {
  try {
    return Number(readFileSync('/proc/sys/kernel/cap_last_cap', 'latin1')) + 1;
  } catch {
    return names.length;
  }
}

/** The text for the value of the extended attribute; undefined if the value is invalid. */
export function capabilityText(value: Buffer, known: number): string | undefined {
  if (value.length < 4) return undefined;
  const magic = value.readUInt32LE(0);
  const bytes = bytesOfRevision.get((magic & revisionMask) >>> 0);
  if (bytes === undefined || value.length !== bytes) return undefined;
  const isEffective = (magic & effectiveFlag) !== 0;
  const states = Array.from({ length: allBits }, (_, capability) => {
    const at = 4 + (capability >> 5) * 8;
    if (at + 8 > Math.min(bytes, 20)) return 0;
    const bit = 1 << (capability & 31);
    const permitted = (value.readUInt32LE(at) & bit) === 0 ? 0 : flags.permitted;
    const inheritable = (value.readUInt32LE(at + 4) & bit) === 0 ? 0 : flags.inheritable;
    const effective = isEffective && (permitted | inheritable) !== 0 ? flags.effective : 0;
    return permitted | inheritable | effective;
  });
  return textOf(states, known);
}

/** Starts with the state that most capabilities have, followed by the differences. */
function textOf(states: readonly number[], known: number): string {
  const counts = countOf(states.slice(0, known));
  let max = 7;
  for (let state = 6; state >= 0; state--) if ((counts[state] ?? 0) >= (counts[max] ?? 0)) max = state;
  let text = `=${letters(max)}`;
  for (let state = 7; state >= 0; state--) {
    if (state === max || (counts[state] ?? 0) === 0) continue;
    const listed = namesOf(states, state, 0, known);
    const more = state & ~max;
    const less = ~state & max;
    // libcap writes "= a+ep" as "a=ep".
    if (more !== 0 && text === '=') text = `${listed}=${letters(more)}`;
    else text += ` ${listed}${more === 0 ? '' : `+${letters(more)}`}`;
    if (less !== 0) text += `-${letters(less)}`;
  }
  const others = countOf(states.slice(known));
  for (let state = 7; state > 0; state--) {
    if ((others[state] ?? 0) > 0) text += ` ${namesOf(states, state, known, allBits)}+${letters(state)}`;
  }
  return text;
}

function countOf(states: readonly number[]): number[] {
  const counts = [0, 0, 0, 0, 0, 0, 0, 0];
  for (const state of states) counts[state] = (counts[state] ?? 0) + 1;
  return counts;
}

function namesOf(states: readonly number[], state: number, from: number, to: number): string {
  const found: string[] = [];
  for (let at = from; at < to; at++) if (states[at] === state) found.push(names[at] ?? String(at));
  return found.join(',');
}

function letters(state: number): string {
  return [
    (state & flags.effective) === 0 ? '' : 'e',
    (state & flags.inheritable) === 0 ? '' : 'i',
    (state & flags.permitted) === 0 ? '' : 'p',
  ].join('');
}
