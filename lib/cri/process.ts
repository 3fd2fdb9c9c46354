/** The identity of a process: PIDs are reused, so a PID alone does not identify a process. */
import { readFileSync } from 'node:fs';

/** Length in ms of a clock tick, the unit of process times in /proc (USER_HZ): the same on all machines that Node.js supports. */
export const tickMs = 10;

/** Identifies a process until the next boot. */
export interface ProcessIdentity {
  readonly pid: number;
  /** When it was started, in clock ticks since boot: field 22 of /proc/PID/stat, proc_pid_stat(5). */
  readonly startTicks: number;
}

/**
 * The process that now has this PID; undefined for a missing process, and for a zombie, which has no root directory.
 */
export function processIdentity(pid: number, procPath = '/proc'): ProcessIdentity | undefined {
  const [state, ...fields] = statFields(pid, procPath);
  const startTicks = Number(fields[18]);
  if (state === 'Z' || state === 'X' || !Number.isSafeInteger(startTicks)) return undefined;
  return { pid, startTicks };
}

/** CPU time of a process, user and kernel, in ms; undefined if it does not exist. */
export function processCpuMs(pid: number): number | undefined {
  const fields = statFields(pid, '/proc');
  const ticks = Number(fields[11]) + Number(fields[12]);
  return Number.isSafeInteger(ticks) ? ticks * tickMs : undefined;
}

/** The fields of /proc/PID/stat from the third one, the state, on; empty if the process does not exist. */
function statFields(pid: number, procPath: string): readonly string[] {
  const stat = readProcFile(`${procPath}/${pid}/stat`);
  // The second field is the name in parentheses, which may itself contain spaces and parentheses.
  return stat === undefined ? [] : stat.slice(stat.lastIndexOf(')') + 2).split(' ');
}

/** Whether the process still exists. If so, a file that was opened before below /proc/PID belongs to this process. */
export function isSameProcess(process: ProcessIdentity, procPath = '/proc'): boolean {
  return processIdentity(process.pid, procPath)?.startTicks === process.startTicks;
}

/** Container IDs have 64 hexadecimal digits in containerd and CRI-O. */
const containerId = /[0-9a-f]{64}/;

/**
 * Whether the process is in a cgroup of the container, by its ID in the path (`ID`, `cri-containerd-ID.scope`, `crio-ID.scope`).
 * Undefined if its cgroups contain no container ID, for example if the host's cgroups are not visible.
 */
export function isInContainer(pid: number, id: string, procPath = '/proc'): boolean | undefined {
  const cgroups = readProcFile(`${procPath}/${pid}/cgroup`);
  if (cgroups === undefined) return undefined;
  if (cgroups.includes(id)) return true;
  return containerId.test(cgroups) ? false : undefined;
}

function readProcFile(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    // The process has exited, perhaps during the read (ESRCH).
    return undefined;
  }
}
