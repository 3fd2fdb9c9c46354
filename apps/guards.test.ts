import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Command } from 'commander';

import type { GuardCommand } from '../guard/guard.ts';
import { addGuardOptions, parsedOptions } from '../guard/guard-options.ts';
import { createMetrics } from '../lib/telemetry/metrics.ts';
import { sparedGroups } from '../guards/policy-audit/policies/spared.ts';
import { guards } from './guards.ts';

suite('options of the guards', () => {
  for (const command of ['agent', 'operator', 'standalone'] satisfies GuardCommand[]) {
    test(`every guard takes what ${command} gives when no flag is set`, () => {
      const values = addGuardOptions(new Command(), command, guards).parse([], { from: 'user' }).opts();
      // The operator has no flags of the agent's parts, and the other way round.
      for (const guard of guards) assert.ok(parsedOptions(guard, values), guard.name);
    });
  }
});

suite('metrics of the guards', () => {
  for (const guard of guards) {
    test(`those of ${guard.name} read as nothing before there is anything to read`, async () => {
      const { node, cluster } = (await guard.metrics?.()) ?? {};
      for (const register of [node, cluster]) {
        if (register === undefined) continue;
        const metrics = await createMetrics();
        register(metrics);
        const text = metrics.registry.metrics();
        assert.match(text, /^# TYPE /m);
        assert.doesNotMatch(text, /^[^#].* (?!0$)\S+$/m);
      }
    });
  }
});

test('no wildcard of an admission policy matches objects of a guard', () => {
  const groups = new Set(guards.flatMap(({ resources }) => resources.map(({ group }) => group)));
  assert.deepEqual(
    [...groups].filter((group) => !sparedGroups.has(group)),
    [],
  );
});
