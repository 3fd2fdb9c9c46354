import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { optionOf, parsedOptions } from '../../../guard/guard-options.ts';
import { fileAccess } from '../guard.ts';
import { type FileAccessOptions, fileAccessOptions } from '../options.ts';
import { Command } from 'commander';

/** As the processes read their command line. */
function scopeOf(...args: readonly string[]): FileAccessOptions['policyScope'] {
  const command = new Command().exitOverride();
  for (const option of fileAccessOptions) command.addOption(optionOf(option));
  const values = command.parse(args, { from: 'user' }).opts();
  return (parsedOptions(fileAccess, values) as FileAccessOptions).policyScope;
}

suite('--kive-policy-namespaces', () => {
  const flag = '--kive-policy-namespaces';
  for (const [args, wide, confined] of [
    [[], ['kivebpf-system', 'rampart-system'], ['default', 'kube-system', '']],
    [
      [flag, 'monitoring'],
      ['monitoring', 'kivebpf-system'],
      ['default', 'monitoring-2'],
    ],
    [[flag, 'a, b', flag, 'c'], ['a', 'b', 'c'], ['default']],
    [[flag, '*'], ['default', 'kivebpf-system'], []],
  ] as const) {
    test(args.join(' ') || 'not given', () => {
      const scope = scopeOf(...args);
      for (const namespace of wide) assert.ok(scope.allows(namespace, 'other'), namespace);
      for (const namespace of confined) {
        assert.ok(!scope.allows(namespace, 'other'), namespace);
        assert.ok(scope.allows(namespace, namespace), namespace);
      }
    });
  }

  test('refuses invalid names of namespaces', () => {
    for (const text of ['Monitoring', 'team-*', 'a/b', '-a', 'a'.repeat(64)]) {
      assert.throws(() => scopeOf(flag, text), {
        code: 'RAMPART_INPUT',
        message: /not the name of a namespace/,
      });
    }
  });

  test('processes that match pods or report matches have the option', () => {
    const option = fileAccessOptions.find(({ flags }) => flags.startsWith(flag));
    assert.deepEqual(option?.on, ['agent', 'operator', 'standalone']);
  });
});
