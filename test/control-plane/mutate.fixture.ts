/** JSON, changed at random into what no client should send. */
import { stringify } from 'yaml';

import type { Random } from '../../lib/testing/depth.fixture.ts';

export type Json = null | boolean | number | string | readonly Json[] | { readonly [name: string]: Json };
type Tree = Json[] | { [name: string]: Json };

const RAW = '@raw:';

/** Texts that JSON.stringify would not write. */
const raws = [
  '1e400',
  '-1e400',
  '-0',
  '-0.0',
  '1.0',
  '1E3',
  '1e-400',
  '9223372036854775807',
  '9223372036854775808',
  '-9223372036854775809',
  '123456789012345678901234567890',
  '0.1000000000000000055511151231257827',
  '"\\ud800"',
  '"\\udc00\\ud800"',
  '"\\u0000"',
  '"a\\u0000b"',
  'NaN',
  '01',
  '+1',
  '.5',
  '{"a":1,"a":2}',
  '{"__proto__":{"a":1}}',
  '{"__proto__":null,"constructor":{"prototype":{"x":1}}}',
  'undefined',
  '',
];

const names = [
  '__proto__',
  'constructor',
  'prototype',
  'toString',
  'hasOwnProperty',
  '',
  '\0',
  '\ud800',
  '$patch',
  '$ref',
  '.',
  'a.b',
  'a/b',
  '~0',
  'é',
  'x'.repeat(300),
  'status',
  'metadata',
  'kind',
  'apiVersion',
  'spec',
  'length',
  '0',
];

export const texts = [
  '',
  ' ',
  'a',
  'b',
  'default',
  'fuzz-a',
  'A_b',
  '-a',
  'a/b',
  'é',
  '\0',
  '😀',
  '\u2028',
  '../..',
  '%2e%2e',
  'null',
  'true',
  '1',
  '-1',
  '1.5',
  '1e3',
  '100m',
  '1Gi',
  '99999999999999999999',
  '2025-01-02T03:04:05Z',
  '2025-02-30T25:61:61Z',
  '9999999-01-01T00:00:00Z',
  '10.0.0.1',
  '::1',
  '10.0.0.0/33',
  '*',
  '$(A)',
  '{{',
  '(((((((a+)+)+)+)+)+)+$',
  'self.x == ',
  'Always',
  'x'.repeat(64),
  'x'.repeat(254),
  'x'.repeat(5000),
  'TCP',
  'v1',
  'Pod',
];

/** @param big whether it may be large; one such value is enough for a request. */
function hostile(random: Random, big: boolean): Json {
  const leaf: Json = random.pick<Json>([
    null,
    true,
    false,
    0,
    1,
    -1,
    1.5,
    2 ** 31,
    2 ** 53,
    [],
    {},
    [null],
    [[]],
    [{}],
    random.pick(texts),
    random.pick(texts),
    RAW + random.pick(raws),
    RAW + random.pick(raws),
    { [random.pick(names)]: random.pick(texts) },
    [random.pick(texts), random.pick(texts)],
  ]);
  if (!big) return leaf;
  if (random.chance(0.02)) return nested(random, random.pick([10, 200, 5000, 20_000]), leaf);
  if (random.chance(0.01)) return 'y'.repeat(random.pick([10_000, 300_000]));
  if (random.chance(0.02)) return Array.from({ length: random.pick([100, 3000]) }, () => leaf);
  return leaf;
}

/** As text, because stringify would not survive it. */
function nested(random: Random, depth: number, leaf: Json): string {
  const [open, close] = random.pick([
    ['[', ']'],
    ['{"a":', '}'],
    ['{"properties":{"a":', '}}'],
    ['[{"items":', '}]'],
  ] as const);
  return `${RAW}${open.repeat(depth)}${typeof leaf === 'string' ? '1' : JSON.stringify(leaf)}${close.repeat(depth)}`;
}

function put(tree: Tree, name: string | number, value: Json): void {
  // `__proto__` has to be an ordinary member.
  Object.defineProperty(tree, name, { value, writable: true, enumerable: true, configurable: true });
}

/** All objects and lists. */
function branches(tree: Json, into: Tree[] = []): Tree[] {
  if (typeof tree !== 'object' || tree === null) return into;
  into.push(tree as Tree);
  for (const value of Object.values(tree)) branches(value, into);
  return into;
}

