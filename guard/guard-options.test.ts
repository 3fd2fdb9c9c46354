import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Command } from 'commander';

import { networkPolicyOptions } from '../guards/network-policy/options.ts';
import { defineGuard } from './guard.ts';
import { optionOf, parsedOptions } from './guard-options.ts';
import { text, texts } from './option-values.ts';

test('an option that is repeated checks each of its values', () => {
  const podCidr = networkPolicyOptions.find(({ flags }) => flags.startsWith('--pod-cidr'));
  assert.ok(podCidr);
  const parsed = (...values: readonly string[]): unknown =>
    new Command()
      .exitOverride()
      .configureOutput({ writeErr: () => undefined })
      .addOption(optionOf(podCidr))
      .parse(
        values.flatMap((value) => ['--pod-cidr', value]),
        { from: 'user' },
      )
      .opts()['podCidr'];
  assert.deepEqual(parsed('10.1.0.0/24', 'fd00:1::/64'), ['10.1.0.0/24', 'fd00:1::/64']);
  assert.deepEqual(parsed(), []);
  assert.throws(
    () => parsed('fd00:1::/64', '10.1.0.1/24'),
    /It has bits set beyond its prefix; the block is 10\.1\.0\.0\/24/,
  );
});

test('options that the command does not have are parsed with their defaults', () => {
  const guard = defineGuard({
    ...{ name: 'doors', summary: '', resources: [], rights: {} },
    options: [
      { flags: '--door-interval <time>', description: '', on: ['agent'], default: '1m' },
      { flags: '--door-name <name>', description: '', on: ['agent'], repeatable: true },
    ],
    parse: (values) => ({ every: text(values, 'doorInterval'), names: texts(values, 'doorName') }),
  });
  assert.deepEqual(parsedOptions(guard, {}), { every: '1m', names: [] });
  assert.deepEqual(parsedOptions(guard, { doorInterval: '2m', doorName: ['front'] }), {
    every: '2m',
    names: ['front'],
  });
});
