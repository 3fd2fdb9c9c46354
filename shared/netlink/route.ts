/**
 * rtnetlink(7): one request, its answers, and the kernel's errno. The kernel works a request off within send(2), so the answer is
 * there when it returns, and nothing here waits.
 */
import { constants } from 'node:os';

import { type Descriptor, outcomeOf } from '../ebpf/bpf-call.ts';
import { errno, libc } from '../ebpf/ffi.ts';
import { granted, KernelRefusal } from '../ebpf/refusal.ts';

const AF_NETLINK = 16;
/** SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK. */
const SOCKET_TYPE = 3 | 0x80000 | 0x800;
const NETLINK_ROUTE = 0;
const NLMSG_ERROR = 2;
const NLMSG_DONE = 3;
const NLM_F_DUMP_INTR = 0x10;
const HEADER_BYTES = 16;
const RECEIVE_BYTES = 256 * 1024;
/** A dump during which the list changed is repeated. */
const ATTEMPTS = 10;

/** NLM_F_* of a request, besides NLM_F_REQUEST. */
export const requestFlags = { ack: 4, replace: 0x100, exclusive: 0x200, create: 0x400, dump: 0x300 } as const;

/** A message from the kernel, without its header. */
interface RouteMessage {
  readonly type: number;
  readonly body: Buffer;
}

/** A socket in the network namespace that the thread had when it was opened. Dispose it after use. */
export class RouteSocket implements Disposable {
  readonly #socket: Descriptor;
  #sequence = 0;

  /** @throws {KernelRefusal} */
  constructor() {
    const outcome = outcomeOf(libc.socket(AF_NETLINK, SOCKET_TYPE, NETLINK_ROUTE));
    this.#socket = granted('cannot open an rtnetlink socket', outcome);
  }

  /**
   * Asks for a change, or for one thing.
   *
   * @returns what the kernel answered besides its acknowledgement.
   * @throws {KernelRefusal} with the kernel's errno.
   */
  ask(what: string, type: number, flags: number, body: Uint8Array): readonly RouteMessage[] {
    return this.#exchange(what, type, flags | requestFlags.ack, body) ?? [];
  }

  /**
   * All there are of a kind.
   *
   * @throws {KernelRefusal} with the kernel's errno.
   */
  dump(what: string, type: number, body: Uint8Array): readonly RouteMessage[] {
    for (let attempt = 1; attempt <= ATTEMPTS; attempt++) {
      const messages = this.#exchange(what, type, requestFlags.dump, body);
      if (messages !== undefined) return messages;
    }
    throw new KernelRefusal(what, { errno: constants.errno.EINTR, log: '' });
  }

  /** Undefined when a dump was interrupted by a change. */
  #exchange(what: string, type: number, flags: number, body: Uint8Array): RouteMessage[] | undefined {
    const sequence = ++this.#sequence;
    const request = Buffer.alloc(HEADER_BYTES + body.byteLength);
    request.writeUInt32LE(request.length, 0);
    request.writeUInt16LE(type, 4);
    request.writeUInt16LE(1 | flags, 6);
    request.writeUInt32LE(sequence, 8);
    request.set(body, HEADER_BYTES);
    if (libc.write(this.#socket.fd, request, request.byteLength) < 0)
      throw new KernelRefusal(what, { errno: errno(), log: '' });
    const messages: RouteMessage[] = [];
    let whole = true;
    for (;;) {
      const buffer = Buffer.allocUnsafe(RECEIVE_BYTES);
      const length = libc.read(this.#socket.fd, buffer, buffer.byteLength);
      if (length < 0) throw new KernelRefusal(what, { errno: errno(), log: '' });
      for (let at = 0; at + HEADER_BYTES <= length;) {
        const size = buffer.readUInt32LE(at);
        if (size < HEADER_BYTES) break;
        const answer = {
          type: buffer.readUInt16LE(at + 4),
          body: buffer.subarray(at + HEADER_BYTES, at + size),
        };
        if (buffer.readUInt32LE(at + 8) === sequence) {
          if ((buffer.readUInt16LE(at + 6) & NLM_F_DUMP_INTR) !== 0) whole = false;
          if (answer.type === NLMSG_ERROR || answer.type === NLMSG_DONE) {
            const code = answer.body.length >= 4 ? -answer.body.readInt32LE(0) : 0;
            if (code > 0) throw new KernelRefusal(what, { errno: code, log: '' });
            return whole ? messages : undefined;
          }
          messages.push(answer);
        }
        at += (size + 3) & ~3;
      }
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

/** `struct rtattr` by `struct rtattr`, each padded to four bytes. */
export function attributes(list: readonly (readonly [type: number, value: Uint8Array])[]): Buffer {
  return Buffer.concat(
    list.map(([type, value]) => {
      const bytes = Buffer.alloc((4 + value.byteLength + 3) & ~3);
      bytes.writeUInt16LE(4 + value.byteLength, 0);
      bytes.writeUInt16LE(type, 2);
      bytes.set(value, 4);
      return bytes;
    }),
  );
}

/** The attributes from `at` on, by type; NLA_F_NESTED is taken off. */
export function readAttributes(bytes: Buffer, at = 0): ReadonlyMap<number, Buffer> {
  const found = new Map<number, Buffer>();
  while (at + 4 <= bytes.length) {
    const size = bytes.readUInt16LE(at);
    if (size < 4) break;
    found.set(bytes.readUInt16LE(at + 2) & 0x3fff, bytes.subarray(at + 4, at + size));
    at += (size + 3) & ~3;
  }
  return found;
}

export function u32(value: number): Uint8Array {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value >>> 0);
  return bytes;
}

export function text(value: string): Uint8Array {
  return Buffer.from(`${value}\0`);
}

/** Of an attribute, up to its NUL. */
export function textOf(value: Buffer | undefined): string {
  if (value === undefined) return '';
  const end = value.indexOf(0);
  return value.toString('utf8', 0, end < 0 ? value.length : end);
}