/** A copy with some changes. */
export function mutate(random: Random, object: Json, changes: number): Json {
  let tree = structuredClone(object);
  for (let change = 0; change < changes; change++) {
    const all = branches(tree);
    const branch = all[random.below(all.length)];
    if (branch === undefined || random.chance(0.005)) {
      tree = hostile(random, change === 0);
      continue;
    }
    const keys = Object.keys(branch);
    const key = keys[random.below(keys.length)];
    const kind = random.below(7);
    if (key === undefined || kind === 0) {
      if (Array.isArray(branch)) branch.push(hostile(random, change === 0));
      else put(branch, random.pick(names), hostile(random, change === 0));
    } else if (kind === 1) {
      if (Array.isArray(branch)) branch.splice(Number(key), 1);
      else delete branch[key];
    } else if (kind === 2 && Array.isArray(branch)) {
      branch.push(structuredClone(branch[Number(key)] as Json));
    } else if (kind === 3) {
      // Something that is right elsewhere.
      put(branch, key, structuredClone(random.pick(all) as Json));
    } else if (kind === 4 && typeof (branch as { [name: string]: Json })[key] === 'string') {
      put(branch, key, random.pick(texts));
    } else put(branch, key, hostile(random, change === 0));
  }
  return tree;
}

/** How many changes: often none, seldom many. */
export const mixed = (random: Random): number => random.pick([0, 0, 0, 0, 0, 1, 1, 1, 2, 3, 8]);

/** The text, with what JSON.stringify would not write. */
export function textOf(tree: Json): string {
  return JSON.stringify(tree).replaceAll(
    /"@raw:((?:[^"\\]|\\.)*)"/g,
    (_all, inner: string) => JSON.parse(`"${inner}"`) as string,
  );
}

/** Places of the objects in the tree, as JSON pointers. */
export function pointers(tree: Json, prefix = ''): string[] {
  if (typeof tree !== 'object' || tree === null) return [prefix];
  const inner = Object.entries(tree).flatMap(([name, value]) =>
    pointers(value, `${prefix}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`),
  );
  return [prefix, ...inner];
}

/** Bytes cut, repeated, put in or changed. */
export function damage(random: Random, bytes: Buffer): Buffer {
  const at = random.below(bytes.length + 1);
  const piece = bytes.subarray(at, at + random.below(12));
  const rest = bytes.subarray(at + piece.length);
  const extra = random.pick([
    '\0',
    '{',
    '}',
    '"',
    '\\',
    '[',
    ',',
    ':',
    '\u00ff',
    '\r\n',
    '#',
    '&a ',
    '*a',
    '---\n',
    '\t',
    '!!x ',
  ]);
  const middle = random.pick([
    [],
    [piece, piece],
    [Buffer.from(extra, 'latin1'), piece],
    [piece.map((byte) => byte ^ (1 << random.below(8)))],
    [Buffer.from('\ufeff'), piece],
  ]);
  return Buffer.concat([bytes.subarray(0, at), ...middle, rest]);
}

const yamlPrefixes = [
  '',
  '--- \n',
  '%YAML 1.1\n---\n',
  '# x\n',
  'a: &a [x, x]\nb: &b [*a, *a, *a]\nc: &c [*b, *b, *b]\n',
  '<<: {kind: Pod}\n',
  '? [a, b]\n: c\n',
  'x: !!binary aGk=\n',
  'x: !!js/function "x"\n',
  'x: 0o17\ny: 0x1F\nz: 1_000\nw: .inf\nv: .nan\n',
  'when: 2025-01-02\n',
];

/** YAML of it, now and then with what only YAML has. */
export function yamlOf(random: Random, tree: Json): string {
  const text = textOf(tree);
  if (random.chance(0.3)) return text;
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
    const written = stringify(parsed, {
      lineWidth: random.pick([0, 80]),
      aliasDuplicateObjects: random.chance(0.5),
    });
    const more = random.chance(0.3) ? random.pick(['---\na: b\n', '...\n', ' x\n', 'kind: Pod\n']) : '';
    return (random.chance(0.3) ? random.pick(yamlPrefixes) : '') + written + more;
  } catch {
    return text;
  }
}
