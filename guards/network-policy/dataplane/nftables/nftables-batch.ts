/**
 * Changes of one nftables table, as the messages of nf_tables (include/uapi/linux/netfilter/nf_tables.h) and
 * one transaction of nfnetlink: all of it, or nothing.
 *
 * libnftables reads the sets of the kernel before each change, which takes longer than the change itself
 * (docs/decisions/0011-nftables-by-libnftables.md). Here nothing is read: objects are identified by names,
 * not handles, so the kernel itself reports a difference. For the same reason, no batch names its generation:
 * that counts the changes of all tables, including those of other programs.
 */
import { errnoText, SystemCallError } from '../../../../lib/ebpf/libc.ts';
import { errorCodes, RampartError } from '../../../../lib/errors/errors.ts';
import type { NetlinkSocket } from '../../../../lib/netlink/socket.ts';

const NFNL_SUBSYS_NFTABLES = 10;
const NFNL_MSG_BATCH_BEGIN = 0x10;
const NFNL_MSG_BATCH_END = 0x11;
/** NFPROTO_*. */
export const tableFamilies = { inet: 1, netdev: 5 } as const;
const NLM_F_REQUEST = 0x1;
const NLM_F_ACK = 0x4;
const NESTED = 0x8000;
const HEADER_BYTES = 16;

/** NFT_MSG_*, and the flags of NLM_F_* that they go with: CREATE 0x400, APPEND 0x800. */
const messageKinds = {
  newTable: [0, 0x400],
  deleteTable: [2, 0],
  newChain: [3, 0x400],
  deleteChain: [5, 0],
  newRule: [6, 0xc00],
  deleteRule: [8, 0],
  newSet: [9, 0x400],
  deleteSet: [11, 0],
  newElements: [12, 0x400],
  deleteElements: [14, 0],
  newObject: [18, 0x400],
  deleteObject: [20, 0],
} as const;

/** Numbers of attributes that are the same in all messages. */
const LIST_ELEM = 1;
/** `NFTA_SET_ELEM_KEY` */
const ELEM_KEY = 1;
const EXPR_NAME = 1;
const EXPR_DATA = 2;
const DATA_VALUE = 1;
const DATA_VERDICT = 2;

const verdictCodes = { drop: 0, accept: 1, jump: -3, goto: -4, return: -5 } as const;
type VerdictName = keyof typeof verdictCodes;

/** Operators of comparisons: NFT_CMP_*. */
export const compare = { equal: 0, notEqual: 1, atMost: 3, atLeast: 5 } as const;

/** The kernel refused messages of a batch, so nothing of the batch was applied. */
export class RefusedBatch extends SystemCallError {
  /** Why, keyed by the position of the message in the batch. Empty: the batch as a whole was refused. */
  readonly messages: ReadonlyMap<number, string>;

  constructor(errno: number, messages: ReadonlyMap<number, string>) {
    super('nftables refused a change', errno);
    this.messages = messages;
  }
}

/**
 * Messages are put together by calls, then sent once.
 *
 * @example
 * const batch = new NftablesBatch('mine');
 * batch.message('newChain', () => batch.text(3, 'one'));
 * batch.send(socket);
 */
export class NftablesBatch {
  readonly #table: string;
  readonly #family: number;
  /** Zero from {@link #at} on: padding, and the upper bytes of small lengths, need not be written. */
  #bytes: Buffer = Buffer.alloc(1024);
  /** Names, most of which occur many times. */
  readonly #texts = new Map<string, Buffer>();
  #at = 0;
  #lastMessageAt = 0;
  #count = 0;

  constructor(table: string, family: keyof typeof tableFamilies = 'inet') {
    this.#table = table;
    this.#family = tableFamilies[family];
    this.#frame(NFNL_MSG_BATCH_BEGIN, 0, 0, 0, NFNL_SUBSYS_NFTABLES, () => undefined);
  }

  /** Number of messages. */
  get count(): number {
    return this.#count;
  }

