/**
 * Reads the output of `nft list table`, which takes a third of the time that its JSON takes. Rules are kept
 * as listed, to compare them with the programmed ones.
 */
import type { AddressRange } from '../../engine/rules.ts';
import { type AddressPair, elementsOf, type ElementSet, type EndpointElement } from './nft-sets.ts';
import { objectsOf, type TableObject } from './objects.ts';
import type { Listed, MappedObject, Rule, Verdict } from './rule.ts';
import { parseRange, parseVerdict } from './rule-text.ts';

/** Unknown lines are kept, and make their object differ from any of ours. */
export function parseTextListing(text: string): Map<string, TableObject> {
  const objects: TableObject[] = [];
  // An object starts and ends at an indentation of one tab: "\tchain NAME {" ... "\t}".
  for (const [, kind = '', name = '', body = ''] of text.matchAll(/^\t(\w+) (\S+) \{\n([^]*?)^\t\}$/gm)) {
    const object = parseObject(kind, name.replaceAll('"', ''), body);
    if (object !== undefined) objects.push(object);
  }
  return objectsOf(objects);
}

function parseObject(kind: string, name: string, body: string): TableObject | undefined {
  if (kind === 'counter') return { kind, name };
  if (kind === 'limit') {
    const [, perMinute, burst] = /rate (\d+)\/minute burst (\d+) packets/.exec(body) ?? [];
    return { kind, name, perMinute: Number(perMinute), burst: Number(burst) };
  }
  if (kind === 'chain') return parseChain(name, body);
  if (kind === 'set' || kind === 'map') return parseSet(kind, name, body);
  return undefined;
}

function parseChain(name: string, body: string): TableObject {
  let base: Listed | undefined;
  let comment: string | undefined;
  const rules: Rule[] = [];
  for (const line of body.split('\n').map((each) => each.trim())) {
    if (line === '') continue;
    if (line.startsWith('comment "')) comment = line.slice('comment "'.length, -1);
    else if (line.startsWith('type ')) base = { kind: 'listed', text: line };
    else rules.push({ statements: [{ kind: 'listed', text: canonicalRule(line) }] });
  }
  return { kind: 'chain', name, comment, base, rules };
}

/** A listed rule in canonical form: versions of nft differ in what they omit. */
function canonicalRule(line: string): string {
  return line
    .replace(/counter name "([^"]+)"/, 'counter name $1')
    .replace(/reject with icmpx (?:type )?port-unreachable/, 'reject');
}

function parseSet(kind: 'set' | 'map', name: string, body: string): ElementSet {
  const [head = '', list = ''] = body.split('elements = {');
  const items = (list.split('}', 1)[0] ?? '').split(',').map((item) => item.trim());
  // Splitting an empty list yields one empty item.
  const keys = items[0] === '' ? [] : items;
  const type = /^\s*type (.*)$/m.exec(head)?.[1] ?? '';
  const [, version, end = ''] = /^ipv([46])_addr(.*)$/.exec(type) ?? [];
  const unknown = { kind, name, holds: 'unknown', type, elements: new Map<string, undefined>() } as const;
  if (version === undefined) return unknown;
  const family = version === '4' ? 4 : 6;
  const [, of] = / : (counter|limit)$/.exec(end) ?? [];
  if (kind === 'map' && of !== undefined) {
    const elements = elementsOf(keys, objectElement);
    return elements === undefined
      ? unknown
      : { kind, name, holds: `${of as MappedObject}s`, family, elements };
  }
  if (kind === 'map') {
    const elements = elementsOf(keys, verdictElement);
    return elements === undefined ? unknown : { kind, name, holds: 'verdicts', family, elements };
  }
  if (/^\s*flags interval$/m.test(head)) {
    const elements = elementsOf(keys, rangeElement);
    return elements === undefined ? unknown : { kind, name, holds: 'ranges', family, elements };
  }
  if (end.startsWith(' . ipv')) {
    const elements = elementsOf(keys, pairElement);
    return elements === undefined ? unknown : { kind, name, holds: 'pairs', family, elements };
  }
  if (end !== '') {
    const elements = elementsOf(keys, endpointElement);
    return elements === undefined ? unknown : { kind, name, holds: 'endpoints', family, elements };
  }
  return { kind, name, holds: 'addresses', family, elements: new Map(keys.map((key) => [key, undefined])) };
}

function verdictElement(item: string): [string, Verdict] | undefined {
  const [address = '', text = ''] = item.split(' : ');
  const verdict = parseVerdict(text);
  return verdict === undefined ? undefined : [address, verdict];
}

function objectElement(item: string): [string, string] | undefined {
  const [, address, name] = /^(\S+) : "([^"]+)"$/.exec(item) ?? [];
  return address === undefined || name === undefined ? undefined : [address, name];
}

function rangeElement(item: string): [string, AddressRange] | undefined {
  const range = parseRange(item);
  return range === undefined ? undefined : [item, range];
}

function pairElement(item: string): [string, AddressPair] | undefined {
  const [, first, second] = /^(\S+) \. (\S+)$/.exec(item) ?? [];
  return first === undefined || second === undefined ? undefined : [item, { first, second }];
}

function endpointElement(item: string): [string, EndpointElement] | undefined {
  const [, address, protocol, port] = /^(\S+) \. (\d+) \. (\d+)$/.exec(item) ?? [];
  if (address === undefined) return undefined;
  return [item, { address, protocol: Number(protocol), port: Number(port) }];
}
