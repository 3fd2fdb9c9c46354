/**
 * A netlink socket in this process. No call waits: the kernel answers a request while it is sent, so the answer can be read
 * at once; unsolicited messages are read when the event loop reports them. Only {@link NetlinkSocket.dumpAside} sends and
 * reads in another thread.
 */
import { constants as osConstants } from 'node:os';

import { asideCalls, errno, fileCalls, libc } from '../ebpf/ffi.ts';
import { errnoName, Fd, FixedBuffer, SystemCallError } from '../ebpf/libc.ts';
import { errorCodes, RampartError } from '../errors/errors.ts';
import { messageFlags, messagesOf, messageTypes, netlinkMessage, type NetlinkMessage } from './message.ts';

const AF_NETLINK = 16;
const SOCK_RAW = 3;
const SOCK_NONBLOCK = 0o4000;
const SOCK_CLOEXEC = 0o2000000;
const SOL_SOCKET = 1;
const SO_SNDBUF = 7;
const SO_RCVBUF = 8;
/** Sets the send buffer, even above net.core.wmem_max; needs CAP_NET_ADMIN. */
const SO_SNDBUFFORCE = 32;
/** Sets the receive buffer, even above net.core.rmem_max; needs CAP_NET_ADMIN. */
const SO_RCVBUFFORCE = 33;
/** Linux 4.12: `u32[9]`, the last of which (SK_MEMINFO_DROPS) is how many messages found no room. */
const SO_MEMINFO = 55;
const MEMINFO_BYTES = 9 * 4;
const SOL_NETLINK = 270;
const NETLINK_NO_ENOBUFS = 5;
/** recv(2) then returns the length of the message even if it does not fit. */
const MSG_TRUNC = 0x20;

/** NETLINK_NETFILTER (include/uapi/linux/netlink.h). */
export const NETLINK_NETFILTER = 12;

/** What the send buffer has room for on every machine; for longer messages it is enlarged. */
const SEND_BYTES = 64 * 1024;

/** NETLINK_ROUTE. */
export const NETLINK_ROUTE = 0;

/** The kernel fills at most 32 KiB in one read of a dump (net/netlink/af_netlink.c, netlink_recvmsg). */
const READ_BYTES = 64 * 1024;

interface NetlinkSocketOptions {
  readonly protocol: number;
  /** Size of the kernel's queue. Default: net.core.rmem_default. */
  readonly receiveBytes?: number;
  /** Multicast groups, by their numbers: 1 is RTNLGRP_LINK of rtnetlink. Default: none. At most 32. */
  readonly groups?: readonly number[];
  /**
   * Messages that find no room in the queue are counted in {@link NetlinkSocket.dropped}, and reading
   * continues. With the error, the kernel would drop everything until the queue is empty
   * (net/netlink/af_netlink.c, NETLINK_S_CONGESTED). Default: reads return `overrun`.
   */
  readonly countsDrops?: boolean;
}

/** A socket in the network namespace of the thread that opens it. Dispose it after use. */
export class NetlinkSocket implements Disposable {
  readonly #fd: Fd;
  readonly #buffer = new FixedBuffer(READ_BYTES);
  #sequence = 0;

