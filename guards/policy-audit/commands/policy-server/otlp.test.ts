// A write that is rejected, at a receiver of OTLP, from a policy server of its own process.
import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { test } from 'node:test';

import { RampartProcess } from '../../../../apps/apiserver/rampart-process.fixture.ts';
import { assertHas } from '../../../../guard/stream/ocsf.fixture.ts';
import { OtlpReceiver } from '../../../../lib/otlp/receiver.fixture.ts';
import { TemporaryDirectory } from '../../../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../../../lib/testing/until.fixture.ts';
import { modulePath, review } from '../../server/policy-server.fixture.ts';

test('a policy server sends what it rejects', async () => {
  using directory = new TemporaryDirectory();
  await using receiver = await OtlpReceiver.start();
  const policies = directory.at('policies.yml');
  writeFileSync(
    policies,
    JSON.stringify({
      'clusterwide-teams': { module: modulePath('labels.wapc'), settings: { required: ['team'] } },
    }),
  );
  await using server = new RampartProcess(
    [
      ...['policy-server', '--policies', policies, '--policies-download-dir', directory.path],
      ...['--addr', '127.0.0.1', '--port', '0', '--readiness-probe-port', '0', '--log-fmt', 'json'],
      ...['--ignore-kubernetes-connection-failure', '--kubeconfig', directory.at('none')],
      ...['--otlp-queue', directory.at('queue')],
    ],
    { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.origin },
  );
  await until('the policy server is ready', () => server.stderr.includes('ready: serving '));
  const port = /"address":\{[^}]*"port":(\d+)/.exec(server.stderr)?.[1];
  const answer = await fetch(`http://127.0.0.1:${port}/validate/clusterwide-teams`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify(review()),
  });
  assert.equal(answer.status, 200);
  await until('it arrives', () => receiver.taken.length === 1);
  const [{ resource, records } = assert.fail()] = receiver.received;
  assert.equal(resource['service.name'], 'rampart');
  assertHas(records[0]?.values ?? {}, {
    ...{ class_uid: 6003, activity_name: 'Create', action: 'Denied', 'rampart.verdict': 'rejected' },
    resources: [{ type: 'Pod', namespace: 'shop', name: 'web' }],
  });
});
