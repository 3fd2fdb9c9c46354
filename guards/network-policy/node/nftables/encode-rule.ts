/** Encodes one rule in nft's language as the expressions that nft generates for it. */
import { compare, type NftablesBatch } from './nftables-batch.ts';
import { protocolNumbers } from '../kernel-packet.ts';
import { addressBytes, commentData, elementRange, numberOf, unreadable, verdictOf } from './encode-values.ts';
import { transports } from './ports.ts';

const metaKeys = { networkProtocol: 15, transportProtocol: 16 } as const;
const bases = { network: 1, transport: 2 } as const;
const families = {
  ip: { family: 4, number: 2, sizeBytes: 4, saddr: 12, daddr: 16 },
  ip6: { family: 6, number: 10, sizeBytes: 16, saddr: 8, daddr: 24 },
} as const;
const stateBits: Readonly<Record<string, number>> = { invalid: 1, established: 2, related: 4 };
const RTN_LOCAL = 2;
const ANONYMOUS_CONSTANT = 3;
const CONTROL_SET = '__set%d';
/** Types of messages, and nft's number of the type of their type. */
const controls = {
  icmp: {
    ...{ family: 2, protocol: protocolNumbers.ICMP, keyType: 14 },
    types: { 'destination-unreachable': 3, 'time-exceeded': 11, 'parameter-problem': 12 } as Readonly<
      Record<string, number>
    >,
  },
  icmpv6: {
    ...{ family: 10, protocol: protocolNumbers.ICMPv6, keyType: 29 },
    types: {
      ...{ 'destination-unreachable': 1, 'packet-too-big': 2, 'time-exceeded': 3, 'parameter-problem': 4 },
      ...{ 'nd-router-solicit': 133, 'nd-router-advert': 134 },
      ...{ 'nd-neighbor-solicit': 135, 'nd-neighbor-advert': 136 },
    } as Readonly<Record<string, number>>,
  },
} as const;

/**
 * @param newSetId - A number that is unique among the sets of the batch.
 * @throws {RampartError} `UNSUPPORTED` for tokens that compile.ts does not write.
 */
export function encodeRule(batch: NftablesBatch, chain: string, rule: string, newSetId: () => number): void {
  const [, text = '', comment] = /^(.*?)(?: ?comment "([^"]*)")?$/.exec(rule) ?? [];
  const control = /^(icmp|icmpv6) type \{ (.*) \} (\w+)$/.exec(text);
  const set = control === null ? undefined : controlSet(batch, control, newSetId());
  batch.message('newRule', () => {
    batch.text(2, chain);
    batch.nest(4, () => {
      if (set !== undefined) set();
      else {
        const words = text.split(' ');
        let isKnown = false;
        for (let at = 0; at < words.length;) {
          const isAddress = words[at] === 'ip' || words[at] === 'ip6';
          // Once in a rule is enough: its addresses belong to one family.
          if (isAddress && !isKnown) networkProtocol(batch, families[words[at] as 'ip' | 'ip6'].number);
          isKnown ||= isAddress;
          at += expression(batch, words.slice(at), text);
        }
      }
    });
    if (comment !== undefined) batch.data(7, commentData(comment));
  });
}

/** Adds the expressions of the first tokens to the rule. @returns how many tokens they were. */
function expression(batch: NftablesBatch, words: readonly string[], rule: string): number {
  const [first = '', second = '', third = '', fourth = ''] = words;
  switch (first) {
    case 'ip':
    case 'ip6':
      return address(batch, families[first], words, rule);
    case 'tcp':
    case 'udp':
    case 'sctp': {
      const [low = '', high = low] = third.split('-');
      transport(batch, transports[first]);
      batch.payload(bases.transport, 2, 2);
      between(batch, portBytes(low), portBytes(high));
      return 3;
    }
    case 'meta':
      transport(batch, numberOf(third, 255));
      return 3;
    case 'ct': {
      const bits = third.split(',').reduce((sum, state) => sum | (stateBits[state] ?? 0), 0);
      batch.connectionState();
      batch.mask(hostNumber(bits));
      batch.compare(compare.notEqual, hostNumber(0));
      return 3;
    }
    case 'fib': {
      const isNot = fourth === '!=';
      batch.addressKind(second === 'saddr' ? 1 : 2);
      batch.compare(isNot ? compare.notEqual : compare.equal, hostNumber(RTN_LOCAL));
      return isNot ? 5 : 4;
    }
    case 'limit': {
      const [, prefix, group] =
        /^limit rate 10\/minute burst 10 packets log prefix "([^"]*)" group (\d+)$/.exec(rule) ?? [];
      if (prefix === undefined || group === undefined) throw unreadable(rule);
      batch.limit(10, 60, 10);
      batch.log(prefix, numberOf(group, 65_535));
      return words.length;
    }
    case 'counter':
      batch.counter(third);
      return 3;
    case 'reject': {
      const isReset = words.slice(1).join(' ') === 'with tcp reset';
      batch.reject(isReset ? 1 : 2, isReset ? 0 : 1);
      return words.length;
    }
    default: {
      const [verdict, chain] = verdictOf(words.join(' '));
      batch.verdict(verdict, chain);
      return words.length;
    }
  }
}

