/**
 * Reads the output of `nft -j list table` (libnftables-json(5)): rules as data. JSON of libnftables 1.0 has no comments of chains.
 */
import type { AddressRange, Family } from '../../engine/rules.ts';
import { blockRange, rangeText } from './addresses.ts';
import { elementsOf, type ElementSet, type EndpointElement } from './nft-sets.ts';
import { type Chain, objectsOf, type TableObject, type TableObjects } from './objects.ts';
import {
  type BaseChain,
  icmpTypes,
  type Listed,
  type Rule,
  type Statement,
  type Transport,
  type Verdict,
} from './rule.ts';
import { endpointText } from './rule-text.ts';

type Json = null | string | number | boolean | readonly Json[] | { readonly [key: string]: Json };

/** What is none of ours becomes `listed` statements and sets of `unknown` elements. */
export function parseJsonListing(text: string): TableObjects {
  const { nftables } = JSON.parse(text) as { readonly nftables: readonly JsonObject[] };
  const rules = new Map<string, Rule[]>();
  for (const { rule } of nftables) {
    if (rule === undefined) continue;
    const ofChain = rules.get(rule.chain);
    if (ofChain === undefined) rules.set(rule.chain, [parseRule(rule)]);
    else ofChain.push(parseRule(rule));
  }
  return objectsOf(nftables.flatMap((object) => parseObject(object, rules)));
}

/** Of each, one is there. */
interface JsonObject {
  readonly chain?: JsonChain;
  readonly rule?: JsonRule;
  readonly set?: JsonSet;
  readonly map?: JsonSet;
  readonly counter?: { readonly name: string };
}

interface JsonChain {
  readonly name: string;
  readonly type?: string;
  readonly hook?: string;
  readonly prio?: number;
  readonly policy?: string;
}

interface JsonRule {
  readonly chain: string;
  readonly comment?: string;
  readonly expr: readonly Json[];
}

interface JsonSet {
  readonly name: string;
  readonly type: Json;
  readonly flags?: readonly string[];
  readonly elem?: readonly Json[];
}

function parseObject(
  { chain, set, map, counter }: JsonObject,
  rules: ReadonlyMap<string, readonly Rule[]>,
): TableObject[] {
  if (chain !== undefined) return [parseChain(chain, rules.get(chain.name) ?? [])];
  if (set !== undefined) return [parseSet('set', set)];
  if (map !== undefined) return [parseSet('map', map)];
  return counter === undefined ? [] : [{ kind: 'counter', name: counter.name }];
}

function parseChain(chain: JsonChain, rules: readonly Rule[]): Chain {
  return { kind: 'chain', name: chain.name, base: baseOf(chain), rules };
}

const hooks = ['forward', 'input', 'output'] as const;

function baseOf({ type, hook, prio, policy }: JsonChain): BaseChain | Listed | undefined {
  if (hook === undefined) return undefined;
  const known = hooks.find((one) => one === hook);
  if (known !== undefined && prio !== undefined && type === 'filter' && policy === 'accept') {
    return { hook: known, priority: prio };
  }
  return listed({ type, hook, prio, policy });
}

function listed(json: unknown): Listed {
  return { kind: 'listed', text: JSON.stringify(json) };
}

function parseRule({ expr, comment }: JsonRule): Rule {
  const statements = expr.map((json) => statementOf(json) ?? listed(json));
  return comment === undefined ? { statements } : { statements, comment };
}

/** Undefined: none of ours. */
function statementOf(json: Json): Statement | undefined {
  const [kind, value] = entryOf(json);
  switch (kind) {
    case 'match':
      return matchOf(value);
    case 'counter':
      return typeof value === 'string' ? { kind, name: value } : undefined;
    case 'limit': {
      const { rate, burst, per, inv } = fieldsOf(value);
      const isOurs =
        typeof rate === 'number' && typeof burst === 'number' && per === 'minute' && inv !== true;
      return isOurs ? { kind, perMinute: rate, burst } : undefined;
    }
    case 'log': {
      const { prefix, group } = fieldsOf(value);
      return typeof prefix === 'string' && typeof group === 'number' ? { kind, prefix, group } : undefined;
    }
    case 'reject': {
      const { type = 'icmpx', expr = 'port-unreachable' } = fieldsOf(value);
      if (type === 'tcp reset') return { kind, with: 'tcp reset' };
      return type === 'icmpx' && expr === 'port-unreachable' ? { kind, with: 'icmp error' } : undefined;
    }
    case 'vmap': {
      const { key, data } = fieldsOf(value);
      const of = addressFields.get(fieldText(key ?? null));
      const map = setName(data);
      return of === undefined || map === undefined ? undefined : { kind: 'verdict map', ...of, map };
    }
    default:
      return verdictOf(json);
  }
}

function verdictOf(json: Json): Verdict | undefined {
  const [kind, value] = entryOf(json);
  if (kind === 'accept' || kind === 'drop' || kind === 'return') return { kind };
  const { target } = fieldsOf(value);
  const takesChain = kind === 'jump' || kind === 'goto';
  return takesChain && typeof target === 'string' ? { kind, chain: target } : undefined;
}

const addressFields = new Map([
  ['ip saddr', { family: 4, side: 'saddr' }],
  ['ip daddr', { family: 4, side: 'daddr' }],
  ['ip6 saddr', { family: 6, side: 'saddr' }],
  ['ip6 daddr', { family: 6, side: 'daddr' }],
] as const) as ReadonlyMap<string, { readonly family: 4 | 6; readonly side: 'saddr' | 'daddr' }>;

