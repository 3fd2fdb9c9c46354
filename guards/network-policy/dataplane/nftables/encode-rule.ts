/** Encodes one rule as the expressions that nft generates for it. */
import type { AddressRange, Family } from '../../engine/rules.ts';
import { addressValue } from '../../engine/addresses.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import { prefixLength } from './addresses.ts';
import { addressBytes, commentData, fits, inexpressible, maxPort, maxProtocol } from './encode-values.ts';
import { compare, type NftablesBatch } from './nftables-batch.ts';
import { icmpv6Types, type Rule, type Side, type Statement, transports } from './rule.ts';
import { ruleText } from './rule-text.ts';

const metaKeys = { networkProtocol: 15, transportProtocol: 16, inputKind: 26 } as const;
/** NFT_CT_*; the sources since Linux 4.17. */
const connectionKeys = { state: 0, status: 2, source: { 4: 19, 6: 21 } } as const;
/** IP_CT_DIR_* */
const ways = { 'original source': 0, 'reply source': 1 } as const;
/** IPS_DST_NAT (include/uapi/linux/netfilter/nf_conntrack_common.h) */
const STATUS_DESTINATION_NAT = 1 << 5;
/** IFNAMSIZ: a kind of interface is as long as an interface name. */
const KIND_BYTES = 16;
const bases = { network: 1, transport: 2 } as const;
const DESTINATION_PORT_OFFSET = 2;
const HOP_LIMIT_OFFSET = 7;
const MAX_HOPS = 255;
/** NFPROTO_*, and the offsets of the addresses in the header. */
const families = {
  4: { number: 2, sizeBytes: 4, saddr: 12, daddr: 16 },
  6: { number: 10, sizeBytes: 16, saddr: 8, daddr: 24 },
} as const;
/**
 * The register after an address in a key of several fields: for IPv4, NFT_REG32_01, four bytes further; for IPv6,
 * NFT_REG_2, sixteen bytes further.
 */
const registerAfter = { 4: 9, 6: 2 } as const;
const stateBits = { invalid: 1, established: 2, related: 4 } as const;
const fibFlags = { saddr: 1, daddr: 2 } as const;
const RTN_LOCAL = 2;
const MINUTE_SECONDS = 60;
const rejections = { 'tcp reset': [1, 0], 'icmp error': [2, 1] } as const;
const ANONYMOUS_CONSTANT = 3;
const ANONYMOUS_SET = '__set%d';
/** nft's number of the type (include/datatype.h, TYPE_ICMP6_TYPE). */
const ICMPV6_TYPE = 29;

/**
 * @param newSetId - A number that is unique among the sets of the batch.
 * @throws {RampartError} `UNSUPPORTED` for what nftables cannot express.
 */
export function encodeRule(batch: NftablesBatch, chain: string, rule: Rule, newSetId: () => number): void {
  // Anonymous sets are created before the rule that refers to them.
  const setIds = rule.statements.map((statement) =>
    statement.kind === 'icmpv6 type' ? icmpv6TypeSet(batch, statement, newSetId()) : 0,
  );
  batch.message('newRule', () => {
    batch.text(2, chain);
    batch.nest(4, () => {
      let isKnown = false;
      for (const [at, statement] of rule.statements.entries()) {
        // A rule tests the family only once: its addresses are all of the same family.
        if ('family' in statement && !isKnown) {
          networkProtocol(batch, statement.family);
          isKnown = true;
        }
        if (!encodeStatement(batch, statement, setIds[at] as number)) throw inexpressible(ruleText(rule));
      }
    });
    if (rule.comment !== undefined) batch.data(7, commentData(rule.comment));
  });
}

