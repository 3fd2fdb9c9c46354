import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { Command } from 'commander';

import type { GuardCommand } from '../guard/guard.ts';
import { addGuardOptions, parsedOptions } from '../guard/guard-options.ts';
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