function matchOf(json: Json): Statement | undefined {
  const { op, left = null, right = null } = fieldsOf(json);
  const field = fieldText(left);
  if (field === 'ct state' && op === 'in') {
    const states = [right].flat();
    return states.every((one) => one === 'established' || one === 'related' || one === 'invalid')
      ? { kind: 'connection state', states }
      : undefined;
  }
  const side = field === 'fib saddr type' ? 'saddr' : field === 'fib daddr type' ? 'daddr' : undefined;
  if (side !== undefined) {
    const isOurs = right === 'local' && (op === '==' || op === '!=');
    return isOurs ? { kind: 'local address', side, is: op === '==' } : undefined;
  }
  if (op !== '==') return undefined;
  const address = addressFields.get(field);
  if (address !== undefined) {
    const set = setName(right);
    if (set !== undefined) return { kind: 'address in set', ...address, set };
    const range = rangeOf(right);
    return range === undefined ? undefined : { kind: 'address', ...address, range };
  }
  switch (field) {
    case 'meta l4proto':
      return typeof right === 'number' ? { kind: 'protocol', protocol: right } : undefined;
    case 'tcp dport':
    case 'udp dport':
    case 'sctp dport': {
      const [first, last] = arrayOf(fieldsOf(right)['range'] ?? [right, right]);
      if (typeof first !== 'number' || typeof last !== 'number') return undefined;
      const protocol = field.split(' ')[0] as Transport;
      return { kind: 'destination port', protocol, first, last };
    }
    case 'icmp type':
      return icmpOf(4, right);
    case 'icmpv6 type':
      return icmpOf(6, right);
    case 'ip daddr . meta l4proto . th dport':
    case 'ip6 daddr . meta l4proto . th dport': {
      const set = setName(right);
      const family = field.startsWith('ip6') ? 6 : 4;
      return set === undefined ? undefined : { kind: 'endpoint in set', family, set };
    }
    default:
      return undefined;
  }
}

function icmpOf(family: Family, json: Json): Statement | undefined {
  const types = fieldsOf(json)['set'];
  const isOurs =
    Array.isArray(types) && types.every((type) => Object.hasOwn(icmpTypes[family], String(type)));
  return isOurs ? { kind: 'icmp type', family, types } : undefined;
}

/** What a match looks at, in nft's own language: `ip saddr`, `meta l4proto`. */
function fieldText(json: Json): string {
  const [kind, value] = entryOf(json);
  if (kind === 'concat') return arrayOf(value).map(fieldText).join(' . ');
  const { protocol, field, key, flags, result } = fieldsOf(value);
  // Versions differ in whether one flag is a list.
  const words =
    kind === 'payload' ? [protocol, field] : [kind, ...(kind === 'fib' ? [flags, result] : [key])];
  return words.flat().join(' ');
}

function rangeOf(json: Json): AddressRange | undefined {
  if (typeof json === 'string') return { first: json, last: json };
  const { range, prefix } = fieldsOf(json);
  const [first, last] = arrayOf(range);
  if (typeof first === 'string' && typeof last === 'string') return { first, last };
  const { addr, len } = fieldsOf(prefix);
  return typeof addr === 'string' && typeof len === 'number' ? blockRange(addr, len) : undefined;
}

function parseSet(kind: 'set' | 'map', { name, type, flags = [], elem = [] }: JsonSet): ElementSet {
  const family = [type].flat()[0] === 'ipv6_addr' ? 6 : 4;
  const unknown = { kind, name, holds: 'unknown', type: JSON.stringify(type), elements: new Map() } as const;
  if (kind === 'map') {
    const elements = elementsOf(elem, verdictElement);
    return elements === undefined ? unknown : { kind, holds: 'verdicts', name, family, elements };
  }
  if (flags.includes('interval')) {
    const elements = elementsOf(elem, (json): [string, AddressRange] | undefined => {
      const range = rangeOf(json);
      return range === undefined ? undefined : [rangeText(family, range), range];
    });
    return elements === undefined ? unknown : { kind, holds: 'ranges', name, family, elements };
  }
  if (Array.isArray(type)) {
    const elements = elementsOf(elem, endpointElement);
    return elements === undefined ? unknown : { kind, holds: 'endpoints', name, family, elements };
  }
  const elements = elementsOf(elem, (json) =>
    typeof json === 'string' ? ([json, undefined] as const) : undefined,
  );
  return elements === undefined ? unknown : { kind, holds: 'addresses', name, family, elements };
}

function verdictElement(json: Json): [string, Verdict] | undefined {
  const [address, value = null] = arrayOf(json);
  const verdict = verdictOf(value);
  return typeof address === 'string' && verdict !== undefined ? [address, verdict] : undefined;
}

function endpointElement(json: Json): [string, EndpointElement] | undefined {
  const [address, protocol, port] = arrayOf(fieldsOf(json)['concat']);
  if (typeof address !== 'string' || typeof protocol !== 'number' || typeof port !== 'number')
    return undefined;
  const element = { address, protocol, port };
  return [endpointText(element), element];
}

function setName(json: Json | undefined): string | undefined {
  return typeof json === 'string' && json.startsWith('@') ? json.slice(1) : undefined;
}

/** Of an object with one field: its name says what the value is. */
function entryOf(json: Json): readonly [string, Json] {
  return Object.entries(fieldsOf(json))[0] ?? ['', null];
}

function fieldsOf(json: Json | undefined): { readonly [key: string]: Json } {
  return typeof json === 'object' && json !== null && !Array.isArray(json)
    ? (json as { readonly [key: string]: Json })
    : {};
}

function arrayOf(json: Json | undefined): readonly Json[] {
  return Array.isArray(json) ? json : [];
}
