/** Parses the output of `nft list table`. */
import { objectsOf, type TableObject } from './objects.ts';

/** The objects of a table, from its listing. Unknown lines are kept, and make their object differ from any of ours. */
export function parseListing(text: string): Map<string, TableObject> {
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
  if (kind === 'chain') return parseChain(name, body);
  if (kind === 'set' || kind === 'map') return parseSet(kind, name, body);
  return undefined;
}

function parseChain(name: string, body: string): TableObject {
  let base: string | undefined;
  let comment: string | undefined;
  const rules: string[] = [];
  for (const line of body.split('\n').map((each) => each.trim())) {
    if (line === '') continue;
    if (line.startsWith('comment "')) comment = line.slice('comment "'.length, -1);
    else if (line.startsWith('type ')) base = line;
    else rules.push(canonicalRule(line));
  }
  return { kind: 'chain', name, comment, base, rules };
}

/** Versions of nft differ in what they omit. */
function canonicalRule(line: string): string {
  return line
    .replace(/counter name "([^"]+)"/, 'counter name $1')
    .replace(/reject with icmpx (?:type )?port-unreachable/, 'reject');
}

function parseSet(kind: 'set' | 'map', name: string, body: string): TableObject {
  const elements = new Map<string, string>();
  const [head = '', list = ''] = body.split('elements = {');
  for (const item of list.split('}', 1)[0]?.split(',') ?? []) {
    const text = item.trim();
    if (text === '') continue;
    // A colon surrounded by spaces: those in addresses are not.
    const [key = '', value = ''] = text.split(' : ');
    elements.set(key, value);
  }
  return {
    kind,
    name,
    type: /^\s*type (.*)$/m.exec(head)?.[1] ?? '',
    interval: /^\s*flags interval$/m.test(head),
    elements,
  };
}
