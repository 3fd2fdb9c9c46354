import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { Nftables } from './nftables.ts';
import { errorCodes } from '../../../../lib/errors/errors.ts';
import { isDeep } from '../../../../lib/testing/depth.fixture.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { change, clusterOf } from '../../random-cluster.fixture.ts';
import type { AddressRange, Family } from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import { commandText, RefusedCommands, TableProgram } from './program.ts';
import { tableName } from './names.ts';
import type { ElementSet } from './nft-sets.ts';
import {
  type Chain,
  type Command,
  commandsAnew,
  commandsBetween,
  objectsOf,
  type TableObjects,
} from './objects.ts';
import { accept, rule, type Statement, type Transport } from './rule.ts';
import { baseText, pairText, parseRule, ruleText } from './rule-text.ts';
import { readTable } from './table.ts';
import { wholeTable } from './whole-table.fixture.ts';

const manyBlocks = {
  kind: 'set',
  holds: 'ranges',
  name: 'blocks',
  family: 4,
} as const;
const blockSets = [
  ['0.0.0.0-127.255.255.255', '128.0.0.1-128.0.0.9', '255.0.0.0-255.255.255.255'],
  ['10.0.0.0-10.255.255.255', '128.0.0.1-128.0.0.7', '192.0.2.1'],
  ['0.0.0.0-255.255.255.255'],
  [],
].map((ranges): ElementSet => ({ ...manyBlocks, elements: rangesOf(4, ranges) }));
const wide: ElementSet = {
  ...{ kind: 'set', holds: 'ranges', name: 'blocks6', family: 6 },
  elements: rangesOf(6, [
    '::-7fff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
    'fd00::1-fd00::9',
    'ffff::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff',
  ]),
};
const pairs = ([4, 6] as const).map((family): ElementSet => {
  const [first, second] = { 4: ['10.0.0.1', '10.0.0.2'] as const, 6: ['fd00::1', 'fd00::2'] as const }[
    family
  ];
  const list = [
    { first, second: first },
    { first, second },
  ];
  return {
    ...{ kind: 'set', holds: 'pairs', name: `pairs${family}`, family },
    elements: new Map(list.map((pair) => [pairText(pair), pair])),
  };
});
const source = (family: Family, range: string): Statement => ({
  ...{ kind: 'address', family, side: 'saddr', range: rangeOf(range) },
});
const destination = (family: Family, range: string): Statement => ({
  ...{ kind: 'address', family, side: 'daddr', range: rangeOf(range) },
});
const port = (protocol: Transport, first: number, last = first): Statement => ({
  ...{ kind: 'destination port', protocol, first, last },
});
const rules: Chain = {
  kind: 'chain',
  name: 'some',
  comment: 'a/b[0] c',
  rules: [
    rule(source(4, '0.0.0.0-255.255.255.255'), accept),
    { ...rule(source(4, '10.0.0.0-10.127.255.255'), port('tcp', 1, 2), accept), comment: 'x' },
    rule(destination(4, '10.32.0.0-10.32.255.255'), port('udp', 65_535), { kind: 'drop' }),
    rule(destination(6, 'fd00::-fd00::7:ffff:ffff:ffff:ffff'), port('sctp', 0), accept),
    rule(source(6, 'fd00::-fd00::ffff:ffff:ffff:ffff'), { kind: 'protocol', protocol: 132 }, accept),
    rule(source(6, 'fd00::1-fd00::2'), { kind: 'return' }),
    rule(source(6, '::ffff:10.0.0.0-::ffff:a00:ff'), accept),
    rule(source(6, '::-ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'), accept),
    rule({ kind: 'hop limit', family: 6, hops: 0 }, source(6, 'fd00::1'), accept),
    rule({ kind: 'local address', side: 'daddr', is: false }, accept),
    rule({ kind: 'pair in set', family: 4, other: 'destination', set: 'pairs4' }, accept),
    rule({ kind: 'pair in set', family: 4, other: 'original source', set: 'pairs4' }, accept),
    rule({ kind: 'pair in set', family: 6, other: 'destination', set: 'pairs6' }, accept),
    rule({ kind: 'pair in set', family: 6, other: 'reply source', set: 'pairs6' }, accept),
    { ...rule({ kind: 'jump', chain: 'other' }), comment: 'y' },
  ],
};
const other = { kind: 'chain', name: 'other', rules: [] } as const;

