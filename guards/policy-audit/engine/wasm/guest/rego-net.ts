/** The functions of Rego's `net` that do not need a network. */
import { IpAddress, Network } from '../../../../../lib/cel/ip.ts';
import { type Builtin, BuiltinError, membersAt, textAt } from './builtin.ts';
import { entriesOf } from './rego-value.ts';

/** More addresses are an error: their text alone would exceed what a builtin can return. */
const maxAddresses = 2 ** 20;

export const netBuiltins: Readonly<Record<string, Builtin>> = {
  'net.cidr_is_valid': ([text]) => typeof text === 'string' && Network.parse(text) !== undefined,
  'net.cidr_expand': (args) => {
    const { address, prefixLength } = networkOf(textAt(args, 0)).masked;
    const count = 2n ** BigInt(address.width - prefixLength);
    if (count > maxAddresses) throw new BuiltinError(`the network has more than ${maxAddresses} addresses`);
    return new Set(
      Array.from({ length: Number(count) }, (_, at) =>
        new IpAddress(address.family, address.bits + BigInt(at)).toString(),
      ),
    );
  },
  'net.cidr_merge': (args) => {
    const ranges = membersAt(args, 0).map((one) => {
      if (typeof one !== 'string') throw new BuiltinError('an element must be a string');
      return rangeOf(one);
    });
    return new Set(merged(ranges));
  },
  'net.cidr_contains_matches': (args) => {
    const [outer, inner] = [candidatesAt(args, 0), candidatesAt(args, 1)];
    const found = new Set<unknown>();
    for (const [text, index] of outer) {
      const network = networkOf(text);
      for (const [part, of] of inner) if (contains(network, part)) found.add([index, of]);
    }
    return found;
  },
};

function networkOf(text: string): Network {
  const network = Network.parse(text);
  if (network === undefined) throw new BuiltinError(`${JSON.stringify(text)} is not a CIDR address`);
  return network;
}

function contains(network: Network, part: string): boolean {
  const address = IpAddress.parse(part);
  return address === undefined ? network.containsNetwork(networkOf(part)) : network.contains(address);
}

/** Networks, each with what identifies it in the result: the string itself, an index, a member, or a key. */
function candidatesAt(args: readonly unknown[], at: number): [string, unknown][] {
  const given = args[at];
  const pairs: readonly (readonly [unknown, unknown])[] =
    typeof given === 'string'
      ? [[given, given]]
      : Array.isArray(given)
        ? given.map((one: unknown, index) => [one, index] as const)
        : given instanceof Set
          ? [...given].map((one) => [one, one] as const)
          : (entriesOf(given) ?? []).map(([key, one]) => [one, key] as const);
  return pairs.map(([one, index]) => {
    const text: unknown = Array.isArray(one) ? one[0] : one;
    if (typeof text !== 'string')
      throw new BuiltinError(
        `operand ${at + 1}: an element must be a string, or an array that begins with one`,
      );
    return [text, index];
  });
}

interface Range {
  readonly family: 4 | 6;
  readonly first: bigint;
  readonly last: bigint;
}

/** An IPv4 address without a prefix length stands for the network of its class, as in Go. */
function rangeOf(text: string): Range {
  const address = IpAddress.parse(text);
  if (address?.family === 6) throw new BuiltinError(`the IPv6 address ${text} needs a prefix length`);
  const network = address === undefined ? networkOf(text) : new Network(address, classOf(address));
  const { bits, family, width } = network.masked.address;
  return { family, first: bits, last: bits + 2n ** BigInt(width - network.prefixLength) - 1n };
}

function classOf(address: IpAddress): number {
  const first = address.bits >> 24n;
  return first < 128n ? 8 : first < 192n ? 16 : 24;
}

function merged(ranges: readonly Range[]): string[] {
  const wholes: Range[] = [];
  const inOrder = ranges.toSorted(
    (a, b) => a.family - b.family || (a.first < b.first ? -1 : a.first > b.first ? 1 : 0),
  );
  for (const range of inOrder) {
    const last = wholes.at(-1);
    if (last !== undefined && last.family === range.family && range.first <= last.last + 1n) {
      wholes[wholes.length - 1] = { ...last, last: range.last > last.last ? range.last : last.last };
    } else wholes.push(range);
  }
  return wholes.flatMap(networksOf);
}

/** The fewest networks that make up a range. */
function networksOf({ family, first, last }: Range): string[] {
  const width = family === 4 ? 32 : 128;
  const found: string[] = [];
  for (let from = first; from <= last;) {
    let length = width;
    for (; length > 0; length--) {
      const size = 2n ** BigInt(width - length + 1);
      if (from % size !== 0n || from + size - 1n > last) break;
    }
    found.push(new Network(new IpAddress(family, from), length).toString());
    from += 2n ** BigInt(width - length);
  }
  return found;
}
