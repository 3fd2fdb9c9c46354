/** Mounts file systems by descriptors (fsopen(2) and move_mount(2), since 5.2), and enters mount namespaces. */
import { errno, libc, syscallNumbers } from './ffi.ts';
import { AT_FDCWD, Fd, openat2, SystemCallError } from './libc.ts';

/** include/uapi/linux/mount.h */
const FSOPEN_CLOEXEC = 1;
const FSMOUNT_CLOEXEC = 1;
const FSPICK_CLOEXEC = 1;
const FSPICK_EMPTY_PATH = 8;
const FSCONFIG_SET_FLAG = 0;
const FSCONFIG_CMD_CREATE = 6;
const FSCONFIG_CMD_RECONFIGURE = 7;
const MOUNT_ATTR = { NOSUID: 0x2, NODEV: 0x4, NOEXEC: 0x8 } as const;
const OPEN_TREE_CLONE = 1;
/** O_CLOEXEC, and AT_EMPTY_PATH of fcntl.h. */
const OPEN_TREE_CLOEXEC = 0o2000000;
const AT_EMPTY_PATH = 0x1000;
const MOVE_MOUNT_F_EMPTY_PATH = 0x4;
const MOVE_MOUNT_T_EMPTY_PATH = 0x40;
const MNT_DETACH = 2;
const UMOUNT_NOFOLLOW = 8;
/** include/uapi/linux/sched.h */
const CLONE_FS = 0x200;
const CLONE_NEWNS = 0x20000;

/**
 * Creates a file system that is not mounted yet: closing the descriptor destroys it, unless {@link attachMount} mounts it first.
 *
 * @param type - A name in /proc/filesystems.
 * @returns the root of the mount; the caller disposes it.
 * @throws {SystemCallError} `SYSTEM`; EPERM without CAP_SYS_ADMIN.
 */
export function createMount(type: string): Fd {
  const what = `cannot make a file system of type ${type}`;
  using context = descriptor(what, libc.fsopen(syscallNumbers.fsopen, type, FSOPEN_CLOEXEC));
  done(what, libc.fsconfig(syscallNumbers.fsconfig, context.number, FSCONFIG_CMD_CREATE, null, null, 0));
  const attributes = MOUNT_ATTR.NOSUID | MOUNT_ATTR.NODEV | MOUNT_ATTR.NOEXEC;
  return descriptor(what, libc.fsmount(syscallNumbers.fsmount, context.number, FSMOUNT_CLOEXEC, attributes));
}

/**
 * Mounts a detached mount at a directory in the mount namespace of the calling thread.
 *
 * @param shown - The path, for the error message.
 * @throws {SystemCallError} `SYSTEM`
 */
export function attachMount(mount: Fd, directory: Fd, shown: string): void {
  const flags = MOVE_MOUNT_F_EMPTY_PATH | MOVE_MOUNT_T_EMPTY_PATH;
  done(
    `cannot mount at ${shown}`,
    libc.moveMount(syscallNumbers.moveMount, mount.number, '', directory.number, '', flags),
  );
}

/**
 * Creates a bind mount of a directory in the mount namespace of the calling thread, with the same attributes. It is detached until
 * {@link attachMount} mounts it.
 *
 * @returns its root; the caller disposes it.
 * @throws {SystemCallError} `SYSTEM`
 */
export function cloneMount(directory: Fd): Fd {
  const flags = OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_EMPTY_PATH;
  return descriptor(
    'cannot bind a directory',
    libc.openTree(syscallNumbers.openTree, directory.number, '', flags),
  );
}

/**
 * Makes the whole file system read-only, or writable again, not only this mount of it.
 *
 * @param mount - The root of a mount.
 * @throws {SystemCallError} `SYSTEM`; EBUSY while one of its files is open for writing.
 */
export function setReadOnly(mount: Fd, isReadOnly: boolean): void {
  const what = `cannot make a file system ${isReadOnly ? 'read-only' : 'writable'}`;
  const flags = FSPICK_CLOEXEC | FSPICK_EMPTY_PATH;
  using context = descriptor(what, libc.fspick(syscallNumbers.fspick, mount.number, '', flags));
  const { fsconfig } = syscallNumbers;
  const { number } = context;
  done(what, libc.fsconfig(fsconfig, number, FSCONFIG_SET_FLAG, isReadOnly ? 'ro' : 'rw', null, 0));
  done(what, libc.fsconfig(fsconfig, number, FSCONFIG_CMD_RECONFIGURE, null, null, 0));
}

/**
 * umount(2) of the topmost mount at a path. The last component is not followed if it is a link.
 *
 * @param isLazy - Unmounts even if the mount is in use: it then exists until its last user is gone.
 * @throws {SystemCallError} `SYSTEM`; EBUSY while it is in use in this mount namespace.
 */
export function unmount(path: string, isLazy = false): void {
  done(`cannot unmount ${path}`, libc.umount2(path, UMOUNT_NOFOLLOW | (isLazy ? MNT_DETACH : 0)));
}

/** A mount namespace that this thread can visit. The caller disposes it. */
export class MountNamespace implements Disposable {
  readonly #namespace: Fd;

  /** @param path - `/proc/1/ns/mnt` @throws {SystemCallError} `SYSTEM` */
  constructor(path: string) {
    this.#namespace = openat2(AT_FDCWD, path, { flags: 0 });
  }

  /**
   * Runs `work`, which has to be synchronous, with the root directory and the mounts of the namespace. Other threads keep those
   * of this process. Needs CAP_SYS_ADMIN and CAP_SYS_CHROOT.
   *
   * @throws {SystemCallError} `SYSTEM`, and any error of `work`.
   */
  visit<T>(work: () => T): T {
    using own = openat2(AT_FDCWD, '/proc/thread-self/ns/mnt', { flags: 0 });
    const directory = process.cwd();
    // setns(2) refuses a thread that shares its root and working directory with others. Needed each time: new threads share them.
    done('cannot leave the working directory of the other threads', libc.unshare(CLONE_FS));
    if (libc.setns(this.#namespace.number, CLONE_NEWNS) < 0)
      throw new SystemCallError(
        'cannot enter the mount namespace of the node',
        errno(),
        'CAP_SYS_ADMIN and CAP_SYS_CHROOT are required',
      );
    try {
      return work();
    } finally {
      // Aborts, because otherwise everything else that this thread does would happen in the wrong namespace.
      if (libc.setns(own.number, CLONE_NEWNS) < 0) process.abort();
      process.chdir(directory);
    }
  }

  [Symbol.dispose](): void {
    this.#namespace[Symbol.dispose]();
  }
}

function descriptor(what: string, result: number): Fd {
  done(what, result);
  return new Fd(result);
}

function done(what: string, result: number): void {
  if (result < 0) throw new SystemCallError(what, errno());
}
