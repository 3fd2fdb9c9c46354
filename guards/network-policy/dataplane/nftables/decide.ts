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
import { parseCounterName, podMap, shortDirection } from './names.ts';
import type { ElementSet } from './nft-sets.ts';
import { objectKey, type TableObjects } from './objects.ts';
import { type Rule, type Side, type Statement, transports, type Verdict } from './rule.ts';
import { endpointText, pairText, parseRule, ruleText } from './rule-text.ts';

/**
 * @param objects - As returned by `readTable`.
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
  let isMonitored = false;
  const chain = chainVerdicts(objects, packet, chains, () => (isMonitored = true));
  const hook = packet.fromNode && direction === 'ingress' ? 'output' : 'forward';
  const isRefused = chain(`${hook}-${shortDirection[direction]}`) === 'refuse';
  return {
    verdict: isRefused ? 'refused' : isMonitored ? 'would-refuse' : 'allowed',
    isKnown: map !== undefined && map.kind === 'map' && map.elements.has(own.text),
    chains,
  };
}

function chainVerdicts(
  objects: TableObjects,
  packet: KernelPacket,
  chains: string[],
  /** Called if the packet is counted as one that would be refused. */
  onMonitored: () => void,
): (name: string) => RuleVerdict {
  function decideRule(rule: Rule): RuleVerdict {
    for (const statement of rule.statements) {
      const verdict = decideStatement(statement, rule);
      if (verdict !== 'next statement') return verdict;
    }
    return 'continue';
  }

  function decideStatement(statement: Statement, rule: Rule): RuleVerdict | 'next statement' {
    const { protocol, port, fromNode } = packet;
    const onlyIf = (matches: boolean) => (matches ? 'next statement' : 'continue');
    switch (statement.kind) {
      case 'address': {
        const address = addressAt(statement);
        return onlyIf(address !== undefined && isWithin(address, statement.range));
      }
      case 'address in set': {
        const address = addressAt(statement);
        return onlyIf(address !== undefined && holds(setOf(statement.set, rule), address));
      }
      case 'verdict map': {
        const address = addressAt(statement);
        if (address === undefined) return 'continue';
        const map = setOf(statement.map, rule);
        if (map.holds !== 'verdicts') throw unknownRule(ruleText(rule));
        const verdict = map.elements.get(address.text);
        return verdict === undefined ? 'continue' : decideVerdict(verdict);
      }
      case 'endpoint in set': {
        const address = addressAt({ family: statement.family, side: 'daddr' });
        if (address === undefined || port === undefined) return 'continue';
        const key = endpointText({ address: address.text, protocol, port });
        return onlyIf(setOf(statement.set, rule).elements.has(key));
      }
      case 'pair in set': {
        const source = addressAt({ family: statement.family, side: 'saddr' });
        // The packet is the first of its connection, so it has the connection's addresses.
        const other =
          statement.other === 'original source'
            ? source
            : addressAt({ family: statement.family, side: 'daddr' });
        if (source === undefined || other === undefined) return 'continue';
        return onlyIf(
          setOf(statement.set, rule).elements.has(pairText({ first: source.text, second: other.text })),
        );
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
      // Neighbour discovery, established and invalid connections: never the first packet of one.
      case 'hop limit':
      case 'icmpv6 type':
      case 'connection state':
        return 'continue';
      // These expressions choose how a packet is refused.
      case 'translated destination':
      case 'from a bridge':
        return 'continue';
      case 'object map': {
        if (statement.object === 'limit') return limited(rule);
        const address = addressAt(statement);
        if (address === undefined) return 'continue';
        const map = setOf(statement.map, rule);
        if (map.holds !== 'counters') throw unknownRule(ruleText(rule));
        const counter = map.elements.get(address.text);
        if (counter === undefined) return 'continue';
        if (parseCounterName(counter).verdict === 'would-refuse') onMonitored();
        return 'next statement';
      }
      case 'counter':
        if (parseCounterName(statement.name).verdict === 'would-refuse') onMonitored();
        return 'next statement';
      case 'log':
        return 'next statement';
      case 'limit':
        return limited(rule);
      case 'reject':
        return 'refuse';
      case 'listed':
        throw unknownRule(ruleText(rule));
      case 'accept':
      case 'drop':
      case 'return':
      case 'jump':
      case 'goto':
        return decideVerdict(statement);
    }
  }

  /** Whether the packet exceeds a limit cannot be known here, so only a log may depend on it. */
  function limited(rule: Rule): RuleVerdict {
    if (rule.statements.at(-1)?.kind === 'log') return 'continue';
    throw unknownRule(ruleText(rule));
  }

  function decideVerdict(verdict: Verdict): RuleVerdict {
    switch (verdict.kind) {
      case 'drop':
        return 'refuse';
      case 'jump':
        return chain(verdict.chain);
      case 'goto': {
        // A goto does not return: only the target chain decides.
        const decided = chain(verdict.chain);
        return decided === 'continue' ? 'return' : decided;
      }
      case 'accept':
      case 'return':
        return verdict.kind;
    }
  }

  /** The packet's address on this side; undefined if the packet is of the other family. */
  function addressAt({
    family,
    side,
  }: {
    readonly family: Family;
    readonly side: Side;
  }): IpAddress | undefined {
    const address = side === 'saddr' ? packet.source : packet.destination;
    return address.family === family ? address : undefined;
  }

  function setOf(name: string, rule: Rule): ElementSet {
    for (const kind of ['set', 'map'] as const) {
      const found = objects.get(objectKey({ kind, name }));
      if (found !== undefined && 'holds' in found && found.holds !== 'unknown') return found;
    }
    throw unknownRule(ruleText(rule));
  }

  function chain(name: string): RuleVerdict {
    const found = objects.get(objectKey({ kind: 'chain', name }));
    const rules = found?.kind === 'chain' ? found.rules : undefined;
    return followChain(name, rules, chains, (listed) => decideRule(parseRule(ruleText(listed))));
  }

  return chain;
}

function holds(set: ElementSet, address: IpAddress): boolean {
  if (set.elements.has(address.text)) return true;
  return set.holds === 'ranges' && [...set.elements.values()].some((range) => isWithin(address, range));
}

function isWithin({ value }: IpAddress, { first, last }: AddressRange): boolean {
  return addressValue(first) <= value && value <= addressValue(last);
}
