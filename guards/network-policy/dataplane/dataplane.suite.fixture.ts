/** The requirements for every dataplane, as packets between pods: run by the test of each. */
import { after, before, suite } from 'node:test';

import { sampled } from '../../../lib/testing/depth.fixture.ts';
import { changeTests } from './dataplane-changes.suite.fixture.ts';
import { connectionTests } from './dataplane-connections.suite.fixture.ts';
import { DataplaneLab, type DataplaneUnderTest } from './dataplane-lab.fixture.ts';
import { monitorTests } from './dataplane-monitor.suite.fixture.ts';
import { policyTests } from './dataplane-policies.suite.fixture.ts';
import { reportTests } from './dataplane-reports.suite.fixture.ts';
import { serviceTests } from './dataplane-services.suite.fixture.ts';

export function dataplaneSuite(under: DataplaneUnderTest, skip: string | undefined): void {
  suite(`${under.name} dataplane`, { skip: skip ?? false }, () => {
    const lab = new DataplaneLab(under);
    before(() => lab.start());
    after(() => lab[Symbol.asyncDispose]());
    const parts = [policyTests, serviceTests, connectionTests, changeTests, reportTests, monitorTests];
    for (const part of sampled(parts, under.minParts ?? parts.length)) part(lab);
  });
}
