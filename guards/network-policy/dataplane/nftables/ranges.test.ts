import assert from 'node:assert/strict';
import { test } from 'node:test';

import type { PortRange } from '../../engine/rules.ts';
import { rangeText } from './addresses.ts';
import { podName, commentText } from './names.ts';
import { portMatches } from './policies.ts';
import { ruleText } from './rule-text.ts';

test('a range that is a block is shown as its prefix, another one by its ends', () => {
  const texts = (
    [
      [4, '10.0.0.1', '10.0.0.1'],
      [4, '10.0.0.0', '10.0.0.255'],
      [4, '10.0.0.2', '10.0.0.3'],
      [4, '10.0.0.1', '10.0.0.2'],
      [4, '10.0.0.1', '10.0.0.4'],
      [4, '0.0.0.0', '255.255.255.255'],
      [6, 'fd00::', 'fd00::ffff'],
      [6, 'fd00::1', 'fd00::ffff'],
      [6, '::', 'ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff'],
      [6, '::ffff:10.0.0.0', '::ffff:10.0.0.255'],
      [6, '1:2:3:4:5:6:7:8', '1:2:3:4:5:6:7:9'],
    ] as const
  ).map(([family, first, last]) => rangeText(family, { first, last }));
  assert.deepEqual(texts, [
    '10.0.0.1',
    '10.0.0.0/24',
    '10.0.0.2/31',
    '10.0.0.1-10.0.0.2',
    '10.0.0.1-10.0.0.4',
    '0.0.0.0/0',
    'fd00::/112',
    'fd00::1-fd00::ffff',
    '::/0',
    '::ffff:10.0.0.0/120',
    '1:2:3:4:5:6:7:8/127',
  ]);
});

const textsOf = (ports: readonly PortRange[]): string[] =>
  portMatches(ports).map((statements) => ruleText({ statements }));

test('ports that overlap or touch are one match, by protocol', () => {
  assert.deepEqual(portMatches('any'), [[]]);
  assert.deepEqual(portMatches([]), []);
  assert.deepEqual(
    textsOf([
      { protocol: 'UDP', first: 53, last: 53 },
      { protocol: 'TCP', first: 90, last: 99 },
      { protocol: 'TCP', first: 80, last: 95 },
      { protocol: 'TCP', first: 100, last: 100 },
      { protocol: 'TCP', first: 443, last: 443 },
      { protocol: 'SCTP', first: 0, last: 65_535 },
    ]),
    ['meta l4proto 132', 'tcp dport 80-100', 'tcp dport 443', 'udp dport 53'],
  );
});

test('names distinguish namespaces, and are short enough for the kernel', () => {
  assert.notEqual(podName('ingress', 'a/bc'), podName('ingress', 'ab/c'));
  assert.notEqual(podName('ingress', 'a/b'), podName('egress', 'a/b'));
  assert.ok(podName('egress', `${'n'.repeat(63)}/${'p'.repeat(253)}`).length < 40);
  assert.ok(commentText(`${'n'.repeat(63)}/${'p'.repeat(253)}`).length < 128);
  assert.equal(commentText('a/b"; drop'), 'a/b?? drop');
});
