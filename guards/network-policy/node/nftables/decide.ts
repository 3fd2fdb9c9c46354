/**
 * Decides what the rules in the kernel do with the first packet of a connection: reads them as nft lists them, and follows them rule by rule.
 *
 * It knows only the rules that this dataplane makes (compile.ts): for a rule that it does not know it says so, and never
 * guesses.
 */
import { type IpAddress, parseAddress, parseBlock } from '../../engine/addresses.ts';
import type { Direction } from '../../engine/rules.ts';
import {
  followChain,
  type KernelDecision,
  type KernelPacket,
  type RuleVerdict,
  unknownRule,
} from '../kernel-packet.ts';
import { podMap, shortDirection } from './names.ts';
import { objectKey, type TableObjects } from './objects.ts';
import { transports } from './ports.ts';

/**
 * @param objects - As `parseListing` has them.
 * @throws {RampartError} `UNSUPPORTED` for a rule that it does not know.
 */
export function decideInKernel(
  objects: TableObjects,
  direction: Direction,
  packet: KernelPacket,
): KernelDecision {
  const own = direction === 'egress' ? packet.source : packet.destination;
  const map = objects.get(objectKey({ kind: 'map', name: podMap(direction, own.family) }));
  const chains: string[] = [];
  const walk = new Walk(objects, packet, chains);
  const hook = packet.fromNode && direction === 'ingress' ? 'output' : 'forward';
  return {
    verdict: walk.chain(`${hook}-${shortDirection[direction]}`) === 'refuse' ? 'refused' : 'allowed',
    isKnown: map !== undefined && map.kind === 'map' && map.elements.has(own.text),
    chains,
  };
}

class Walk {
  readonly #objects: TableObjects;
  readonly #packet: KernelPacket;
  readonly #chains: string[];

  constructor(objects: TableObjects, packet: KernelPacket, chains: string[]) {
    this.#objects = objects;
    this.#packet = packet;
    this.#chains = chains;
  }

  chain(name: string): RuleVerdict {
    const chain = this.#objects.get(objectKey({ kind: 'chain', name }));
    const rules = chain?.kind === 'chain' ? chain.rules : undefined;
    return followChain(name, rules, this.#chains, (rule) =>
      this.#rule(rule.replace(/ comment "[^"]*"$/, '').split(' '), rule),
    );
  }

  #rule(words: readonly string[], rule: string): RuleVerdict {
    for (let at = 0; at < words.length;) {
      const [first = '', second = '', third = '', fourth = ''] = words.slice(at);
      switch (first) {
        case 'accept':
          return 'accept';
        case 'drop':
        case 'reject':
          return 'refuse';
        case 'return':
          return 'return';
        case 'jump':
          return this.chain(second);
        // Does not return: only the target chain decides.
        case 'goto': {
          const verdict = this.chain(second);
          return verdict === 'continue' ? 'return' : verdict;
        }
        // Matches established or invalid connections, not the first packet of one.
        case 'ct':
          return 'continue';
        // Errors and neighbour discovery: never the first packet of a connection.
        case 'icmp':
        case 'icmpv6':
          return 'continue';
        // Logs, and continues.
        case 'limit':
          return 'continue';
        case 'counter':
          at += 3;
          break;
        case 'meta':
          if (second !== 'l4proto') throw unknownRule(rule);
          if (this.#packet.protocol !== Number(third)) return 'continue';
          at += 3;
          break;
        case 'tcp':
        case 'udp':
        case 'sctp': {
          if (second !== 'dport') throw unknownRule(rule);
          const [low = '', high = low] = third.split('-');
          const { port, protocol } = this.#packet;
          const fits = port !== undefined && Number(low) <= port && port <= Number(high);
          if (protocol !== transports[first] || !fits) return 'continue';
          at += 3;
          break;
        }
        case 'fib': {
          const isNot = fourth === '!=';
          const isLocal = second === 'saddr' && this.#packet.fromNode;
          if (third !== 'type' || words[at + (isNot ? 4 : 3)] !== 'local') throw unknownRule(rule);
          if (isLocal === isNot) return 'continue';
          at += isNot ? 5 : 4;
          break;
        }
        case 'ip':
        case 'ip6': {
          const address = this.#address(second, rule);
          if (address.family !== (first === 'ip' ? 4 : 6)) return 'continue';
          if (third === 'vmap') return this.#mapped(address, fourth, rule);
          if (third === '.') {
            const { protocol, port } = this.#packet;
            const set = words.slice(at).find((word) => word.startsWith('@')) ?? '';
            if (!this.#elements(set, rule).has(`${address.text} . ${protocol} . ${port}`)) return 'continue';
            at += words.slice(at).indexOf(set) + 1;
            break;
          }
          if (!this.#fits(address, third, rule)) return 'continue';
          at += 3;
          break;
        }
        default:
          throw unknownRule(rule);
      }
    }
    return 'continue';
  }

  #address(side: string, rule: string): IpAddress {
    if (side === 'saddr') return this.#packet.source;
    if (side === 'daddr') return this.#packet.destination;
    throw unknownRule(rule);
  }

  #mapped({ text }: IpAddress, name: string, rule: string): RuleVerdict {
    const verdict = this.#elements(name, rule).get(text);
    return verdict === undefined ? 'continue' : this.#rule(verdict.split(' '), rule);
  }

  #fits(address: IpAddress, where: string, rule: string): boolean {
    if (!where.startsWith('@')) return isWithin(address, where, rule);
    const elements = this.#elements(where, rule);
    if (elements.has(address.text)) return true;
    return [...elements.keys()].some((key) => /[-/]/.test(key) && isWithin(address, key, rule));
  }

  #elements(name: string, rule: string): ReadonlyMap<string, string> {
    for (const kind of ['set', 'map'] as const) {
      const found = this.#objects.get(objectKey({ kind, name: name.slice(1) }));
      if (found !== undefined && (found.kind === 'set' || found.kind === 'map')) return found.elements;
    }
    throw unknownRule(rule);
  }
}

/** In a block, a range, or one address. */
function isWithin({ value }: IpAddress, text: string, rule: string): boolean {
  if (text.includes('/')) {
    const block = parseBlock(text);
    if (typeof block === 'string') throw unknownRule(rule);
    return block.low <= value && value <= block.high;
  }
  const [low, high = low] = text.split('-').map((one) => parseAddress(one)?.value);
  if (low === undefined || high === undefined) throw unknownRule(rule);
  return low <= value && value <= high;
}