  /** @throws {SystemCallError} `SYSTEM`. */
  constructor({ protocol, receiveBytes, groups = [], countsDrops = false }: NetlinkSocketOptions) {
    const fd = libc.socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd < 0) throw new SystemCallError('cannot open a netlink socket', errno());
    this.#fd = new Fd(fd);
    try {
      if (countsDrops) this.#set(SOL_NETLINK, NETLINK_NO_ENOBUFS, 1);
      this.#bind(groups);
      if (receiveBytes !== undefined) this.#setBytes(receiveBytes, [SO_RCVBUFFORCE, SO_RCVBUF]);
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** For `pollReadable`. */
  get fd(): number {
    return this.#fd.number;
  }

  /**
   * How many messages found no room in the queue, counted by the kernel modulo 2 ** 32.
   *
   * @throws {SystemCallError} `SYSTEM` before Linux 4.12.
   */
  get dropped(): number {
    const value = Buffer.alloc(MEMINFO_BYTES);
    if (libc.getsockopt(this.#fd.number, SOL_SOCKET, SO_MEMINFO, value, [value.length]) < 0)
      throw new SystemCallError('cannot read what a netlink socket has lost', errno());
    return value.readUInt32LE(MEMINFO_BYTES - 4);
  }

  /**
   * Sends a request that is answered by an acknowledgement alone; unsolicited messages that come meanwhile are passed to
   * `onOther`.
   *
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; {@link SystemCallError} `SYSTEM` with what the kernel says.
   */
  request(
    what: string,
    { type, flags = 0 }: { readonly type: number; readonly flags?: number },
    parts: readonly Uint8Array[],
    onOther: (message: NetlinkMessage) => void = () => undefined,
  ): void {
    const sequence = this.#send(what, type, flags | messageFlags.REQUEST | messageFlags.ACK, parts);
    for (;;) {
      const bytes = this.receive();
      if (bytes === 'nothing') throw new SystemCallError(what, osConstants.errno.ENODATA);
      if (bytes === 'overrun') continue;
      let answered = false;
      for (const message of messagesOf(bytes)) {
        if (message.sequence !== sequence || message.type !== messageTypes.ERROR) onOther(message);
        else {
          answered = true;
          throwIfRefused(what, message);
        }
      }
      if (answered) return;
    }
  }

  /**
   * Requests a list, and yields the messages of one read at a time: between two reads the caller may let other work run.
   * Messages are valid until the next read.
   *
   * @throws as {@link request}.
   */
  *dump(what: string, type: number, parts: readonly Uint8Array[]): Generator<readonly NetlinkMessage[]> {
    const sequence = this.#send(what, type, messageFlags.REQUEST | messageFlags.DUMP, parts);
    for (;;) {
      const { found, done } = dumped(what, sequence, this.receive());
      if (found.length > 0) yield found;
      if (done) return;
    }
  }

  /**
   * Like {@link dump}, in another thread, for lists that take the kernel long. The socket must not be used otherwise until the iteration
   * ends.
   *
   * @throws as {@link request}.
   */
  async *dumpAside(
    what: string,
    type: number,
    parts: readonly Uint8Array[],
  ): AsyncGenerator<readonly NetlinkMessage[], void> {
    const { bytes, address } = this.#buffer;
    const sequence = ++this.#sequence;
    const flags = messageFlags.REQUEST | messageFlags.DUMP;
    const message = netlinkMessage({ type, flags, sequence }, ...parts);
    bytes.set(message);
    if ((await asideCalls.send(this.#fd.number, address, message.length, 0)) < 0) {
      // send(2) fails in the calling thread, so errno has the reason.
      if (libc.send(this.#fd.number, message, message.length, 0) < 0) throw refusal(what, errno());
    }
    for (;;) {
      const length = await asideCalls.recv(this.#fd.number, address, bytes.length, MSG_TRUNC);
      const read =
        length < 0 ? this.receive() : length > bytes.length ? 'overrun' : bytes.subarray(0, length);
      const { found, done } = dumped(what, sequence, read);
      if (found.length > 0) yield found;
      if (done) return;
    }
  }

  /**
   * Sends several messages, concatenated by the caller, in one call, and reads the kernel's answers.
   *
   * @returns errors and acknowledgements (errno 0), each with the sequence number of the message that it answers. If
   * there were more than the kernel's queue has room for, only the first ones.
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; {@link SystemCallError} `SYSTEM`.
   */
  exchange(what: string, bytes: Buffer): { readonly sequence: number; readonly errno: number }[] {
    // Discards messages left by an exchange that was broken off.
    while (this.receive() !== 'nothing');
    if (bytes.length > SEND_BYTES) this.#setBytes(bytes.length, [SO_SNDBUFFORCE, SO_SNDBUF]);
    if (libc.send(this.#fd.number, bytes, bytes.length, 0) < 0) throw refusal(what, errno());
    const answers: { sequence: number; errno: number }[] = [];
    for (let read = this.receive(); read !== 'nothing'; read = this.receive()) {
      if (read === 'overrun') continue;
      for (const { type, sequence, body } of messagesOf(read)) {
        if (type !== messageTypes.ERROR) continue;
        const number = errnoOf(body);
        if (isPrivilege(number)) throw refusal(what, number);
        answers.push({ sequence, errno: number });
      }
    }
    return answers;
  }

  /**
   * The next message, without waiting, valid until the next call. `overrun`: the kernel had no room, and
   * something was lost.
   *
   * @throws {SystemCallError} `SYSTEM`.
   */
  receive(): Buffer | 'nothing' | 'overrun' {
    const { bytes, address } = this.#buffer;
    for (;;) {
      const length = fileCalls.recv(this.#fd.number, address, bytes.length, MSG_TRUNC);
      if (length >= 0) return length > bytes.length ? 'overrun' : bytes.subarray(0, length);
      const number = errno();
      const { EAGAIN, EINTR, ENOBUFS } = osConstants.errno;
      if (number === EAGAIN) return 'nothing';
      if (number === ENOBUFS) return 'overrun';
      if (number !== EINTR) throw new SystemCallError('cannot read a netlink socket', number);
    }
  }

  [Symbol.dispose](): void {
    this.#fd[Symbol.dispose]();
  }

  #send(what: string, type: number, flags: number, parts: readonly Uint8Array[]): number {
    const sequence = ++this.#sequence;
    const message = netlinkMessage({ type, flags, sequence }, ...parts);
    if (libc.send(this.#fd.number, message, message.length, 0) < 0) throw refusal(what, errno());
    return sequence;
  }

  #bind(groups: readonly number[]): void {
    // struct sockaddr_nl: the kernel chooses the port.
    const address = Buffer.alloc(12);
    address.writeUInt16LE(AF_NETLINK, 0);
    address.writeUInt32LE(groups.reduce((mask, group) => mask | (1 << (group - 1)), 0) >>> 0, 8);
    if (libc.bind(this.#fd.number, address, address.length) < 0)
      throw new SystemCallError('cannot bind a netlink socket', errno());
  }

  #setBytes(sizeBytes: number, options: readonly number[]): void {
    if (options.some((option) => this.#isSet(SOL_SOCKET, option, sizeBytes))) return;
    throw new SystemCallError(`cannot set the buffer of a netlink socket to ${sizeBytes} bytes`, errno());
  }

  #set(level: number, option: number, value: number): void {
    if (!this.#isSet(level, option, value))
      throw new SystemCallError('cannot set an option of a netlink socket', errno());
  }

  #isSet(level: number, option: number, value: number): boolean {
    const bytes = Buffer.alloc(4);
    bytes.writeInt32LE(value);
    return libc.setsockopt(this.#fd.number, level, option, bytes, bytes.length) === 0;
  }
}

/** The messages in one read of a dump, and whether it is the last read. */
function dumped(
  what: string,
  sequence: number,
  bytes: Buffer | 'nothing' | 'overrun',
): { readonly found: readonly NetlinkMessage[]; readonly done: boolean } {
  if (bytes === 'nothing') throw new SystemCallError(what, osConstants.errno.ENODATA);
  if (bytes === 'overrun') throw new SystemCallError(what, osConstants.errno.ENOBUFS);
  const found: NetlinkMessage[] = [];
  let done = false;
  for (const message of messagesOf(bytes)) {
    if (message.sequence !== sequence) continue;
    if (message.type === messageTypes.ERROR) throwIfRefused(what, message);
    if (message.type === messageTypes.DONE) done = true;
    else found.push(message);
  }
  return { found, done };
}

function errnoOf(body: Buffer): number {
  return body.length >= 4 ? -body.readInt32LE(0) : osConstants.errno.EBADMSG;
}

function throwIfRefused(what: string, { body }: NetlinkMessage): void {
  const number = errnoOf(body);
  if (number !== 0) throw refusal(what, number);
}

function isPrivilege(number: number): boolean {
  return number === osConstants.errno.EPERM || number === osConstants.errno.EACCES;
}

function refusal(what: string, number: number): RampartError {
  if (!isPrivilege(number)) return new SystemCallError(what, number);
  return new RampartError(errorCodes.PRIVILEGE, {
    what,
    why: errnoName(number),
    next: 'Run it with CAP_NET_ADMIN in the user namespace of this network',
  });
}
