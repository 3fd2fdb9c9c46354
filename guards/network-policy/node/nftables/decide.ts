/**
 * Decides what the rules in the kernel do with the first packet of a connection: follows them rule by rule.
 *
 * It knows only the rules that this dataplane makes (compile.ts): for a rule that it does not know it says so, and never
 * guesses.
 */
import { addressValue, type IpAddress } from '../../engine/addresses.ts';
import type { AddressRange, Direction, Family } from '../../engine/rules.ts';
import {
  followChain,
  type KernelDecision,
  type KernelPacket,
  type RuleVerdict,
  unknownRule,
} from '../kernel-packet.ts';
import { podMap, shortDirection } from './names.ts';
import type { ElementSet } from './nft-sets.ts';
import { objectKey, type TableObjects } from './objects.ts';
import { type Rule, type Side, type Statement, transports, type Verdict } from './rule.ts';
import { endpointText, parseRule, ruleText } from './rule-text.ts';

/**
 * @param objects - As `readTable` has them.
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
    return followChain(name, rules, this.#chains, (listed) => this.#rule(parseRule(ruleText(listed))));
  }

  #rule(rule: Rule): RuleVerdict {
    for (const statement of rule.statements) {
      const verdict = this.#statement(statement, rule);
      if (verdict !== 'next statement') return verdict;
    }
    return 'continue';
  }

  #statement(statement: Statement, rule: Rule): RuleVerdict | 'next statement' {
    const { protocol, port, fromNode } = this.#packet;
    const onlyIf = (matches: boolean) => (matches ? 'next statement' : 'continue');
    switch (statement.kind) {
      case 'address': {
        const address = this.#address(statement);
        return onlyIf(address !== undefined && isWithin(address, statement.range));
      }
      case 'address in set': {
        const address = this.#address(statement);
        return onlyIf(address !== undefined && holds(this.#set(statement.set, rule), address));
      }
      case 'verdict map': {
        const address = this.#address(statement);
        if (address === undefined) return 'continue';
        const map = this.#set(statement.map, rule);
        if (map.holds !== 'verdicts') throw unknownRule(ruleText(rule));
        const verdict = map.elements.get(address.text);
        return verdict === undefined ? 'continue' : this.#verdict(verdict);
      }
      case 'endpoint in set': {
        const address = this.#address({ family: statement.family, side: 'daddr' });
        if (address === undefined || port === undefined) return 'continue';
        const key = endpointText({ address: address.text, protocol, port });
        return onlyIf(this.#set(statement.set, rule).elements.has(key));
      }
      case 'local address':
        return onlyIf((statement.side === 'saddr' && fromNode) === statement.is);
      case 'protocol':
        return onlyIf(protocol === statement.protocol);
      case 'destination port':
        return onlyIf(
          protocol === transports[statement.protocol] &&
            port !== undefined &&
            statement.first <= port &&
            port <= statement.last,
        );
      // Errors and neighbour discovery, established and invalid connections: never the first packet of one.
      case 'icmp type':
      case 'connection state':
        return 'continue';
      case 'counter':
      case 'log':
        return 'next statement';
      case 'limit':
        // Whether a packet is within a limit cannot be told: nothing but a log may depend on it.
        if (rule.statements.at(-1)?.kind === 'log') return 'continue';
        throw unknownRule(ruleText(rule));
      case 'reject':
        return 'refuse';
      case 'listed':
        throw unknownRule(ruleText(rule));
      case 'accept':
      case 'drop':
      case 'return':
      case 'jump':
      case 'goto':
        return this.#verdict(statement);
    }
  }

  #verdict(verdict: Verdict): RuleVerdict {
    switch (verdict.kind) {
      case 'drop':
        return 'refuse';
      case 'jump':
        return this.chain(verdict.chain);
      case 'goto': {
        // Does not return: only the target chain decides.
        const decided = this.chain(verdict.chain);
        return decided === 'continue' ? 'return' : decided;
      }
      case 'accept':
      case 'return':
        return verdict.kind;
    }
  }

  /** Undefined: it is of the other family. */
  #address({ family, side }: { readonly family: Family; readonly side: Side }): IpAddress | undefined {
    const address = side === 'saddr' ? this.#packet.source : this.#packet.destination;
    return address.family === family ? address : undefined;
  }

  #set(name: string, rule: Rule): ElementSet {
    for (const kind of ['set', 'map'] as const) {
      const found = this.#objects.get(objectKey({ kind, name }));
      if (found !== undefined && 'holds' in found && found.holds !== 'unknown') return found;
    }
    throw unknownRule(ruleText(rule));
  }
}

function holds(set: ElementSet, address: IpAddress): boolean {
  if (set.elements.has(address.text)) return true;
  return set.holds === 'ranges' && [...set.elements.values()].some((range) => isWithin(address, range));
}

function isWithin({ value }: IpAddress, { first, last }: AddressRange): boolean {
  return addressValue(first) <= value && value <= addressValue(last);
}
