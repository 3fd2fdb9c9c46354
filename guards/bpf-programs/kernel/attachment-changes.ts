/**
 * Notices changes of interfaces by which programs may be lost, as reported by the kernel to groups of
 * rtnetlink(7): interfaces that come, go or are renamed, and deleted qdiscs and filters.
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
 * Follows the network namespace that the calling thread has now, until it is disposed. Does not keep the
 * process alive.
 *
 * @param onChange - Called for each read of the socket that has a change, and when the kernel had no room to
 * report all of them. The caller's own changes are reported, too.
 * @throws {SystemCallError} `SYSTEM`
 */
export function followAttachmentChanges(onChange: () => void): Disposable {
  /**
   * Names by index, for reported interfaces: the kernel reports an interface at each change of its flags,
   * too.
   */
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
      // Each of them is examined: names are kept.
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
