/** Reads and ends the connections that the kernel tracks (nf_conntrack), by ctnetlink. */
import { constants as osConstants } from 'node:os';

import { SystemCallError } from '../../../../lib/ebpf/libc.ts';
import { attribute, nested } from '../../../../lib/netlink/message.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';
import { familyNumbers, type Flow, flowAttributes, NFGEN_BYTES, readFlow } from './flow.ts';

/** include/uapi/linux/netfilter/nfnetlink_conntrack.h: NFNL_SUBSYS_CTNETLINK << 8, and the message. */
const GET = 0x101;
const DELETE = 0x102;
const whatIsRead = 'cannot read the connections of the kernel';
/** Size of the socket's buffer: a table of 250,000 flows takes some 60 MB of messages, which are read in parts. */
const RECEIVE_BYTES = 1024 * 1024;

/** A flow that can be deleted. */
export interface TrackedFlow extends Flow {
  /** How the kernel identifies the connection. */
  readonly handle: Buffer;
}

/** Bound to the network namespace of the thread that opened it. Dispose it after use. */
export class Conntrack implements Disposable {
  readonly #socket = new NetlinkSocket({ protocol: NETLINK_NETFILTER, receiveBytes: RECEIVE_BYTES });

  /**
   * All flows, some hundred at a time. Between two batches the caller may do other work, but not call {@link
   * delete}. Another thread does the reading: the kernel walks its whole hash table, of all namespaces, which
   * takes 14 ms for 262,144 buckets even without a flow.
   *
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `SystemCallError` if the kernel has no
   * nf_conntrack_netlink.
   */
  async *flows(): AsyncGenerator<readonly TrackedFlow[], void> {
    const any = Buffer.alloc(NFGEN_BYTES);
    for await (const messages of this.#socket.dumpAside(whatIsRead, GET, [any])) {
      yield messages.flatMap(({ body }) => trackedFlow(body) ?? []);
    }
  }

  /**
   * Deletes a flow: the kernel treats its next packet as the first one of a connection.
   *
   * @returns whether it existed.
   * @throws as {@link flows}.
   */
  delete({ family, handle }: TrackedFlow): boolean {
    try {
      const general = Buffer.of(familyNumbers[family], 0, 0, 0);
      this.#socket.request('cannot delete a connection in the kernel', { type: DELETE }, [general, handle]);
      return true;
    } catch (error) {
      if (error instanceof SystemCallError && error.number === osConstants.errno.ENOENT) return false;
      throw error;
    }
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

function trackedFlow(body: Buffer): TrackedFlow | undefined {
  const read = readFlow(body);
  return read && { ...read.flow, handle: handleOf(read.attributes) };
}

/** Includes the kernel's ID, so that a later connection between the same ends is not deleted instead. */
function handleOf(attributes: ReadonlyMap<number, Buffer>): Buffer {
  const [original, zone, id] = [flowAttributes.ORIGINAL, flowAttributes.ZONE, flowAttributes.ID].map((type) =>
    attributes.get(type),
  );
  return Buffer.concat([
    ...(original === undefined ? [] : [nested(flowAttributes.ORIGINAL, original)]),
    ...(zone === undefined ? [] : [attribute(flowAttributes.ZONE, zone)]),
    ...(id === undefined ? [] : [attribute(flowAttributes.ID, id)]),
  ]);
}
