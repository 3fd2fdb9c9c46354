// The remains of an earlier process are sent by the next agent, and the next operator, to the receiver in the
// environment.
import assert from 'node:assert/strict';
import { suite, test } from 'node:test';

import { findingLine } from '../../guard/stream/finding.ts';
import { openQuick, OtlpReceiver } from '../../lib/otlp/receiver.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { RampartProcess } from '../apiserver/rampart-process.fixture.ts';

const line = findingLine(
  {
    ...{ guard: 'network-policy', kind: 'NetworkPolicyRefusal', severity: 'low', verdict: 'refused' },
    ...{ time: '2026-11-21T10:00:00Z', node: { name: 'n1' }, object: null, policy: null },
    message: 'A packet was refused.',
  },
  {
    protocol: 'TCP',
    direction: 'ingress',
    source: { address: '10.0.0.3' },
    destination: { address: '10.0.0.4' },
  },
);

suite('findings by OTLP in a cluster', () => {
  for (const [command, args, node] of [
    ['agent', ['--node-name', 'n1', '--guards', 'policy-audit'], 'n1'],
    ['operator', ['--guards', 'policy-audit'], undefined],
  ] as const) {
    test(command, async () => {
      using directory = new TemporaryDirectory();
      await using cluster = new RampartProcess([
        ...['apiserver', '--data', directory.at('api'), '--listen', '127.0.0.1:0'],
      ]);
      const kubeconfig = await cluster.ready;
      await using receiver = await OtlpReceiver.start();
      const nobody = new URL('http://127.0.0.1:9/v1/logs');
      {
        await using earlier = openQuick(directory.at('queue'), nobody);
        assert.ok(earlier.push(line));
      }
      await using running = new RampartProcess(
        [command, ...args, '--kubeconfig', kubeconfig, '--otlp-queue', directory.at('queue')],
        {
          OTEL_EXPORTER_OTLP_ENDPOINT: receiver.url.origin,
          OTEL_EXPORTER_OTLP_HEADERS: 'authorization=Bearer%20s3cret',
        },
      );
      await until('it arrives', () => receiver.taken.length === 1);
      const [{ resource, records, headers } = assert.fail()] = receiver.received;
      assert.equal(headers.authorization, 'Bearer s3cret');
      assert.equal(resource['service.name'], 'rampart');
      assert.equal(resource['k8s.node.name'], node);
      // From a guard that does not run now.
      assert.equal(records[0]?.values['class_name'], 'Network Activity');
      assert.equal(records[0].values['src_endpoint.ip'], '10.0.0.3');
      assert.doesNotMatch(running.stderr, /s3cret/);
    });
  }
});