  /** @param write - Writes the attributes of the message, after that of the table, which always comes first. */
  message(kind: keyof typeof messageKinds, write: () => void = () => undefined): void {
    const [type, flags] = messageKinds[kind];
    this.#lastMessageAt = this.#at;
    this.#frame((NFNL_SUBSYS_NFTABLES << 8) | type, flags, ++this.#count, this.#family, 0, () => {
      this.text(1, this.#table);
      write();
    });
  }

  /** u32, in network order. */
  number(type: number, value: number): void {
    this.#attribute(type, 4);
    this.#bytes.writeInt32BE(value | 0, this.#at - 4);
  }

  /** u64, in network order. */
  number64(type: number, value: number): void {
    this.#attribute(type, 8);
    this.#bytes.writeBigUInt64BE(BigInt(value), this.#at - 8);
  }

  text(type: number, value: string): void {
    let bytes = this.#texts.get(value);
    if (bytes === undefined) this.#texts.set(value, (bytes = Buffer.from(`${value}\0`)));
    this.data(type, bytes);
  }

  data(type: number, value: Uint8Array): void {
    this.#attribute(type, value.length);
    this.#bytes.set(value, this.#at - ((value.length + 3) & ~3));
  }

  nest(type: number, write: () => void): void {
    const at = this.#at;
    this.#reserve(4);
    write();
    const sizeBytes = this.#at - at;
    // A length has 16 bits: callers split lists accordingly.
    if (sizeBytes > 0xffff) throw new RangeError(`an attribute of ${sizeBytes} bytes`);
    this.#bytes.writeUInt16LE(sizeBytes, at);
    this.#bytes.writeUInt16LE(type | NESTED, at + 2);
  }

  /** An item of a list of elements or expressions. */
  item(write: () => void): void {
    this.nest(LIST_ELEM, write);
  }

  /** Like `item` with `value`, for a key and nothing else: there are tens of thousands of these. */
  keyItem(key: Uint8Array): void {
    const at = this.#at;
    const sizeBytes = (key.length + 3) & ~3;
    this.#reserve(12 + sizeBytes);
    const bytes = this.#bytes;
    bytes[at] = 12 + sizeBytes;
    bytes[at + 2] = LIST_ELEM;
    bytes[at + 3] = NESTED >> 8;
    bytes[at + 4] = 8 + sizeBytes;
    bytes[at + 6] = ELEM_KEY;
    bytes[at + 7] = NESTED >> 8;
    bytes[at + 8] = 4 + key.length;
    bytes[at + 10] = DATA_VALUE;
    bytes.set(key, at + 12);
  }

  value(type: number, value: Uint8Array): void {
    this.nest(type, () => this.data(DATA_VALUE, value));
  }

  verdictValue(type: number, name: VerdictName, chain?: string): void {
    this.nest(type, () =>
      this.nest(DATA_VERDICT, () => {
        this.number(1, verdictCodes[name]);
        if (chain !== undefined) this.text(2, chain);
      }),
    );
  }

  // The methods below write expressions, in the list of a rule (NFTA_RULE_EXPRESSIONS, 4). Registers are NFT_REG_* and NFT_REG32_*.

  verdict(name: VerdictName, chain?: string): void {
    this.#expression('immediate', () => {
      this.number(1, 0);
      this.verdictValue(2, name, chain);
    });
  }

  /** @param key - `NFT_META_*` */
  meta(key: number, register = 1): void {
    this.#expression('meta', () => {
      this.number(2, key);
      this.number(1, register);
    });
  }

  /** @param base - `NFT_PAYLOAD_*`: 1 for the network header, 2 for the transport header */
  payload(base: number, offset: number, sizeBytes: number, register = 1): void {
    this.#expression('payload', () => {
      for (const [type, value] of [register, base, offset, sizeBytes].entries()) this.number(type + 1, value);
    });
  }

  compare(operator: number, value: Uint8Array): void {
    this.#expression('cmp', () => {
      this.number(1, 1);
      this.number(2, operator);
      this.value(3, value);
    });
  }

  mask(mask: Uint8Array): void {
    this.#expression('bitwise', () => {
      this.number(1, 1);
      this.number(2, 1);
      this.number(3, mask.length);
      this.value(4, mask);
      this.value(5, new Uint8Array(mask.length));
    });
  }

  /** @param id - ID of an anonymous set of this batch. */
  lookup(
    set: string,
    { verdict = false, id }: { readonly verdict?: boolean; readonly id?: number } = {},
  ): void {
    this.#expression('lookup', () => {
      this.number(2, 1);
      if (verdict) this.number(3, 0);
      this.text(1, set);
      if (id !== undefined) this.number(4, id);
    });
  }

  /**
   * @param key - `NFT_CT_*`
   * @param way - `IP_CT_DIR_*`, for keys that exist once per direction of a connection.
   */
  connection(key: number, way?: number, register = 1): void {
    this.#expression('ct', () => {
      this.number(2, key);
      this.number(1, register);
      if (way !== undefined) this.data(3, Buffer.of(way));
    });
  }

  /** @param flags - `NFTA_FIB_F_*`: 1 for the source, 2 for the destination. */
  addressKind(flags: number): void {
    this.#expression('fib', () => {
      this.number(3, flags);
      this.number(2, 3);
      this.number(1, 1);
    });
  }

  limit(packets: number, perSeconds: number, burst: number): void {
    this.#expression('limit', () => this.rate(packets, perSeconds, burst));
  }

  /** The attributes of a limit, in a rule or with a name. */
  rate(packets: number, perSeconds: number, burst: number): void {
    this.number64(1, packets);
    this.number64(2, perSeconds);
    this.number(3, burst);
    this.number(4, 0);
    this.number(5, 0);
  }

  log(prefix: string, group: number): void {
    this.#expression('log', () => {
      this.text(2, prefix);
      const groupBytes = Buffer.alloc(2);
      groupBytes.writeUInt16BE(group);
      this.data(1, groupBytes);
    });
  }

  /** Refers to a named counter. */
  counter(name: string): void {
    this.#expression('objref', () => {
      this.number(1, 1);
      this.text(2, name);
    });
  }

  /** The counter or limit to which the map maps the content of the first register. */
  objectOf(map: string): void {
    this.#expression('objref', () => {
      this.number(3, 1);
      this.text(4, map);
    });
  }

  /** @param type - `NFT_REJECT_*`: 1 for a TCP reset, 2 for an ICMP error of either family */
  reject(type: number, code: number): void {
    this.#expression('reject', () => {
      this.number(1, type);
      this.data(2, Buffer.of(code));
    });
  }

  /**
   * Applies the batch.
   *
   * @param socket - A socket of `NETLINK_NETFILTER`.
   * @throws {RefusedBatch} in which case nothing was applied; {@link RampartError} `PRIVILEGE` without
   * CAP_NET_ADMIN.
   */
  send(socket: NetlinkSocket): void {
    if (this.#count === 0) return;
    // Acknowledged when the transaction is done. Errors are always reported.
    this.#bytes.writeUInt16LE(
      this.#bytes.readUInt16LE(this.#lastMessageAt + 6) | NLM_F_ACK,
      this.#lastMessageAt + 6,
    );
    this.#frame(NFNL_MSG_BATCH_END, 0, this.#count + 1, 0, NFNL_SUBSYS_NFTABLES, () => undefined);
    const answers = socket.exchange('cannot change nftables', this.#bytes.subarray(0, this.#at));
    const refused = answers.filter(({ errno }) => errno !== 0);
    const [first] = refused;
    if (first !== undefined) {
      const messages = refused.filter(({ sequence }) => sequence >= 1 && sequence <= this.#count);
      throw new RefusedBatch(
        (messages[0] ?? first).errno,
        new Map(messages.map(({ sequence, errno }) => [sequence - 1, errnoText(errno)])),
      );
    }
    if (!answers.some(({ sequence }) => sequence === this.#count)) {
      throw new RampartError(errorCodes.SYSTEM, {
        what: 'nftables did not acknowledge a change',
        next: 'The next attempt starts from the state of the kernel',
      });
    }
  }

  #expression(name: string, write: () => void): void {
    this.item(() => {
      this.text(EXPR_NAME, name);
      this.nest(EXPR_DATA, write);
    });
  }

  #frame(
    type: number,
    flags: number,
    sequence: number,
    family: number,
    resource: number,
    write: () => void,
  ): void {
    const at = this.#at;
    this.#reserve(HEADER_BYTES + 4);
    write();
    const bytes = this.#bytes;
    bytes.writeUInt32LE(this.#at - at, at);
    bytes.writeUInt16LE(type, at + 4);
    bytes.writeUInt16LE(flags | NLM_F_REQUEST, at + 6);
    bytes.writeUInt32LE(sequence, at + 8);
    // struct nfgenmsg: family, version, resource.
    bytes[at + HEADER_BYTES] = family;
    bytes.writeUInt16BE(resource, at + HEADER_BYTES + 2);
  }

  /** Writes the header of an attribute, and reserves room for its value. */
  #attribute(type: number, sizeBytes: number): void {
    const at = this.#at;
    this.#reserve(4 + ((sizeBytes + 3) & ~3));
    this.#bytes.writeUInt16LE(4 + sizeBytes, at);
    this.#bytes.writeUInt16LE(type, at + 2);
  }

  #reserve(sizeBytes: number): void {
    const end = this.#at + sizeBytes;
    if (end > this.#bytes.length) {
      const larger = Buffer.alloc(Math.max(end, 2 * this.#bytes.length));
      this.#bytes.copy(larger, 0, 0, this.#at);
      this.#bytes = larger;
    }
    this.#at = end;
  }
}
