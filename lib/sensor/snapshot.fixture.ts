import type { Access } from './access.ts';

/** A copy that outlives the batch. */
export function snapshotOf(record: Access): Access {
  return {
    timeNs: record.timeNs,
    inode: record.inode,
    device: record.device,
    mask: record.mask,
    verdict: record.verdict,
    folded: record.folded,
    tid: record.tid,
    pid: record.pid,
    ppid: record.ppid,
    uid: record.uid,
    gid: record.gid,
    comm: record.comm,
    executable: record.executable,
    executableFile: record.executableFile,
    cwd: record.cwd,
    arguments: record.arguments,
    executableTruncated: record.executableTruncated,
    cwdTruncated: record.cwdTruncated,
    argumentsTruncated: record.argumentsTruncated,
    cgroupId: record.cgroupId,
    cgroup: record.cgroup,
    from: record.from,
    to: record.to,
    namesOfFileSystem: record.namesOfFileSystem,
    pidNamespace: record.pidNamespace,
    mountNamespace: record.mountNamespace,
  };
}
