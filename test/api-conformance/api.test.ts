// The Kubernetes API as its documentation has it. One cluster serves all suites: each has namespaces of its own.
import { after, before, describe } from 'node:test';

import { Cluster } from './cluster.fixture.ts';
import { customCases } from './custom.suite.fixture.ts';
import { deletionCases } from './deletion.suite.fixture.ts';
import { errorCases } from './errors.suite.fixture.ts';
import { kubectlCases } from './kubectl.suite.fixture.ts';
import { listCases } from './lists.suite.fixture.ts';
import { objectCases } from './objects.suite.fixture.ts';
import { patchCases } from './patches.suite.fixture.ts';
import { watchCases } from './watches.suite.fixture.ts';

describe('the API', () => {
  let cluster: Cluster | undefined;
  const opened = (): Cluster => {
    if (cluster === undefined) throw new Error('there is no cluster');
    return cluster;
  };
  before(async () => void (cluster = await Cluster.open()));
  after(async () => await cluster?.[Symbol.asyncDispose]());

  for (const cases of [
    ...[customCases, deletionCases, errorCases, kubectlCases],
    ...[listCases, objectCases, patchCases, watchCases],
  ]) {
    cases(opened);
  }
});
