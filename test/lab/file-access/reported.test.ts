// The alerts for files in containers. One lab serves all of these suites: starting it takes longer than most
// of them.
import { after, before, suite } from 'node:test';

import { sensorSkip } from '../../../lib/sensor/sensor.fixture.ts';
import { GuardedLab } from '../guarded-lab.fixture.ts';
import { labObstacle } from '../obstacle.ts';
import { directoryCases } from './directories.suite.fixture.ts';
import { escapeCases } from './escapes.suite.fixture.ts';
import { expectationCases } from './expectations.suite.fixture.ts';
import { firstMomentCases } from './first-moments.suite.fixture.ts';
import { identityCases } from './identity.suite.fixture.ts';
import { maskCases } from './masks.suite.fixture.ts';
import { matchingCases } from './matching.suite.fixture.ts';
import { movingFileCases } from './moving-files.suite.fixture.ts';
import { policyEditCases } from './policy-edits.suite.fixture.ts';

suite('one machine with pods', { skip: sensorSkip || labObstacle() }, () => {
  let guarded: GuardedLab | undefined;
  const lab = (): GuardedLab => {
    if (guarded === undefined) throw new Error('the lab did not start');
    return guarded;
  };
  before(async () => void (guarded = await GuardedLab.start('--allow-callback', '127.0.0.1')));
  after(async () => await guarded?.[Symbol.asyncDispose]());

  // First, since some of its traps are for the containers of all pods.
  matchingCases(lab);
  identityCases(lab);
  firstMomentCases(lab);
  maskCases(lab);
  policyEditCases(lab);
  movingFileCases(lab);
  directoryCases(lab);
  expectationCases(lab);
  escapeCases(lab);
});
