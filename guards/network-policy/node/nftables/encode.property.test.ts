import assert from 'node:assert/strict';
import { execFileSync } from 'node:child_process';
import { suite, test } from 'node:test';

import { Nftables } from './nftables.ts';
import { errorCodes } from '../../../../lib/errors/errors.ts';
import * as fc from '../../../../lib/testing/fast-check.fixture.ts';
import { NetworkNamespace, namespaceObstacle } from '../../../../test/network-policy/namespaces.fixture.ts';
import { PolicyEngine } from '../../engine/engine.ts';
import { change, clusterOf } from '../../random-cluster.fixture.ts';
import { commandText } from './command-text.ts';
import { tableName } from './names.ts';
import {
  type Command,
  commandsAnew,
  commandsBetween,
  type ElementSet,
  objectsOf,
  type TableObjects,
} from './objects.ts';
import { RefusedCommands, TableProgram } from './program.ts';
import { wholeTable } from './whole-table.fixture.ts';

const manyBlocks = {
  kind: 'set',
  name: 'blocks',
  type: 'ipv4_addr',
  interval: true,
} as const;
const blockSets = [
  ['0.0.0.0/1', '128.0.0.1-128.0.0.9', '255.0.0.0/8'],
  ['10.0.0.0/8', '128.0.0.1-128.0.0.7', '192.0.2.1'],
  ['0.0.0.0/0'],
  [],
].map((keys): ElementSet => ({ ...manyBlocks, elements: new Map(keys.map((key) => [key, ''])) }));
const blocks6 = ['::/1', 'fd00::1-fd00::9', 'ffff::/16'];
const wide: ElementSet = {
  ...manyBlocks,
  name: 'blocks6',
  type: 'ipv6_addr',
  elements: new Map(blocks6.map((key) => [key, ''])),
};
const rules = {
  kind: 'chain',
  name: 'some',
  comment: 'a/b[0] c',
  rules: [
    'ip saddr 0.0.0.0/0 accept',
    'ip saddr 10.0.0.0/9 tcp dport 1-2 accept comment "x"',
    'ip daddr 10.32.0.0/16 udp dport 65535 drop',
    'ip6 daddr fd00::/61 sctp dport 0 accept',
    'ip6 saddr fd00::/64 meta l4proto 132 accept',
    'ip6 saddr fd00::1-fd00::2 return',
    'ip6 saddr ::ffff:10.0.0.0/120 accept',
    'ip6 saddr ::/0 accept',
    'fib daddr type != local accept',
    'jump other comment "y"',
  ],
} as const;
const other = { kind: 'chain', name: 'other', rules: [] } as const;

/** What nft says of the table, and the expressions of its rules as the kernel has them. */
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
      before = after;
    }
  }

  test('do what libnftables does with the same words, change by change of random clusters', () => {
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
      { numRuns: 200 },
    );
  });

  test('do it with sets of ranges and with each kind of match', () => {
    run(blockSets.map((set) => objectsOf([set, rules, other])));
    run([objectsOf([wide]), objectsOf([]), objectsOf([wide, other])]);
  });

  test('that are many, go in one transaction', () => {
    const elements = new Map(Array.from({ length: 5000 }, (_, at) => [`10.1.${at >> 8}.${at & 255}`, '']));
    const chains = Array.from({ length: 500 }, (_, at) => ({ ...rules, name: `chain-${at}` }));
    run([objectsOf([{ ...manyBlocks, interval: false, elements }, other, ...chains]), objectsOf([other])]);
  });
});

suite('commands that the kernel refuses', { skip: namespaceObstacle() ?? false }, () => {
  const set = {
    kind: 'set',
    name: 'some',
    type: 'ipv4_addr',
    interval: false,
    elements: new Map([['10.0.0.1', '']]),
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

  test('are told each, and nothing of the batch holds', () => {
    const good = { do: 'add', object: second } as const;
    assert.deepEqual(
      refused([
        good,
        { do: 'add rule', chain: 'nobody', rule: 'accept' },
        { do: 'add rule', chain: 'second', rule: 'accept' },
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
        { do: 'add rule', chain: 'second', rule: 'jump other' },
        { do: 'delete', object: first },
      ]),
      [`delete chain ${tableName} other: resource busy or locked (EBUSY)`],
    );
    // Ranges that overlap.
    const ranges = {
      ...manyBlocks,
      elements: new Map([
        ['10.0.0.0/24', ''],
        ['10.0.0.128-10.0.1.9', ''],
      ]),
    };
    const [overlap = ''] = refused([
      good,
      { do: 'add', object: ranges },
      { do: 'add element', set: ranges, keys: [...ranges.elements.keys()] },
    ]);
    assert.match(overlap, /^add element .*: .*\((?:ENOTEMPTY|EEXIST)\)$/);
  });

  test('and those that have no words are not sent at all', () => {
    for (const rule of [
      'l2tp dport 80 accept',
      'ip saddr 10.0.0.9-10.0.0.1 accept',
      'tcp dport 65536 accept',
      'goto',
    ]) {
      assert.match(
        refused([
          { do: 'add', object: second },
          { do: 'add rule', chain: 'second', rule },
        ]).join(),
        /cannot express a rule/,
      );
    }
  });
});
