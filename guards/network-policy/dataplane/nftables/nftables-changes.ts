/**
 * Notices changes of an nftables table, as reported by the kernel to a group of netlink (NFNLGRP_NFTABLES).
 */
import { attributesOf, messagesOf, type NetlinkMessage, textOf } from '../../../../lib/netlink/message.ts';
import { NETLINK_NETFILTER, NetlinkSocket } from '../../../../lib/netlink/socket.ts';

const NFNLGRP_NFTABLES = 7;
const NFNL_SUBSYS_NFTABLES = 10;
const NFT_MSG_NEWGEN = 15;
const NFT_MSG_GETGEN = 16;
const NFTA_GEN_ID = 1;
const MAX_GENERATION = 0xffff_ffff;
/** Size of nfnetlink's header before the attributes of a message, and of an attribute's header. */
const NFGEN_BYTES = 4;
const ATTRIBUTE_BYTES = 4;
/**
 * Room for changes of all tables of the namespace: if a change does not fit, the owner compares everything, and
 * kube-proxy's changes may be large.
 */
const RECEIVE_BYTES = 8 * 1024 * 1024;

/**
 * Never waits, and has no timer: its owner calls it at intervals, at the cost of one system call if nothing was
 * changed. The owner makes its own changes within {@link own}.
 */
export class NftablesChanges implements Disposable {
  readonly #table: string;
  readonly #socket: NetlinkSocket;
  /** The port of the socket that the owner's changes came from. */
  #ownPort: number | undefined;
  #isChanged = false;
  /** The last generation up to which the kernel has reported all changes since {@link follow}; undefined: some were missed. */
  #generation: number | undefined;

  /**
   * Bound to the present network namespace of the calling thread.
   *
   * @param table - Its name, whatever its family.
   * @throws {SystemCallError} `SYSTEM` if the kernel has no such group.
   */
  constructor(table: string) {
    this.#table = table;
    this.#socket = new NetlinkSocket({
      protocol: NETLINK_NETFILTER,
      groups: [NFNLGRP_NFTABLES],
      receiveBytes: RECEIVE_BYTES,
    });
  }

  /** Whether another program has changed the table since the last call, or too much happened to know. */
  take(): boolean {
    this.#read(undefined);
    const isChanged = this.#isChanged;
    this.#isChanged = false;
    return isChanged;
  }

  /** Does not report changes by `work`, which must be complete when it returns. */
  own<T>(work: () => T): T {
    this.#read(undefined);
    try {
      return work();
    } finally {
      this.#read('own');
    }
  }

  /**
   * Call it before the table is read and compared: {@link isFollowed} is about the changes from then on.
   *
   * @throws {RampartError} `PRIVILEGE` without CAP_NET_ADMIN; `SYSTEM`.
   */
  follow(): void {
    this.#read(undefined);
    this.#generation = this.#askGeneration();
  }

  /**
   * Whether the kernel has reported every change of its ruleset since {@link follow}, and none of the table by another program. Each
   * transaction, of whatever table, makes the next generation and reports its number (net/netfilter/nf_tables_api.c,
   * nf_tables_commit): a lost report leaves a gap. Much cheaper than to read the table, which takes half a second with 10,000 addresses.
   *
   * @throws as {@link follow}.
   */
  isFollowed(): boolean {
    this.#read(undefined);
    return this.#generation !== undefined && this.#askGeneration() === this.#generation;
  }

  #askGeneration(): number | undefined {
    let generation: number | undefined;
    // Reports of changes may come before the answer.
    this.#socket.request(
      'cannot ask for the generation of nftables',
      { type: (NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_GETGEN },
      [Buffer.alloc(NFGEN_BYTES)],
      (message) => {
        if (isGeneration(message)) generation = generationOf(message);
        else this.#isChanged ||= this.#isOfTable(message) && message.port !== this.#ownPort;
      },
    );
    if (this.#isChanged) this.#generation = undefined;
    return generation;
  }

  #read(during: 'own' | undefined): void {
    for (let bytes = this.#socket.receive(); bytes !== 'nothing'; bytes = this.#socket.receive()) {
      if (bytes === 'overrun') {
        // The messages did not fit in the socket's buffer: most likely those of a large change of our own.
        if (during === undefined) this.#isChanged = true;
        continue;
      }
      for (const message of messagesOf(bytes)) {
        if (isGeneration(message)) this.#reach(generationOf(message));
        // All messages of one read stem from one transaction (net/netfilter/nf_tables_api.c, nf_tables_commit_notify): here, from one of
        // ours.
        if (message.port === this.#ownPort) break;
        if (!this.#isOfTable(message)) continue;
        if (during === 'own') this.#ownPort ??= message.port;
        if (message.port !== this.#ownPort) this.#isChanged = true;
      }
    }
    if (this.#isChanged) this.#generation = undefined;
  }

  #reach(generation: number | undefined): void {
    const before = this.#generation;
    // The kernel skips generation 0.
    if (before !== undefined)
      this.#generation = generation === (before === MAX_GENERATION ? 1 : before + 1) ? generation : undefined;
  }

  /** All messages but that of a new generation begin with the name of the table. */
  #isOfTable(message: NetlinkMessage): boolean {
    const { type, body } = message;
    if (type >> 8 !== NFNL_SUBSYS_NFTABLES || isGeneration(message)) return false;
    if (body.length < NFGEN_BYTES + ATTRIBUTE_BYTES) return false;
    const end = NFGEN_BYTES + body.readUInt16LE(NFGEN_BYTES);
    return textOf(body.subarray(NFGEN_BYTES + ATTRIBUTE_BYTES, end)) === this.#table;
  }

  [Symbol.dispose](): void {
    this.#socket[Symbol.dispose]();
  }
}

function isGeneration({ type }: NetlinkMessage): boolean {
  return type === ((NFNL_SUBSYS_NFTABLES << 8) | NFT_MSG_NEWGEN);
}

function generationOf({ body }: NetlinkMessage): number | undefined {
  return attributesOf(body.subarray(NFGEN_BYTES)).get(NFTA_GEN_ID)?.readUInt32BE(0);
}
