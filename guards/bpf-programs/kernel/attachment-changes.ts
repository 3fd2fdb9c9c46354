/**
 * Detects changes that may detach programs, from the kernel's notifications in groups of rtnetlink(7): interfaces that appear, disappear or
 * are renamed, and deleted qdiscs and filters.
 */
import { pollReadable } from '../../../lib/ebpf/ffi.ts';
import { attributesOf, type NetlinkMessage, messagesOf, textOf } from '../../../lib/netlink/message.ts';
import { NETLINK_ROUTE, NetlinkSocket } from '../../../lib/netlink/socket.ts';

const RTNLGRP_LINK = 1;
const RTNLGRP_TC = 4;
const RTM_NEWLINK = 16;
const RTM_DELLINK = 17;
const RTM_DELQDISC = 37;
const RTM_DELTFILTER = 45;
const AF_UNSPEC = 0;
const IFLA_IFNAME = 3;
/** struct ifinfomsg. */
const IFINFO_BYTES = 16;

/**
 * Follows the network namespace that the calling thread is in now, until the result is disposed. Does not keep the process alive.
 *
 * @param onChange - Called after each read of the socket that contains a change, or if the kernel had to drop notifications. The caller's
 * own changes are included.
 * @throws {SystemCallError} `SYSTEM`
 */
export function followAttachmentChanges(onChange: () => void): Disposable {
  /** The last known name of each interface, by index: the kernel also reports an interface when only its flags change. */
  const names = new Map<number, string>();
  using stack = new DisposableStack();
  const socket = stack.use(
    new NetlinkSocket({ protocol: NETLINK_ROUTE, groups: [RTNLGRP_LINK, RTNLGRP_TC] }),
  );

  function read(): void {
    let isChanged = false;
    for (;;) {
      const bytes = socket.receive();
      if (bytes === 'nothing') break;
      if (bytes === 'overrun') isChanged = true;
      // Every message is examined, even after a change was found, because isChange() records names.
      else for (const message of messagesOf(bytes)) isChanged = isChange(message) || isChanged;
    }
    if (isChanged) onChange();
  }

  function isChange({ type, body }: NetlinkMessage): boolean {
    if (type === RTM_DELQDISC || type === RTM_DELTFILTER) return true;
    // Other messages are about ports of a bridge (AF_BRIDGE), whose interfaces are reported separately.
    const isLink = (type === RTM_NEWLINK || type === RTM_DELLINK) && body[0] === AF_UNSPEC;
    if (!isLink || body.length < IFINFO_BYTES) return false;
    const index = body.readInt32LE(4);
    if (type === RTM_DELLINK) {
      names.delete(index);
      return true;
    }
    const name = textOf(attributesOf(body.subarray(IFINFO_BYTES)).get(IFLA_IFNAME));
    if (names.get(index) === name) return false;
    names.set(index, name);
    return true;
  }

  stack.use(pollReadable(socket.fd, read)).unref();
  return stack.move();
}
