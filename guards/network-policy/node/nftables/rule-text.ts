/** Prints rules and what they refer to in nft's language, as nft itself lists them: for people, for libnftables, and to compare. */
import type { Family } from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import type { ElementSet, EndpointElement } from './nft-sets.ts';
import type { BaseChain, Listed, Rule, Statement, Verdict } from './rule.ts';

const ip = { 4: 'ip', 6: 'ip6' } as const;
const icmp = { 4: 'icmp', 6: 'icmpv6' } as const;
const addressTypes = { 4: 'ipv4_addr', 6: 'ipv6_addr' } as const;
const typeEnds = {
  addresses: '',
  ranges: '',
  endpoints: ' . inet_proto . inet_service',
  verdicts: ' : verdict',
} as const;

export function ruleText({ statements, comment }: Rule): string {
  const text = statements.map(statementText).join(' ');
  return comment === undefined ? text : `${text} comment "${comment}"`;
}

function statementText(statement: Statement): string {
  switch (statement.kind) {
    case 'address':
      return `${addressField(statement)} ${rangeText(statement.family, statement.range)}`;
    case 'address in set':
      return `${addressField(statement)} @${statement.set}`;
    case 'verdict map':
      return `${addressField(statement)} vmap @${statement.map}`;
    case 'endpoint in set':
      return `${ip[statement.family]} daddr . meta l4proto . th dport @${statement.set}`;
    case 'local address':
      return `fib ${statement.side} type ${statement.is ? '' : '!= '}local`;
    case 'protocol':
      return `meta l4proto ${statement.protocol}`;
    case 'destination port':
      return `${statement.protocol} dport ${portsText(statement)}`;
    case 'icmp type':
      return `${icmp[statement.family]} type { ${statement.types.join(', ')} }`;
    case 'connection state':
      return `ct state ${statement.states.join(',')}`;
    case 'limit':
      return `limit rate ${statement.perMinute}/minute burst ${statement.burst} packets`;
    case 'log':
      return `log prefix "${statement.prefix}" group ${statement.group}`;
    case 'counter':
      return `counter name ${statement.name}`;
    case 'reject':
      return statement.with === 'tcp reset' ? 'reject with tcp reset' : 'reject';
    case 'listed':
      return statement.text;
    case 'accept':
    case 'drop':
    case 'return':
    case 'jump':
    case 'goto':
      return verdictText(statement);
  }
}

export function verdictText(verdict: Verdict): string {
  return 'chain' in verdict ? `${verdict.kind} ${verdict.chain}` : verdict.kind;
}

export function baseText(base: BaseChain | Listed): string {
  return 'text' in base
    ? base.text
    : `type filter hook ${base.hook} priority ${base.priority}; policy accept;`;
}

/** `ipv4_addr`, `ipv4_addr : verdict` */
export function setTypeText(set: ElementSet): string {
  return set.holds === 'unknown' ? set.type : `${addressTypes[set.family]}${typeEnds[set.holds]}`;
}

/** Of an element of a set. */
export function endpointText({ address, protocol, port }: EndpointElement): string {
  return `${address} . ${protocol} . ${port}`;
}

function addressField({ family, side }: { readonly family: Family; readonly side: string }): string {
  return `${ip[family]} ${side}`;
}

function portsText({ first, last }: { readonly first: number; readonly last: number }): string {
  return first === last ? `${first}` : `${first}-${last}`;
}
