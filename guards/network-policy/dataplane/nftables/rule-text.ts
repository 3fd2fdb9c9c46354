/**
 * Rules, and what they refer to, as text in nft's own format: to show, to pass to libnftables, to compare, and to parse.
 */
import type { AddressRange, Family } from '../../engine/rules.ts';
import { blockRange, rangeText } from './addresses.ts';
import type { AddressPair, ElementSet, EndpointElement } from './nft-sets.ts';
import {
  type BaseChain,
  type ConnectionState,
  icmpv6Types,
  type Listed,
  type MappedObject,
  type PairedAddress,
  type Rule,
  type Side,
  type Statement,
  type Transport,
  type Verdict,
} from './rule.ts';

const ip = { 4: 'ip', 6: 'ip6' } as const;
const addressTypes = { 4: 'ipv4_addr', 6: 'ipv6_addr' } as const;
const typeEnds = {
  addresses: () => '',
  ranges: () => '',
  endpoints: () => ' . inet_proto . inet_service',
  pairs: (family: Family) => ` . ${addressTypes[family]}`,
  verdicts: () => ' : verdict',
  counters: () => ' : counter',
  limits: () => ' : limit',
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
    case 'object map':
      return `${statement.object} name ${addressField(statement)} map @${statement.map}`;
    case 'endpoint in set':
      return `${ip[statement.family]} daddr . meta l4proto . th dport @${statement.set}`;
    case 'local address':
      return `fib ${statement.side} type ${statement.is ? '' : '!= '}local`;
    case 'protocol':
      return `meta l4proto ${statement.protocol}`;
    case 'destination port':
      return `${statement.protocol} dport ${portsText(statement)}`;
    case 'icmpv6 type':
      return `icmpv6 type { ${statement.types.join(', ')} }`;
    case 'hop limit':
      return `ip6 hoplimit ${statement.hops}`;
    case 'connection state':
      return `ct state ${statement.states.join(',')}`;
    case 'pair in set':
      return `${ip[statement.family]} saddr . ${pairedField(statement)} @${statement.set}`;
    case 'translated destination':
      return 'ct status dnat';
    case 'from a bridge':
      return 'meta iifkind "bridge"';
    case 'limit':
      return `limit ${rateText(statement)}`;
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

/** Text of a limit. */
export function rateText({
  perMinute,
  burst,
}: {
  readonly perMinute: number;
  readonly burst: number;
}): string {
  return `rate ${perMinute}/minute burst ${burst} packets`;
}

export function baseText(base: BaseChain | Listed): string {
  return 'text' in base
    ? base.text
    : `type filter hook ${base.hook} priority ${base.priority}; policy accept;`;
}

/** `ipv4_addr`, `ipv4_addr : verdict` */
export function setTypeText(set: ElementSet): string {
  return set.holds === 'unknown' ? set.type : `${addressTypes[set.family]}${typeEnds[set.holds](set.family)}`;
}

/** Text of an element of a set. */
export function pairText({ first, second }: AddressPair): string {
  return `${first} . ${second}`;
}

/** Text of an element of a set. */
export function endpointText({ address, protocol, port }: EndpointElement): string {
  return `${address} . ${protocol} . ${port}`;
}

function addressField({ family, side }: { readonly family: Family; readonly side: string }): string {
  return `${ip[family]} ${side}`;
}

function pairedField({ family, other }: { readonly family: Family; readonly other: PairedAddress }): string {
  if (other === 'destination') return `${ip[family]} daddr`;
  return `ct ${other === 'original source' ? 'original' : 'reply'} ${ip[family]} saddr`;
}

function portsText({ first, last }: { readonly first: number; readonly last: number }): string {
  return first === last ? `${first}` : `${first}-${last}`;
}

/** Reads the output of {@link ruleText}. Parts that are not ours become a `listed` statement. */
export function parseRule(text: string): Rule {
  const [, body = '', comment] = /^(.*?)(?: comment "([^"]*)")?$/.exec(text) ?? [];
  const statements: Statement[] = [];
  for (let rest = body; rest !== '';) {
    const [statement, length] = firstStatement(rest) ?? [
      { kind: 'listed', text: rest } as const,
      rest.length,
    ];
    statements.push(statement);
    rest = rest.slice(length).trimStart();
  }
  return comment === undefined ? { statements } : { statements, comment };
}

function firstStatement(text: string): readonly [Statement, length: number] | undefined {
  for (const [form, read] of forms) {
    const [whole = '', ...words] = form.exec(text) ?? [];
    const statement = whole === '' ? undefined : read(...words);
    if (statement !== undefined) return [statement, whole.length];
  }
  return undefined;
}

