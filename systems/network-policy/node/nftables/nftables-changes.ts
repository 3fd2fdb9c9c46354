/**
 * Notices changes of an nftables table, as the kernel tells them to a group of netlink (NFNLGRP_NFTABLES).
 */
import { closeSync, readSync } from 'node:fs';
import { endianness } from 'node:os';
import { getSystemErrorName } from 'node:util';

import { errno, libc } from '../../../../shared/ebpf/ffi.ts';
import { errorCodes, RampartError } from '../../../../shared/observe/errors.ts';

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const NETLINK_NETFILTER = 12;
const NFNLGRP_NFTABLES = 7;
const NFNL_SUBSYS_NFTABLES = 10;
const NFT_MSG_NEWGEN = 15;
/** Of a message and of what nfnetlink puts before its attributes. */
const headerBytes = 16;
const familyBytes = 4;
const attributeBytes = 4;

const isLittle = endianness() === 'LE';

/**
 * Does not wait and has no timer: who owns it asks now and then, which is one system call where nothing was changed. A change that
 * the owner makes itself is made in {@link own}.
 */
export class NftablesChanges implements Disposable {
  readonly #table: string;
  readonly #buffer = Buffer.alloc(64 * 1024);
  #fd: number;
  /** The port of the socket that the owner's changes came from. */
  #ownPort: number | undefined;
  #isChanged = false;

  /**
   * Of the network namespace that the calling thread has now.
   *
   * @param table - Its name, whatever its family.
   * @throws {RampartError} `SYSTEM` where the kernel has no such group.
   */
  constructor(table: string) {
    this.#table = table;
    this.#fd = openGroup();
  }

  /** Whether somebody else has changed the table since the last call, or too much happened to tell. */
  take(): boolean {
    this.#read(undefined);
    const isChanged = this.#isChanged;
    this.#isChanged = false;
    return isChanged;
  }

  /** What `work` changes is not told. It has to be done when it returns. */
  own<T>(work: () => T): T {
    this.#read(undefined);
    try {
      return work();
    } finally {
      this.#read('own');
    }
  }

  #read(during: 'own' | undefined): void {
    for (;;) {
      let size: number;
      try {
        size = readSync(this.#fd, this.#buffer);
      } catch (error) {
        const { code } = error as NodeJS.ErrnoException;
        if (code === 'EAGAIN') return;
        if (code !== 'ENOBUFS') throw error;
        // More than the socket holds: of a large change of our own, most likely.
        if (during === undefined) this.#isChanged = true;
        continue;
      }
      if (size === 0) return;
      this.#look(this.#buffer.subarray(0, size), during);
    }
  }

  #look(bytes: Buffer, during: 'own' | undefined): void {
    for (let at = 0; at + headerBytes <= bytes.length;) {
      const length = number32(bytes, at);
      if (length < headerBytes || at + length > bytes.length) return;
      const [type, port] = [number16(bytes, at + 4), number32(bytes, at + 12)];
      if (this.#isOfTable(type, bytes.subarray(at + headerBytes, at + length))) {
        if (during === 'own') this.#ownPort ??= port;
        if (port !== this.#ownPort) this.#isChanged = true;
      }
      at += (length + 3) & ~3;
    }
  }

  /** All messages but that of a new generation begin with the name of the table. */
  #isOfTable(type: number, body: Buffer): boolean {
    if (type >> 8 !== NFNL_SUBSYS_NFTABLES || (type & 255) === NFT_MSG_NEWGEN) return false;
    if (body.length < familyBytes + attributeBytes) return false;
    const length = number16(body, familyBytes);
    const text = body.toString('latin1', familyBytes + attributeBytes, familyBytes + length);
    return text.replace(/\0.*$/s, '') === this.#table;
  }

  [Symbol.dispose](): void {
    if (this.#fd < 0) return;
    closeSync(this.#fd);
    this.#fd = -1;
  }
}

function openGroup(): number {
  const fd = libc.socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_NETFILTER);
  const failure = (): RampartError =>
    new RampartError(errorCodes.SYSTEM, {
      what: 'the kernel does not report changes of nftables',
      why: getSystemErrorName(-errno()),
    });
  if (fd < 0) throw failure();
  // struct sockaddr_nl: family, padding, port (0: the kernel gives one), groups.
  const address = Buffer.alloc(12);
  if (isLittle) {
    address.writeUInt16LE(AF_NETLINK, 0);
    address.writeUInt32LE(1 << (NFNLGRP_NFTABLES - 1), 8);
  } else {
    address.writeUInt16BE(AF_NETLINK, 0);
    address.writeUInt32BE(1 << (NFNLGRP_NFTABLES - 1), 8);
  }
  if (libc.bind(fd, address, address.length) === 0) return fd;
  const error = failure();
  closeSync(fd);
  throw error;
}

function number16(bytes: Buffer, at: number): number {
  return isLittle ? bytes.readUInt16LE(at) : bytes.readUInt16BE(at);
}

function number32(bytes: Buffer, at: number): number {
  return isLittle ? bytes.readUInt32LE(at) : bytes.readUInt32BE(at);
}
