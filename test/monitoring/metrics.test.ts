import assert from 'node:assert/strict';
import { writeFileSync } from 'node:fs';
import { suite, test } from 'node:test';

import { RampartProcess } from '../../apps/apiserver/rampart-process.fixture.ts';
import { guards } from '../../apps/guards.ts';
import { installResources } from '../../apps/resources.ts';
import { Standalone } from '../../apps/standalone/standalone.fixture.ts';
import manifest from '../../package.json' with { type: 'json' };
import { review } from '../../guards/policy-audit/server/policy-server.fixture.ts';
import { KubeClient } from '../../lib/kube/client/client.ts';
import { findClusterAccess } from '../../lib/kube/access/cluster-access.ts';
import { sensorSkip, testMode } from '../../lib/sensor/sensor.fixture.ts';
import { TemporaryDirectory } from '../../lib/testing/temporary-directory.fixture.ts';
import { until } from '../../lib/testing/until.fixture.ts';
import { createMetrics } from '../../lib/telemetry/metrics.ts';
import { allMetrics } from '../../scripts/metric-list.ts';
import { complaints } from './promtool.fixture.ts';
import { deepTest } from '../../lib/testing/depth.fixture.ts';

interface Running {
  readonly stderr: string;
}

/** The output of a process once it has `ready`, or at once. */
async function scrape(running: Running, ready = /./, path = '/metrics'): Promise<string> {
  let text = '';
  await until('metrics', async () => {
    const url = /metrics on ([^\s"]+)\/metrics/.exec(running.stderr)?.[1];
    if (url === undefined) return false;
    text = await (await fetch(`${url}${path}`, { headers: { connection: 'close' } })).text();
    return ready.test(text);
  });
  return text;
}

/** @param known - What another product has named so, and Rampart only takes over. */
async function expectClean(text: string, known: readonly string[] = []): Promise<void> {
  assert.deepEqual(await complaints(text), known);
  assert.match(
    text,
    new RegExp(`^rampart_build_info\\{version="${manifest.version}",nodejs="[\\d.]+"\\} 1$`, 'm'),
  );
  assert.match(text, /^process_resident_memory_bytes \d+$/m);
}

/** In the log of a policy server. */
const address = /"host":"127\.0\.0\.1","port":(\d+)/;
/** OpenTelemetry's unit, in the name that Kubewarden gives it. */
const kubewardenLatency =
  'kubewarden_policy_evaluation_latency_milliseconds use base unit "seconds" instead of "milliseconds"';

suite('promtool check metrics reports no problem', { timeout: 300_000 }, () => {
  test('any metric that is registered, and it finds what is wrong', async () => {
    const wrong = '# HELP rampart_x_count x\n# TYPE rampart_x_count gauge\nrampart_x_count 1\n';
    assert.match((await complaints(wrong)).join('\n'), /rampart_x_count .*"_count" suffix/);
    // A metric without a sample is not checked in a scrape.
    const { registry } = await createMetrics();
    for (const { name, help, type, labelNames = [] } of (await allMetrics()).values()) {
      assert.match(name, /^(rampart|process|file_integrity_operator|kube_router|kubewarden)_/);
      const labels = Object.fromEntries(labelNames.map((label) => [label, 'x']));
      const suffixes = type === 'histogram' ? ['_bucket', '_sum', '_count'] : [''];
      registry.register({
        ...{ name, help, type, labelNames: [...labelNames, 'le'] },
        read: () =>
          suffixes.map((suffix) => ({
            ...{ suffix, value: 1 },
            labels: suffix === '_bucket' ? { ...labels, le: '+Inf' } : labels,
          })),
      });
    }
    assert.deepEqual(await complaints(registry.metrics()), [kubewardenLatency]);
  });

  test('an API server, its operator, and an agent', { skip: sensorSkip }, async () => {
    using directory = new TemporaryDirectory();
    await using server = await RampartProcess.apiServer(
      ...['--data', directory.at('data'), '--listen', '127.0.0.1:0', '--metrics', '127.0.0.1:0'],
    );
    const kubeconfig = await server.ready;
    using client = new KubeClient(findClusterAccess({ path: kubeconfig }));
    await installResources(client, guards, AbortSignal.timeout(60_000));
    await using operator = new RampartProcess(['operator', '--kubeconfig', kubeconfig, '--metrics', '0']);
    await using agent = new RampartProcess([
      ...['agent', '--node-name', 'n1', '--kubeconfig', kubeconfig, '--metrics', '0', '--mode', testMode()],
      ...['--cri-socket', directory.at('none.sock'), '--spool', directory.at('spool')],
      ...[
        '--alerts-socket',
        directory.at('alerts.sock'),
        '--guards',
        'file-access,file-integrity,bpf-programs',
      ],
    ]);
    await expectClean(await scrape(agent, /^rampart_reflector_lists_total\{.*kivepolicies.*\} 1$/m));
    await expectClean(await scrape(operator, /^rampart_reflector_lists_total\{.*\} [1-9]/m));
    // Where a ServiceMonitor of the File Integrity Operator looks.
    await scrape(operator, /^# TYPE file_integrity_operator_node_failed gauge$/m, '/metrics-fio');
    await expectClean(
      await scrape(server, /^rampart_apiserver_request_duration_seconds_count\{verb="list"\} [1-9]/m),
    );
  });

  deepTest('rampart standalone', { skip: sensorSkip }, async () => {
    await using standalone = new Standalone();
    await standalone.start(
      '--cri-socket',
      standalone.at('none.sock'),
      '--metrics',
      '127.0.0.1:0',
      '--guards',
      'file-access,file-integrity,policy-audit,bpf-programs',
    );
    await expectClean(
      await scrape(standalone, /^rampart_guard_running\{guard="policy-audit",part="cluster"\} 1$/m),
    );
  });

  test('a policy server', async () => {
    using directory = new TemporaryDirectory();
    writeFileSync(
      directory.at('policies.yml'),
      JSON.stringify({
        root: {
          module: 'registry://registry.example/policies/cel-policy:v1',
          settings: { validations: [{ expression: 'true' }] },
        },
      }),
    );
    await using server = new RampartProcess([
      ...['policy-server', '--policies', directory.at('policies.yml'), '--addr', '127.0.0.1', '--port', '0'],
      ...['--readiness-probe-port', '0', '--enable-metrics', '--metrics', '127.0.0.1:0'],
      ...['--ignore-kubernetes-connection-failure', '--policies-download-dir', directory.at('modules')],
    ]);
    await until('it listens', () => address.test(server.stderr));
    const answer = await fetch(`http://127.0.0.1:${address.exec(server.stderr)?.[1]}/validate/root`, {
      method: 'POST',
      body: JSON.stringify(review()),
    });
    assert.equal(answer.status, 200);
    await expectClean(await scrape(server), [kubewardenLatency]);
  });
});
