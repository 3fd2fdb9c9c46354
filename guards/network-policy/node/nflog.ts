/** Reads the packets that rules log to an NFLOG group, in this process (nfnetlink_log, Linux 2.6.14). */
import { readFileSync } from 'node:fs';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import {
  attribute,
  attributesOf,
  bytes16,
  bytes32,
  bytes8,
  type NetlinkMessage,
  textOf,
} from '../../../lib/netlink/message.ts';
import { NetlinkReader } from '../../../lib/netlink/reader.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../lib/netlink/socket.ts';

/** include/uapi/linux/netfilter/nfnetlink_log.h: NFNL_SUBSYS_ULOG << 8, and the message. */
const PACKET = 0x400;
const CONFIG = 0x401;
const configAttributes = { COMMAND: 1, MODE: 2, TIMEOUT: 4, THRESHOLD: 5, FLAGS: 6 } as const;
const packetAttributes = { HEADER: 1, PAYLOAD: 9, PREFIX: 10, SEQUENCE: 12 } as const;
const COMMAND_BIND = 1;
const COPY_PACKET = 2;
const FLAG_SEQUENCE = 1;

/**
 * The kernel delivers messages when the oldest one has waited this long, in hundredths of a second, or when it has
 * collected enough of them.
 */
const TIMEOUT_HUNDREDTHS = 5;
const THRESHOLD = 32;
/** Enough for IPv6 with extension headers and the ports behind them. */
const COPY_BYTES = 256;
const RECEIVE_BYTES = 1024 * 1024;
const NFGEN_BYTES = 4;
const SEQUENCES = 2 ** 32;

export interface LoggedPacket {
  /** The prefix in the rule that logged the packet. */
  readonly prefix: string;
  /** The netfilter hook that the packet was logged in: 0 prerouting, 1 input, 2 forward, 3 output, 4 postrouting. */
  readonly hook: number;
  /** First 256 bytes of the packet, from the IP header on. Valid only during the call. */
  readonly payload: Buffer;
}

interface NflogOptions {
  /** 0 to 65535. A group can have only one reader in a network namespace. */
  readonly group: number;
  /** Called with each logged packet. Its errors go to `onError`, and reading continues. */
  readonly onPacket: (packet: LoggedPacket) => void;
  /** Called with the number of logged packets that were lost because the queue was full. */
  readonly onLost?: (packets: number) => void;
  readonly onError: (error: unknown) => void;
  /** Size of the kernel's queue. Default: 1 MiB. */
  readonly receiveBytes?: number;
}

interface NflogTotals {
  readonly packets: number;
  /** Messages that were lost, from the gaps in the kernel's sequence numbers. */
  readonly lost: number;
  /** How often the queue was full. */
  readonly overruns: number;
}

/** Does not keep the process alive. Dispose it to release the group. */
export interface Nflog extends Disposable {
  readonly totals: NflogTotals;
  /** False after it was disposed, and after the socket itself has failed, which was reported to `onError`. */
  readonly isOpen: boolean;
}

/**
 * Takes a group of the network namespace that the calling thread has now.
 *
 * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN, `LIMIT` if another program has the group; `SystemCallError` if the
 *   kernel has no nfnetlink_log.
 */
export function openNflog(options: NflogOptions): Nflog {
  return new NflogReader(options);
}

class NflogReader implements Nflog {
  readonly totals = { packets: 0, lost: 0, overruns: 0 };
  readonly #options: NflogOptions;
  readonly #socket: NetlinkSocket;
  readonly #reader: NetlinkReader;
  #sequence: number | undefined;

  constructor(options: NflogOptions) {
    this.#options = options;
    this.#socket = new NetlinkSocket({
      protocol: NETLINK_NETFILTER,
      receiveBytes: options.receiveBytes ?? RECEIVE_BYTES,
    });
    this.#reader = new NetlinkReader({
      socket: this.#socket,
      begin: () => this.#take(),
      onMessage: (message) => this.#message(message),
      onOverrun: () => this.totals.overruns++,
      onError: options.onError,
    });
  }

  get isOpen(): boolean {
    return this.#reader.isOpen;
  }

  #take(): void {
    const { group } = this.#options;
    // struct nfgenmsg: any family, version 0, and the group.
    const general = Buffer.concat([Buffer.of(0, 0), bytes16(group)]);
    const mode = Buffer.concat([bytes32(COPY_BYTES), Buffer.of(COPY_PACKET, 0)]);
    const what = `cannot read NFLOG group ${group}`;
    // A group that another socket has is refused with EPERM, like all requests without CAP_NET_ADMIN.
    const holder = holderOf(group);
    if (holder !== undefined) {
      throw new RampartError(errorCodes.LIMIT, {
        what,
        why: `another program reads it (netlink port ${holder}, usually its pid)`,
        next: 'Use another group: --network-policy-log-group',
      });
    }
    this.#socket.request(
      what,
      { type: CONFIG },
      [
        general,
        attribute(configAttributes.COMMAND, bytes8(COMMAND_BIND)),
        attribute(configAttributes.MODE, mode),
        attribute(configAttributes.TIMEOUT, bytes32(TIMEOUT_HUNDREDTHS)),
        attribute(configAttributes.THRESHOLD, bytes32(THRESHOLD)),
        attribute(configAttributes.FLAGS, bytes16(FLAG_SEQUENCE)),
      ],
      (message) => this.#message(message),
    );
  }

  #message({ type, body }: NetlinkMessage): void {
    if (type !== PACKET || body.length < NFGEN_BYTES) return;
    const attributes = attributesOf(body.subarray(NFGEN_BYTES));
    const sequence = attributes.get(packetAttributes.SEQUENCE);
    if (sequence !== undefined && sequence.length >= 4) this.#count(sequence.readUInt32BE(0));
    this.totals.packets++;
    this.#options.onPacket({
      prefix: textOf(attributes.get(packetAttributes.PREFIX)),
      hook: attributes.get(packetAttributes.HEADER)?.at(2) ?? 0,
      payload: attributes.get(packetAttributes.PAYLOAD) ?? Buffer.alloc(0),
    });
  }

  #count(sequence: number): void {
    const expected = this.#sequence;
    this.#sequence = (sequence + 1) % SEQUENCES;
    const lost = expected === undefined ? 0 : (sequence - expected + SEQUENCES) % SEQUENCES;
    if (lost === 0) return;
    this.totals.lost += lost;
    this.#options.onLost?.(lost);
  }

  [Symbol.dispose](): void {
    this.#reader[Symbol.dispose]();
  }
}

/** nfnetlink_log lists a group in a line: its number, the netlink port that reads it, and more (net/netfilter/nfnetlink_log.c, seq_show). */
function holderOf(group: number): number | undefined {
  let text: string;
  try {
    text = readFileSync('/proc/thread-self/net/netfilter/nfnetlink_log', 'utf8');
  } catch {
    return undefined;
  }
  const fields = text.split('\n').map((line) => line.trim().split(/\s+/));
  const found = fields.find(([number]) => number === String(group));
  return found === undefined ? undefined : Number(found[1]);
}
