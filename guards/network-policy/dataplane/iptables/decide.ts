/**
 * Decides what the rules in the kernel do with the first packet of a connection: reads them as iptables-save and `ipset save` list them, and
 * follows them rule by rule.
 *
 * It knows only the rules that this dataplane makes: for a rule that it does not know it says so, and never
 * guesses.
 */
import { type IpAddress, parseBlock } from '../../engine/addresses.ts';
import type { Direction } from '../../engine/rules.ts';
import {
  followChain,
  type KernelDecision,
  type KernelPacket,
  protocolNumbers as numbers,
  type RuleVerdict,
  unknownRule,
} from '../kernel-packet.ts';
import { parseLogPrefix } from '../log-prefix.ts';
import { blockMatch } from './blocks.ts';
import { behindOthers } from './listing.ts';
import { type BuiltinChain, countNote, topChains } from './names.ts';
import type { FamilyRules, IptablesRules, Lines } from './rules.ts';

const protocolNumbers: Readonly<Record<string, number>> = {
  icmp: numbers.ICMP,
  tcp: numbers.TCP,
  udp: numbers.UDP,
  'ipv6-icmp': numbers.ICMPv6,
  sctp: numbers.SCTP,
};

/**
 * Decides by the rules of one direction. Rules that match only the other end are skipped: they belong to the other
 * direction.
 *
 * @throws {RampartError} `UNSUPPORTED` for an unknown rule.
 */
export function decideInKernel(
  rules: IptablesRules,
  direction: Direction,
  packet: KernelPacket,
): KernelDecision {
  const walk = new Walk(rules, direction, packet);
  const isRefused = walk.builtin(packet.fromNode ? 'OUTPUT' : 'FORWARD') === 'refuse';
  return {
    verdict: isRefused ? 'refused' : walk.isMonitored ? 'would-refuse' : 'allowed',
    isKnown: isKnown(rules, direction, packet),
    chains: walk.chains,
  };
}

/** Whether this end is a pod with rules here. They are looked up in FORWARD, since packets from the node do not pass the rules of pods. */
function isKnown({ families }: IptablesRules, direction: Direction, packet: KernelPacket): boolean {
  const [side, { family, text }] =
    direction === 'egress' ? (['-s', packet.source] as const) : (['-d', packet.destination] as const);
  const { pods = [] } = families[family].tops.get(topChains.FORWARD) ?? {};
  return pods.some((line) => line.startsWith(`${side} ${blockMatch(family, text)} `));
}

class Walk {
  readonly chains: string[] = [];
  /** Whether the packet is logged as one that would be refused. */
  isMonitored = false;
  readonly #rules: FamilyRules;
  readonly #sets: IptablesRules['sets'];
  readonly #packet: KernelPacket;
  /** The option by which a rule matches the other end, whose rules are not followed. */
  readonly #otherEnd: '-s' | '-d';
  #mark = 0;

  constructor({ families, sets }: IptablesRules, direction: Direction, packet: KernelPacket) {
    this.#rules = families[packet.source.family];
    this.#sets = sets;
    this.#packet = packet;
    this.#otherEnd = direction === 'egress' ? '-d' : '-s';
  }

