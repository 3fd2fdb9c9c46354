/** Reads files by their path on the node: links are resolved within the node's root, and only regular files are read. */
import { createHash } from 'node:crypto';
import { createReadStream, fstatSync, readdirSync } from 'node:fs';

import {
  AT_FDCWD,
  Fd,
  openat2,
  openFlags,
  readLink,
  resolveFlags,
  tryOpenat2,
} from '../../../lib/ebpf/libc.ts';
import { readBounded } from '../../../lib/files/bounded-read.ts';
import type { ByteString } from '../model/entry.ts';

/** Maximum size of each of dpkg's files: `status` of a large system has 5 MB. */
const maxBytes = 64 * 1024 * 1024;

export interface ContentSums {
  readonly md5: string;
  readonly sha256: string;
  readonly sha512: string;
}

export class NodeFiles {
  readonly #root: string;

  /** @param root the directory where the node's root is mounted */
  constructor(root: string) {
    this.#root = root;
  }

  /**
   * The content of a regular file, one character for each byte; undefined for anything else.
   *
   * @throws {RampartError} LIMIT
   */
  text(path: string): string | undefined {
    using file = this.#open(path, 0);
    if (file === undefined || !fstatSync(file.number).isFile()) return undefined;
    return readBounded(file.number, maxBytes, path).toString('latin1');
  }

  /** The names in a directory; empty if it does not exist. */
  names(path: string): readonly ByteString[] {
    using directory = this.#open(path, openFlags.DIRECTORY);
    return directory === undefined ? [] : readdirSync(`/proc/self/fd/${directory.number}`, 'latin1');
  }

  /** The target of a symbolic link; undefined for anything else. */
  linkTarget(path: string): ByteString | undefined {
    try {
      using link = this.#open(path, openFlags.PATH | openFlags.NOFOLLOW);
      return link && readLink(link).toString('latin1');
    } catch {
      // Not a symbolic link (readlink(2): EINVAL).
      return undefined;
    }
  }

  /**
   * The checksums of a regular file; undefined for anything else, also for a link at the end of the path.
   *
   * @throws the error of read(2); that of Node.js' crypto if it has no MD5, as in FIPS mode
   */
  async sums(path: ByteString): Promise<ContentSums | undefined> {
    const hashes = (['md5', 'sha256', 'sha512'] as const).map((name) => createHash(name));
    using file = this.#open(path, openFlags.NOFOLLOW);
    if (file === undefined || !fstatSync(file.number).isFile()) return undefined;
    const stream = createReadStream('', { fd: file.number, autoClose: false, highWaterMark: 256 * 1024 });
    for await (const chunk of stream) for (const one of hashes) one.update(chunk as Buffer);
    const [md5 = '', sha256 = '', sha512 = ''] = hashes.map((one) => one.digest('hex'));
    return { md5, sha256, sha512 };
  }

  #open(path: ByteString, flags: number): Fd | undefined {
    using top = openat2(AT_FDCWD, this.#root, { flags: openFlags.PATH | openFlags.DIRECTORY });
    const fd = tryOpenat2(top, Buffer.from(`${path}\0`, 'latin1'), {
      // Opening a FIFO or a device must not block. openat2(2) refuses most other flags together with O_PATH, so
      // O_NONBLOCK is not added then.
      flags: flags & openFlags.PATH ? flags : flags | openFlags.NONBLOCK,
      resolve: resolveFlags.IN_ROOT | resolveFlags.NO_MAGICLINKS,
    });
    return fd < 0 ? undefined : new Fd(fd);
  }
}
