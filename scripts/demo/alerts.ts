/** Converts an alert back to its access, to show it as `rampart watch` does on a terminal. */
import type { Access } from '../../lib/sensor/access.ts';
import { type KiveAlert, maskOf } from '../../guards/file-access/alert/alert.ts';

const wholeSeconds = '2026-11-21T10:00:00'.length;

/** RFC 3339 with nanoseconds, UTC -> nanoseconds since 1970. */
export function timeNsOf(timestamp: string): bigint {
  const seconds = BigInt(Date.parse(`${timestamp.slice(0, wholeSeconds)}Z`)) / 1000n;
  return seconds * 1_000_000_000n + BigInt(timestamp.slice(wholeSeconds + 1, -1));
}

export function accessOf({ timestamp, metadata, process }: KiveAlert): Access {
  return {
    timeNs: timeNsOf(timestamp),
    inode: BigInt(metadata.inode),
    device: metadata.device,
    mask: maskOf(metadata),
    from: metadata.from ?? '',
    to: metadata.to ?? '',
    namesOfFileSystem: false,
    verdict: metadata.verdict,
    folded: metadata.folded,
    tid: process.pid,
    pid: process.tgid,
    ppid: process.ppid,
    uid: process.uid,
    gid: process.gid,
    comm: process.comm,
    executable: process.binary,
    executableTruncated: process.truncated.includes('binary'),
    cwd: process.cwd,
    cwdTruncated: process.truncated.includes('cwd'),
    arguments: process.arguments,
    argumentsTruncated: process.truncated.includes('arguments'),
    cgroupId: BigInt(process['cgroup-id']),
    cgroup: '',
    pidNamespace: process['pid-namespace'],
    mountNamespace: process['mount-namespace'],
  };
}