  /** Follows a built-in chain, whose rules jump to our chains by the source as well as by the destination. */
  builtin(name: BuiltinChain): RuleVerdict {
    return followChain(name, this.#rules.hooks.get(name) ?? [], this.chains, (line) => {
      if (line === behindOthers) throw unknownRule(`a rule before ours in ${name}`);
      return this.#rule(wordsOf(line), line);
    });
  }

  #chain(name: string): RuleVerdict {
    return followChain(name, this.#linesOf(name), this.chains, (line) => {
      const words = wordsOf(line);
      return this.#isOfOtherEnd(words) ? 'continue' : this.#rule(words, line);
    });
  }

  #linesOf(name: string): Lines | undefined {
    for (const top of Object.values(topChains)) {
      if (name !== top) continue;
      const found = this.#rules.tops.get(top);
      return found && [...found.pods, ...(found.tail ?? [])];
    }
    return this.#rules.chains.get(name);
  }

  #isOfOtherEnd(words: readonly string[]): boolean {
    const ends = words.filter((word) => word === '-s' || word === '-d');
    return ends.length === 1 && ends[0] === this.#otherEnd;
  }

  #rule(words: readonly string[], line: string): RuleVerdict {
    let isNot = false;
    for (let at = 0; at < words.length; at++) {
      const word = words[at] ?? '';
      if (word === '!') {
        isNot = true;
        continue;
      }
      const value = words[at + 1] ?? '';
      if (word === '-j') return this.#target(value, words.slice(at + 2), line);
      const fits = this.#fits(word, value, words[at + 2] ?? '', line);
      if (fits === isNot) return 'continue';
      isNot = false;
      at += word === '--match-set' ? 2 : word === '--physdev-is-bridged' ? 0 : 1;
    }
    throw unknownRule(line);
  }

  /** Whether one match of a rule holds. */
  #fits(word: string, value: string, ends: string, line: string): boolean {
    const { source, destination, protocol, port, fromNode } = this.#packet;
    switch (word) {
      // These do not restrict which packets match: the name of a match module, a comment, the logging rate.
      case '-m':
      case '--comment':
      case '--limit':
      case '--limit-burst':
        return true;
      case '-s':
        return isWithin(source, value, line);
      case '-d':
        return isWithin(destination, value, line);
      case '-p': {
        const number = protocolNumbers[value];
        if (number === undefined) throw unknownRule(line);
        return number === protocol;
      }
      case '--dport': {
        const [low = '', high = low] = value.split(':');
        return port !== undefined && Number(low) <= port && port <= Number(high);
      }
      case '--match-set':
        return this.#isInSet(value, ends, line);
      case '--mark': {
        const [bits, mask] = marks(value, line);
        return (this.#mark & mask) === bits;
      }
      case '--ctstate':
        if (value === 'NEW' && line.includes(countNote)) return true;
        if (!/^(?:INVALID|ESTABLISHED|RELATED|RELATED,ESTABLISHED|DNAT)$/.test(value))
          throw unknownRule(line);
        // The first packet of a connection is neither established nor invalid. Whether its destination was translated only affects how it
        // is refused.
        return false;
      case '--src-type':
      case '--dst-type':
        if (value !== 'LOCAL') throw unknownRule(line);
        return word === '--src-type' && fromNode;
      // Neighbour discovery is never the first packet of a connection. Whether a packet stays within a bridge only affects how it is
      // refused.
      case '--icmpv6-type':
      case '--physdev-is-bridged':
        return false;
      default:
        throw unknownRule(line);
    }
  }

  #target(name: string, options: readonly string[], line: string): RuleVerdict {
    switch (name) {
      case 'ACCEPT':
        return 'accept';
      case 'DROP':
      case 'REJECT':
        return 'refuse';
      case 'RETURN':
        return 'return';
      case 'NFLOG':
        this.isMonitored ||= parseLogPrefix(prefixOf(options))?.verdict === 'would-refuse';
        return 'continue';
      case 'MARK': {
        if (options[0] !== '--set-xmark') throw unknownRule(line);
        const [bits, mask] = marks(options[1] ?? '', line);
        this.#mark = (this.#mark & ~mask) ^ bits;
        return 'continue';
      }
      default:
        if (options.length > 0) throw unknownRule(line);
        return this.#chain(name);
    }
  }

  #isInSet(name: string, ends: string, line: string): boolean {
    const set = this.#sets.get(name);
    if (set === undefined || set.isOdd === true) throw unknownRule(line);
    const { source, destination, protocol, port } = this.#packet;
    const address = ends.startsWith('src') ? source : destination;
    if (set.family !== address.family) return false;
    if (set.type === 'hash:ip,port') {
      if (ends !== 'dst,dst') throw unknownRule(line);
      const [word] = Object.entries(protocolNumbers).find(([, number]) => number === protocol) ?? [];
      return set.members.has(`${address.text},${word}:${port}`);
    }
    if (ends !== 'src' && ends !== 'dst') throw unknownRule(line);
    if (set.members.has(address.text)) return true;
    if (set.type === 'hash:ip') return false;
    if (set.type !== 'hash:net') throw unknownRule(line);
    return [...set.members].some((block) => isWithin(address, block, line));
  }
}

/** The prefix in the options of NFLOG. */
function prefixOf(options: readonly string[]): string {
  return (options[options.indexOf('--nflog-prefix') + 1] ?? '').replaceAll('"', '');
}

/** The words of a rule; a quoted string is one word. */
function wordsOf(line: string): readonly string[] {
  return line.match(/"(?:\\.|[^"\\])*"|\S+/g) ?? [];
}

function isWithin({ family, value }: IpAddress, text: string, line: string): boolean {
  const block = parseBlock(blockMatch(family, text));
  if (typeof block === 'string') throw unknownRule(line);
  return block.family === family && block.low <= value && value <= block.high;
}

/** Parses `0x10000/0x10000`. */
function marks(text: string, line: string): readonly [bits: number, mask: number] {
  const [, bits, mask] = /^(0x[\da-f]{1,7})\/(0x[\da-f]{1,7})$/.exec(text) ?? [];
  if (bits === undefined || mask === undefined) throw unknownRule(line);
  return [Number(bits), Number(mask)];
}
