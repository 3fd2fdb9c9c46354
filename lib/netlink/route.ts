/**
 * rtnetlink(7): one request, its answers, and the kernel's errno. The kernel processes a request within send(2), so the answer is
 * there when it returns, and nothing here waits.
 */
import { constants } from 'node:os';

import { type Descriptor, outcomeOf } from '../ebpf/bpf-call.ts';
import { errno, libc } from '../ebpf/ffi.ts';
import { granted, KernelRefusal } from '../ebpf/refusal.ts';
import { messageFlags, messagesOf, messageTypes, netlinkMessage, type NetlinkMessage } from './message.ts';

const AF_NETLINK = 16;
/** SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK. */
const SOCKET_TYPE = 3 | 0x80000 | 0x800;
const NETLINK_ROUTE = 0;
const SOL_NETLINK = 270;
const NETLINK_GET_STRICT_CHK = 12;
const RECEIVE_BYTES = 256 * 1024;
/** How often a dump is tried, if the list changes during it. */
const ATTEMPTS = 10;

/** A socket in the network namespace that the thread had when it was opened. Dispose it after use. */
export class RouteSocket implements Disposable {
  readonly #socket: Descriptor;
  /** Shared by all reads: allocating this much for each would cost more than the read. */
  readonly #buffer = Buffer.allocUnsafeSlow(RECEIVE_BYTES);
  #sequence = 0;

  /**
   * @param isStrict - The kernel honours all attributes of a dump request, or refuses the request; otherwise it ignores some (Linux 4.20).
   * @throws {KernelRefusal}
   */
  constructor({ isStrict = false }: { readonly isStrict?: boolean } = {}) {
    const outcome = outcomeOf(libc.socket(AF_NETLINK, SOCKET_TYPE, NETLINK_ROUTE));
    this.#socket = granted('cannot open an rtnetlink socket', outcome);
    if (!isStrict) return;
    const on = Buffer.alloc(4);
    on.writeInt32LE(1);
    if (libc.setsockopt(this.#socket.fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, on, on.length) === 0) return;
    const number = errno();
    this[Symbol.dispose]();
    throw new KernelRefusal('cannot make an rtnetlink socket strict', { errno: number, log: '' });
  }

  /**
   * Requests a change, or a single object.
   *
   * @param flags - Besides REQUEST and ACK.
   * @returns what the kernel answered besides its acknowledgement.
   * @throws {KernelRefusal} with the kernel's errno.
   */
  ask(what: string, type: number, flags: number, ...parts: readonly Uint8Array[]): readonly NetlinkMessage[] {
    return this.#exchange(what, type, flags | messageFlags.ACK, parts) ?? [];
  }

  /** Lists all objects of a kind. @throws {KernelRefusal} with the kernel's errno. */
  dump(what: string, type: number, body: Uint8Array): readonly NetlinkMessage[] {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const messages = this.#exchange(what, type, messageFlags.DUMP, [body]);
      if (messages !== undefined) return messages;
    }
    throw new KernelRefusal(what, { errno: constants.errno.EINTR, log: '' });
  }

  /** Undefined when a dump was interrupted by a change. */
  #exchange(
    what: string,
    type: number,
    flags: number,
    parts: readonly Uint8Array[],
  ): NetlinkMessage[] | undefined {
    const sequence = ++this.#sequence;
    const request = netlinkMessage({ type, flags: messageFlags.REQUEST | flags, sequence }, ...parts);
    if (libc.write(this.#socket.fd, request, request.byteLength) < 0)
      throw new KernelRefusal(what, { errno: errno(), log: '' });
    const messages: NetlinkMessage[] = [];
    let whole = true;
    for (;;) {
      const length = libc.read(this.#socket.fd, this.#buffer, this.#buffer.byteLength);
      if (length < 0) throw new KernelRefusal(what, { errno: errno(), log: '' });
      for (const message of messagesOf(Buffer.from(this.#buffer.subarray(0, length)))) {
        if (message.sequence !== sequence) continue;
        if ((message.flags & messageFlags.DUMP_INTR) !== 0) whole = false;
        if (message.type === messageTypes.ERROR || message.type === messageTypes.DONE) {
          const code = message.body.length >= 4 ? -message.body.readInt32LE(0) : 0;
          if (code > 0) throw new KernelRefusal(what, { errno: code, log: '' });
          return whole ? messages : undefined;
        }
        messages.push(message);
      }
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}