const familyOf = (word = ''): Family => (word.includes('6') ? 6 : 4);

const forms: readonly (readonly [RegExp, (...words: readonly string[]) => Statement | undefined])[] = [
  [
    /^(ip6?) ([sd]addr) (vmap )?@(\S+)/,
    (family, side, map, name = '') => {
      const address = { family: familyOf(family), side: side as Side };
      return map === undefined
        ? { kind: 'address in set', ...address, set: name }
        : { kind: 'verdict map', ...address, map: name };
    },
  ],
  [
    /^(ip6?) ([sd]addr) ([\da-f:][\d.a-f:/-]*)(?= )/,
    (family, side, text = '') => {
      const range = parseRange(text);
      return range && { kind: 'address', family: familyOf(family), side: side as Side, range };
    },
  ],
  [
    /^(ip6?) saddr \. (?:ip6? daddr|ct (original|reply) ip6? saddr) @(\S+)/,
    (family, way, set = '') => ({
      ...{ kind: 'pair in set', family: familyOf(family), set },
      other: way === undefined ? 'destination' : (`${way} source` as PairedAddress),
    }),
  ],
  [
    /^(ip6?) daddr \. meta l4proto \. th dport @(\S+)/,
    (family, set = '') => ({ kind: 'endpoint in set', family: familyOf(family), set }),
  ],
  [
    /^fib ([sd]addr) type (!= )?local/,
    (side, not) => ({ kind: 'local address', side: side as Side, is: not === undefined }),
  ],
  [/^meta l4proto (\d+)/, (protocol) => ({ kind: 'protocol', protocol: Number(protocol) })],
  [
    /^(tcp|udp|sctp) dport (\d+)(?:-(\d+))?(?= )/,
    (protocol, first, last = first) => ({
      kind: 'destination port',
      protocol: protocol as Transport,
      first: Number(first),
      last: Number(last),
    }),
  ],
  [/^ip6 hoplimit (\d+)/, (hops) => ({ kind: 'hop limit', family: 6, hops: Number(hops) })],
  [/^icmpv6 type \{ ([^}]*) \}/, (list = '') => icmpv6Of(list.split(', '))],
  [
    /^ct state ((?:established|related|invalid)(?:,(?:established|related|invalid))*)(?= )/,
    (list = '') => ({ kind: 'connection state', states: list.split(',') as ConnectionState[] }),
  ],
  [/^ct status dnat(?= )/, () => ({ kind: 'translated destination' })],
  [/^meta iifkind "bridge"/, () => ({ kind: 'from a bridge' })],
  [
    /^limit rate (\d+)\/minute burst (\d+) packets/,
    (rate, burst) => ({ kind: 'limit', perMinute: Number(rate), burst: Number(burst) }),
  ],
  [
    /^log prefix "([^"]*)" group (\d+)/,
    (prefix = '', group) => ({ kind: 'log', prefix, group: Number(group) }),
  ],
  [
    /^(counter|limit) name (ip6?) ([sd]addr) map @(\S+)/,
    (object, family, side, map = '') => ({
      ...{ kind: 'object map', family: familyOf(family), side: side as Side, map },
      object: object as MappedObject,
    }),
  ],
  [/^counter name (\S+)/, (name = '') => ({ kind: 'counter', name })],
  [
    /^reject(?: with (tcp reset))?$/,
    (reset) => ({ kind: 'reject', with: reset === undefined ? 'icmp error' : 'tcp reset' }),
  ],
  [/^(.+)$/, (text = '') => parseVerdict(text)],
];

function icmpv6Of(types: readonly string[]): Statement | undefined {
  const isOurs = types.every((type) => Object.hasOwn(icmpv6Types, type));
  return isOurs ? ({ kind: 'icmpv6 type', family: 6, types } as Statement) : undefined;
}

export function parseVerdict(text: string): Verdict | undefined {
  const [, kind, way, chain = ''] = /^(?:(accept|drop|return)|(goto|jump) (\S+))$/.exec(text) ?? [];
  if (kind !== undefined) return { kind: kind as 'accept' | 'drop' | 'return' };
  return way === undefined ? undefined : { kind: way as 'goto' | 'jump', chain };
}

export function parseRange(text: string): AddressRange | undefined {
  const [, first, prefix, last = first] = /^([\d.a-f:]+)(?:\/(\d+)|-([\d.a-f:]+))?$/.exec(text) ?? [];
  if (first === undefined || last === undefined) return undefined;
  return prefix === undefined ? { first, last } : blockRange(first, Number(prefix));
}