function rangeOf(text: string): AddressRange {
  const [first = '', last = first] = text.split('-');
  return { first, last };
}

function rangesOf(family: Family, ranges: readonly string[]): Map<string, AddressRange> {
  return new Map(ranges.map((range) => [rangeText(family, rangeOf(range)), rangeOf(range)]));
}

/** Nft's listing of the table, and the kernel's expressions of its rules. */
function listing(namespace: NetworkNamespace): { readonly table: unknown; readonly expressions: string } {
  const nft = (...args: readonly string[]): string =>
    namespace.run(() =>
      execFileSync('nft', [...args, 'list', 'table', ...tableName.split(' ')], {
        encoding: 'utf8',
        maxBuffer: 2 ** 26,
      }),
    );
  const table = JSON.parse(nft('-j'), (key, value: unknown) => {
    if (key === 'handle') return undefined;
    if (key !== 'elem' || !Array.isArray(value)) return value;
    return value.map((one) => JSON.stringify(one)).sort();
  }) as unknown;
  const all = nft('--debug=netlink').split('\n');
  const expressions = all.filter((line) => /^ {2}\[|^inet |^ {2}userdata/.test(line)).join('\n');
  // The kernel numbers rules: those of a transaction that was taken apart by libnftables as well.
  return { table, expressions: expressions.replaceAll(/^(inet \S+ \S+) .*$/gm, '$1') };
}

/** As data, where nft lists it as text. */
function readBack(nft: Nftables): TableObjects {
  return objectsOf(
    [...readTable(nft)!.values()].map((object) =>
      object.kind === 'chain'
        ? { ...object, rules: object.rules.map((one) => parseRule(ruleText(one))) }
        : object,
    ),
  );
}

/** The words of a base chain, as nft lists it. */
function withBaseText(objects: TableObjects): TableObjects {
  return objectsOf(
    [...objects.values()].map((object) => {
      if (object.kind !== 'chain') return object;
      const { base, comment } = object;
      return { ...object, comment, base: base && { kind: 'listed', text: baseText(base) } };
    }),
  );
}

suite('commands as messages', { skip: namespaceObstacle() ?? false }, () => {
  /** Each step by messages and by libnftables, which have to come to the same. */
  function run(steps: readonly TableObjects[]): void {
    using ours = new NetworkNamespace();
    using theirs = new NetworkNamespace();
    using program = ours.run(() => new TableProgram());
    using nft = theirs.run(() => new Nftables());
    let before: TableObjects | undefined;
    for (const after of steps) {
      const commands: Command[] =
        before === undefined ? commandsAnew(after) : commandsBetween(before, after)!;
      program.run(commands);
      nft.run(commands.map(commandText).join('\n'));
      assert.deepEqual(listing(ours), listing(theirs));
      using reader = ours.run(() => new Nftables());
      assert.deepEqual(readBack(reader), withBaseText(after));
      before = after;
    }
  }

  test('do what libnftables does with the same text, and are read back as the same data, change by change of random clusters', () => {
    fc.assert(
      fc.property(
        fc.array(fc.array(change, { minLength: 1, maxLength: 6 }), {
          minLength: 2,
          maxLength: 5,
          size: 'max',
        }),
        (batches) => {
          run(
            batches.map((_, at) => {
              const { pods, policies, namespaces } = clusterOf(batches.slice(0, at + 1).flat());
              const engine = new PolicyEngine('one');
              for (const each of namespaces) engine.upsertNamespace(each);
              for (const each of pods) engine.upsertPod(each);
              for (const each of policies) engine.upsertPolicy(each);
              return wholeTable(engine.rules);
            }),
          );
        },
      ),
      // Each starts some thirty programs.
      { numRuns: isDeep ? 200 : 50, min: 5 },
    );
  });

  test('do it with sets of ranges and with each kind of match', () => {
    run(blockSets.map((set) => objectsOf([set, ...pairs, rules, other])));
    run([objectsOf([wide]), objectsOf([]), objectsOf([wide, other])]);
  });

  test('that are many, go in one transaction', () => {
    const addresses = Array.from(
      { length: 5000 },
      (_, at) => [`10.1.${at >> 8}.${at & 255}`, undefined] as const,
    );
    const many: ElementSet = { ...manyBlocks, holds: 'addresses', elements: new Map(addresses) };
    const chains = Array.from({ length: 500 }, (_, at) => ({ ...rules, name: `chain-${at}` }));
    run([objectsOf([many, ...pairs, other, ...chains]), objectsOf([other])]);
  });
});

suite('commands that the kernel refuses', { skip: namespaceObstacle() ?? false }, () => {
  const set = {
    kind: 'set',
    holds: 'addresses',
    name: 'some',
    family: 4,
    elements: new Map([['10.0.0.1', undefined]]),
  } as const;
  const [first, second] = [other, { ...other, name: 'second' }];

  function refused(commands: readonly Command[]): readonly string[] {
    using namespace = new NetworkNamespace();
    using program = namespace.run(() => new TableProgram());
    program.run(commandsAnew(objectsOf([set, first])));
    const before = listing(namespace);
    let found: readonly string[] = [];
    assert.throws(
      () => program.run(commands),
      (error) => {
        assert.ok(error instanceof RefusedCommands);
        assert.equal(error.code, errorCodes.SYSTEM);
        found = error.refused.map(({ command, why }) => `${commandText(command)}: ${why}`);
        assert.ok(error.message.includes(`nftables refused \`${commandText(error.refused[0]!.command)}\``));
        return true;
      },
    );
    assert.deepEqual(listing(namespace), before);
    program.run([{ do: 'add', object: second }]);
    return found;
  }

  test('are reported each, and nothing of the batch holds', () => {
    const good = { do: 'add', object: second } as const;
    assert.deepEqual(
      refused([
        good,
        { do: 'add rule', chain: 'nobody', rule: rule(accept) },
        { do: 'add rule', chain: 'second', rule: rule(accept) },
        { do: 'delete element', set: { ...set, elements: new Map() }, keys: ['10.0.0.9'] },
      ]),
      [
        `add rule ${tableName} nobody accept: no such file or directory (ENOENT)`,
        `delete element ${tableName} some { 10.0.0.9 }: no such file or directory (ENOENT)`,
      ],
    );
    assert.deepEqual(
      refused([
        good,
        { do: 'add rule', chain: 'second', rule: rule({ kind: 'jump', chain: 'other' }) },
        { do: 'delete', object: first },
      ]),
      [`delete chain ${tableName} other: resource busy or locked (EBUSY)`],
    );
    // Ranges that overlap.
    const ranges = {
      ...manyBlocks,
      elements: rangesOf(4, ['10.0.0.0-10.0.0.255', '10.0.0.128-10.0.1.9']),
    };
    const [overlap = ''] = refused([
      good,
      { do: 'add', object: ranges },
      { do: 'add element', set: ranges, keys: [...ranges.elements.keys()] },
    ]);
    assert.match(overlap, /^add element .*: .*\((?:ENOTEMPTY|EEXIST)\)$/);
  });

  test('and those that have no words are not sent at all', () => {
    for (const inexpressible of [
      rule({ kind: 'listed', text: 'l2tp dport 80' }, accept),
      rule(source(4, '10.0.0.9-10.0.0.1'), accept),
      rule(port('tcp', 65_536), accept),
      rule(port('udp', 2, 1), accept),
      rule(port('l2tp' as 'tcp', 80), accept),
    ]) {
      assert.match(
        refused([
          { do: 'add', object: second },
          { do: 'add rule', chain: 'second', rule: inexpressible },
        ]).join(),
        /cannot express a rule/,
      );
    }
  });
});