function address(
  batch: NftablesBatch,
  of: (typeof families)['ip' | 'ip6'],
  [, side = '', where = '', ...rest]: readonly string[],
  rule: string,
): number {
  const offset = side === 'saddr' ? of.saddr : of.daddr;
  const load = (sizeBytes: number = of.sizeBytes): void => batch.payload(bases.network, offset, sizeBytes);
  if (where === '.') {
    const [set = ''] = rest.slice(5);
    // Each field starts at the next four-byte register after the previous one: NFT_REG32_*, of which an IPv4 address takes one.
    load();
    batch.meta(metaKeys.transportProtocol, of.family === 4 ? 9 : 2);
    batch.payload(bases.transport, 2, 2, of.family === 4 ? 10 : 13);
    batch.lookup(setName(set, rule));
    return 9;
  }
  if (where === 'vmap' || where.startsWith('@')) {
    const isMap = where === 'vmap';
    load();
    batch.lookup(setName(isMap ? (rest[0] ?? '') : where, rule), { verdict: isMap });
    return isMap ? 4 : 3;
  }
  const { low, high, prefix } = elementRange(where);
  if (prefix !== undefined) {
    // Whole bytes are compared as they are, bits through a mask.
    const isWhole = prefix > 0 && prefix % 8 === 0;
    const first = addressBytes(of.family, low);
    load(isWhole ? prefix / 8 : of.sizeBytes);
    if (!isWhole) batch.mask(prefixMask(of.sizeBytes, prefix));
    batch.compare(compare.equal, isWhole ? first.subarray(0, prefix / 8) : first);
  } else {
    load();
    between(batch, addressBytes(of.family, low), addressBytes(of.family, high));
  }
  return 3;
}

function between(batch: NftablesBatch, low: Buffer, high: Buffer): void {
  if (low.equals(high)) return batch.compare(compare.equal, low);
  batch.compare(compare.atLeast, low);
  batch.compare(compare.atMost, high);
}

function networkProtocol(batch: NftablesBatch, number: number): void {
  batch.meta(metaKeys.networkProtocol);
  batch.compare(compare.equal, Buffer.of(number));
}

function transport(batch: NftablesBatch, protocol: number): void {
  batch.meta(metaKeys.transportProtocol);
  batch.compare(compare.equal, Buffer.of(protocol));
}

function setName(word: string, rule: string): string {
  if (!word.startsWith('@')) throw unreadable(rule);
  return word.slice(1);
}

function prefixMask(sizeBytes: number, prefix: number): Buffer {
  return Buffer.from(
    Array.from({ length: sizeBytes }, (_, at) => 0xff & ~(0xff >> Math.max(0, Math.min(8, prefix - 8 * at)))),
  );
}

function portBytes(text: string): Buffer {
  const bytes = Buffer.alloc(2);
  bytes.writeUInt16BE(numberOf(text, 65_535));
  return bytes;
}

/** What the kernel keeps in host byte order, not network byte order. */
function hostNumber(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

/** The anonymous set of a rule, which is created before it. @returns a function that adds the rule's expressions. */
function controlSet(
  batch: NftablesBatch,
  [, name, list = '', verdict = '']: RegExpExecArray,
  id: number,
): () => void {
  const { family, protocol, keyType, types } = controls[name as keyof typeof controls];
  const numbers = list.split(', ').map((type) => types[type] ?? NaN);
  if (numbers.some(Number.isNaN)) throw unreadable(list);
  batch.message('newSet', () => {
    batch.text(2, CONTROL_SET);
    batch.number(3, ANONYMOUS_CONSTANT);
    batch.number(4, keyType);
    batch.number(5, 1);
    batch.number(10, id);
    batch.nest(9, () => batch.number(1, numbers.length));
  });
  batch.message('newElements', () => {
    batch.text(2, CONTROL_SET);
    batch.number(4, id);
    batch.nest(3, () => {
      for (const number of numbers) batch.item(() => batch.value(1, Buffer.of(number)));
    });
  });
  return () => {
    networkProtocol(batch, family);
    transport(batch, protocol);
    batch.payload(bases.transport, 0, 1);
    batch.lookup(CONTROL_SET, { id });
    batch.verdict(...verdictOf(verdict));
  };
}
