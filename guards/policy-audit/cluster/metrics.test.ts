import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import type { AnyKubewardenPolicy } from '../api.ts';
import { podNamed, requestFor } from '../engine/requests.fixture.ts';
import type { Evaluation, Judgement } from '../policies/open-policy.ts';
import { readKubewardenPolicy } from '../policies/read-policy.ts';
import { PolicyMetrics } from './metrics.ts';

const root = {
  apiVersion: 'policies.kubewarden.io/v1',
  kind: 'ClusterAdmissionPolicy',
  metadata: { name: 'root' },
  spec: {
    module: 'registry://registry.example/policies/denied:v1',
    policyServer: 'default',
    mode: 'protect',
    mutating: false,
    rules: [{ apiGroups: [''], apiVersions: ['v1'], resources: ['pods'], operations: ['CREATE'] }],
  },
  status: { policyStatus: 'active' },
} as unknown as AnyKubewardenPolicy;

function evaluation(judgement: Omit<Judgement, 'asked'>): Evaluation {
  const request = requestFor(podNamed('web'));
  return {
    policy: readKubewardenPolicy(root),
    request,
    judgement: { ...judgement, asked: [] } as Judgement,
    latencyMs: 3,
  };
}

test("evaluations of audits and for writes are counted under Kubewarden's names", async () => {
  const { registry, ...metrics } = await createMetrics();
  const counts = new PolicyMetrics();
  counts.register(metrics);
  const refused = evaluation({ type: 'verdict', verdict: { allowed: false } } as Judgement);
  counts.audited(refused, undefined);
  counts.audited(evaluation({ type: 'skipped' }), undefined);
  counts.evaluated(evaluation({ type: 'error', error: new Error('it spins') } as never), 'validate');
  const series = registry.metrics().match(/^kubewarden_policy_evaluations_total\{.*$/gm);
  const common = 'policy_name="clusterwide-root",policy_mode="protect"';
  const object = 'resource_namespace="shop",resource_kind="Pod",resource_request_operation="CREATE"';
  assert.deepEqual(series, [
    `kubewarden_policy_evaluations_total{${common},request_origin="audit",accepted="false",mutated="false",${object}} 1`,
    `kubewarden_policy_evaluations_total{${common},request_origin="validate",accepted="false",mutated="false",${object},error_code="500"} 1`,
  ]);
  assert.match(
    registry.metrics(),
    /^kubewarden_policy_evaluation_latency_milliseconds_sum\{.*request_origin="audit".*\} 3$/m,
  );
});

test('metrics that only the leader knows are served by it alone', async () => {
  const { registry, ...metrics } = await createMetrics();
  const counts = new PolicyMetrics();
  counts.register(metrics);
  const gauges = (): readonly string[] =>
    registry
      .metrics()
      .match(
        /^(rampart_policy_(policies|objects|(last_)?audit_(pass|interval)|server).*|kubewarden_policy_total.*)$/gm,
      ) ?? [];
  assert.deepEqual(gauges(), []);
  {
    using _leading = counts.lead({
      policies: () => 1,
      kubewarden: () => [root],
      intervalMs: 3_600_000,
      pass: () => ({ endedMs: 1_700_000_000_500, seconds: 2 }) as never,
      scan: () => ({ objects: 7, failing: 2, errored: 1, writes: 0, deletions: 0, missed: 0 }),
    });
    using _serving = counts.serve(() => [['default', 0]]);
    assert.deepEqual(gauges(), [
      'rampart_policy_policies 1',
      'rampart_policy_objects{result="pass"} 4',
      'rampart_policy_objects{result="fail"} 2',
      'rampart_policy_objects{result="error"} 1',
      'rampart_policy_audit_pass_seconds 2',
      'rampart_policy_last_audit_pass_timestamp_seconds 1700000000.5',
      'rampart_policy_audit_interval_seconds 3600',
      'rampart_policy_server_ready_pods{policy_server="default"} 0',
      'kubewarden_policy_total{name="clusterwide-root",policy_server="default",module="registry://registry.example/policies/denied:v1",mutating="false",namespace="",failure_policy="",policy_status="active"} 1',
    ]);
  }
  assert.deepEqual(gauges(), []);
});
