import assert from 'node:assert/strict';
import { test } from 'node:test';

import { errorCodes, RampartError } from '../../../lib/errors/errors.ts';
import { ExchangeError } from '../../../lib/oci/exchange.ts';
import { until } from '../../../lib/testing/until.fixture.ts';
import { admissionPolicyType, clusterAdmissionPolicyType } from '../api.ts';
import { clusterPolicy, ScanCluster } from '../scanner/scan.fixture.ts';
import { policyActive } from './policy-status.ts';

test('the services of a host that a namespaced policy names are not in its condition', async () => {
  await using cluster = await ScanCluster.start();
  const cause = new ExchangeError(new Error('connect ECONNREFUSED 10.0.0.7:5432'), '10.0.0.7:5432');
  const error = new RampartError(errorCodes.API_UNREACHABLE, { what: cause.message, cause });
  await cluster.startScanner({ modules: { fetch: () => Promise.reject(error) } });
  await cluster.createNamespace('shop');
  const more = { module: 'registry://10.0.0.7:5432/a:v1', settings: {} };
  const policy = clusterPolicy('far', { more });
  await cluster.client.create(clusterAdmissionPolicyType, policy);
  await cluster.client.create(admissionPolicyType, {
    ...policy,
    kind: 'AdmissionPolicy',
    metadata: { name: 'far', namespace: 'shop' },
  });
  const { client } = cluster;
  const reason = (ask: () => Promise<typeof policy>): Promise<string> =>
    until(async () => {
      const conditions = (await ask()).status?.conditions ?? [];
      return conditions.find(({ type }) => type === policyActive)?.message;
    });
  const ofCluster = await reason(() => client.get(clusterAdmissionPolicyType, { name: 'far' }));
  assert.match(ofCluster, /ECONNREFUSED/);
  const ofTenant = await reason(() => client.get(admissionPolicyType, { name: 'far', namespace: 'shop' }));
  assert.match(
    ofTenant,
    /^registry:\/\/10\.0\.0\.7:5432\/a:v1: cannot fetch from 10\.0\.0\.7:5432: there is no connection to it, or/,
  );
  assert.doesNotMatch(ofTenant, /ECONNREFUSED/);
});
