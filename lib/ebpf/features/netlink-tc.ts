/** One question to the kernel's traffic control, in rtnetlink (rtnetlink(7)). */
import { constants } from 'node:os';

import { Descriptor, outcomeOf } from '../bpf-call.ts';
import { errno, libc } from '../ffi.ts';

const AF_NETLINK = 16;
const SOCK_RAW_CLOEXEC_NONBLOCK = 3 | 0x80000 | 0x800;
const NETLINK_ROUTE = 0;
const RTM_NEWQDISC = 36;
const NLMSG_ERROR = 2;
/** NLM_F_REQUEST | NLM_F_ACK | NLM_F_EXCL | NLM_F_CREATE. */
const flags = 1 | 4 | 0x200 | 0x400;
const TCA_KIND = 1;
const TCA_INGRESS_BLOCK = 13;
const TC_H_CLSACT = 0xfffffff1;
const clsactHandle = 0xffff0000;

/**
 * Asks for a clsact qdisc in a way that no kernel grants: with ingress block 0, which is refused
 * (since 4.16) after the kind was looked up and before anything was created (net/sched/sch_api.c,
 * qdisc_create and qdisc_block_indexes_set). A kernel that has clsact as a module loads it.
 *
 * @returns the errno: EINVAL when clsact is known, EEXIST when the interface has such a qdisc,
 *   ENOENT when the kind is unknown.
 */
export function askForClsact(interfaceIndex: number): number {
  const opened = outcomeOf(libc.socket(AF_NETLINK, SOCK_RAW_CLOEXEC_NONBLOCK, NETLINK_ROUTE));
  if (!(opened instanceof Descriptor)) return opened.errno;
  using socket = opened;
  const request = clsactRequest(interfaceIndex);
  if (libc.write(socket.fd, request, request.byteLength) < 0) return errno();
  // The kernel works the request off within write(), so the answer is there.
  const answer = Buffer.alloc(4096);
  const length = libc.read(socket.fd, answer, answer.byteLength);
  if (length < 0) return errno();
  if (length < 20 || answer.readUInt16LE(4) !== NLMSG_ERROR) return constants.errno.EPROTO;
  return -answer.readInt32LE(16);
}

/** struct nlmsghdr, struct tcmsg and two attributes, each padded to four bytes. */
function clsactRequest(interfaceIndex: number): Uint8Array {
  const message = Buffer.alloc(16 + 20 + 12 + 8);
  message.writeUInt32LE(message.length, 0);
  message.writeUInt16LE(RTM_NEWQDISC, 4);
  message.writeUInt16LE(flags, 6);
  message.writeInt32LE(interfaceIndex, 20);
  message.writeUInt32LE(clsactHandle, 24);
  message.writeUInt32LE(TC_H_CLSACT, 28);
  const kind = 36;
  message.writeUInt16LE(4 + 'clsact\0'.length, kind);
  message.writeUInt16LE(TCA_KIND, kind + 2);
  message.write('clsact', kind + 4, 'latin1');
  const block = kind + 12;
  message.writeUInt16LE(8, block);
  message.writeUInt16LE(TCA_INGRESS_BLOCK, block + 2);
  return message;
}