/** @returns whether it can be expressed */
function encodeStatement(batch: NftablesBatch, statement: Statement, setId: number): boolean {
  switch (statement.kind) {
    case 'address':
      return encodeRange(batch, statement, statement.range);
    case 'address in set':
      loadAddress(batch, statement);
      batch.lookup(statement.set);
      return true;
    case 'verdict map':
      loadAddress(batch, statement);
      batch.lookup(statement.map, { verdict: true });
      return true;
    case 'object map':
      loadAddress(batch, statement);
      batch.objectOf(statement.map);
      return true;
    case 'endpoint in set':
      endpointInSet(batch, statement.family, statement.set);
      return true;
    case 'local address':
      batch.addressKind(fibFlags[statement.side]);
      batch.compare(statement.is ? compare.equal : compare.notEqual, hostNumber(RTN_LOCAL));
      return true;
    case 'protocol':
      return transportProtocol(batch, statement.protocol);
    case 'destination port': {
      const { first, last, protocol } = statement;
      if (!fits(first, last) || !fits(last, maxPort)) return false;
      if (!transportProtocol(batch, transports[protocol])) return false;
      batch.payload(bases.transport, DESTINATION_PORT_OFFSET, 2);
      between(batch, networkShort(first), networkShort(last));
      return true;
    }
    case 'icmpv6 type':
      transportProtocol(batch, protocolNumbers.ICMPv6);
      batch.payload(bases.transport, 0, 1);
      batch.lookup(ANONYMOUS_SET, { id: setId });
      return true;
    case 'hop limit':
      if (!fits(statement.hops, MAX_HOPS)) return false;
      batch.payload(bases.network, HOP_LIMIT_OFFSET, 1);
      batch.compare(compare.equal, Buffer.of(statement.hops));
      return true;
    case 'connection state':
      batch.connection(connectionKeys.state);
      batch.mask(hostNumber(statement.states.reduce((bits, state) => bits | stateBits[state], 0)));
      batch.compare(compare.notEqual, hostNumber(0));
      return true;
    case 'pair in set': {
      const { family, other } = statement;
      loadAddress(batch, { family, side: 'saddr' });
      if (other === 'destination')
        loadAddress(batch, { family, side: 'daddr' }, { register: registerAfter[family] });
      else batch.connection(connectionKeys.source[family], ways[other], registerAfter[family]);
      batch.lookup(statement.set);
      return true;
    }
    case 'translated destination':
      batch.connection(connectionKeys.status);
      batch.mask(hostNumber(STATUS_DESTINATION_NAT));
      batch.compare(compare.notEqual, hostNumber(0));
      return true;
    case 'from a bridge':
      batch.meta(metaKeys.inputKind);
      batch.compare(compare.equal, Buffer.from('bridge'.padEnd(KIND_BYTES, '\0')));
      return true;
    case 'limit':
      batch.limit(statement.perMinute, MINUTE_SECONDS, statement.burst);
      return true;
    case 'log':
      batch.log(statement.prefix, statement.group);
      return true;
    case 'counter':
      batch.counter(statement.name);
      return true;
    case 'reject': {
      const [type, code] = rejections[statement.with];
      batch.reject(type, code);
      return true;
    }
    case 'listed':
      return false;
    case 'jump':
    case 'goto':
      batch.verdict(statement.kind, statement.chain);
      return true;
    case 'accept':
    case 'drop':
    case 'return':
      batch.verdict(statement.kind);
      return true;
  }
}

interface AddressOf {
  readonly family: Family;
  readonly side: Side;
}

function loadAddress(
  batch: NftablesBatch,
  { family, side }: AddressOf,
  {
    sizeBytes = families[family].sizeBytes,
    register,
  }: { readonly sizeBytes?: number | undefined; readonly register?: number } = {},
): void {
  batch.payload(bases.network, families[family][side], sizeBytes, register);
}

function endpointInSet(batch: NftablesBatch, family: Family, set: string): void {
  loadAddress(batch, { family, side: 'daddr' });
  batch.meta(metaKeys.transportProtocol, registerAfter[family]);
  batch.payload(bases.transport, DESTINATION_PORT_OFFSET, 2, family === 4 ? 10 : 13);
  batch.lookup(set);
}

function encodeRange(batch: NftablesBatch, of: AddressOf, range: AddressRange): boolean {
  const { family } = of;
  const [low, high] = [addressValue(range.first), addressValue(range.last)];
  if (low > high) return false;
  const first = addressBytes(family, low);
  const prefix = prefixLength(family, range);
  if (prefix === undefined) {
    loadAddress(batch, of);
    between(batch, first, addressBytes(family, high));
    return true;
  }
  // Whole bytes are compared directly, bits through a mask.
  const wholeBytes = prefix > 0 && prefix % 8 === 0 ? prefix / 8 : undefined;
  loadAddress(batch, of, { sizeBytes: wholeBytes });
  if (wholeBytes === undefined) batch.mask(prefixMask(families[family].sizeBytes, prefix));
  batch.compare(compare.equal, first.subarray(0, wholeBytes));
  return true;
}

function between(batch: NftablesBatch, low: Buffer, high: Buffer): void {
  if (low.equals(high)) return batch.compare(compare.equal, low);
  batch.compare(compare.atLeast, low);
  batch.compare(compare.atMost, high);
}

function networkProtocol(batch: NftablesBatch, family: Family): void {
  batch.meta(metaKeys.networkProtocol);
  batch.compare(compare.equal, Buffer.of(families[family].number));
}

function transportProtocol(batch: NftablesBatch, protocol: number): boolean {
  if (!fits(protocol, maxProtocol)) return false;
  batch.meta(metaKeys.transportProtocol);
  batch.compare(compare.equal, Buffer.of(protocol));
  return true;
}

function prefixMask(sizeBytes: number, prefix: number): Buffer {
  return Buffer.from(
    Array.from({ length: sizeBytes }, (_, at) => 0xff & ~(0xff >> Math.max(0, Math.min(8, prefix - 8 * at)))),
  );
}

function networkShort(value: number): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(value);
  return bytes;
}

/** Values that the kernel keeps in host byte order, not network byte order. */
function hostNumber(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** @returns the ID of the set in the batch */
function icmpv6TypeSet(
  batch: NftablesBatch,
  { types }: Extract<Statement, { readonly kind: 'icmpv6 type' }>,
  id: number,
): number {
  batch.message('newSet', () => {
    batch.text(2, ANONYMOUS_SET);
    batch.number(3, ANONYMOUS_CONSTANT);
    batch.number(4, ICMPV6_TYPE);
    batch.number(5, 1);
    batch.number(10, id);
    batch.nest(9, () => batch.number(1, types.length));
  });
  batch.message('newElements', () => {
    batch.text(2, ANONYMOUS_SET);
    batch.number(4, id);
    batch.nest(3, () => {
      for (const type of types) batch.item(() => batch.value(1, Buffer.of(icmpv6Types[type])));
    });
  });
  return id;
}
