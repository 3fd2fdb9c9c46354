import assert from 'node:assert/strict';
import { test } from 'node:test';

import { createMetrics } from '../../../lib/telemetry/metrics.ts';
import { NodeCounts, registerNodeMetrics } from './metrics.ts';

test('packets that were refused, and those that would be, are metrics of their own', async () => {
  const metrics = await createMetrics();
  const counts = new NodeCounts();
  registerNodeMetrics(metrics, counts);
  counts.refused = [
    { pod: 'shop/db', direction: 'ingress', verdict: 'refused', packets: 2, bytes: 120 },
    { pod: 'shop/web', direction: 'egress', verdict: 'would-refuse', packets: 3, bytes: 180 },
    { pod: undefined, direction: 'ingress', verdict: 'would-refuse', packets: 4, bytes: 240 },
  ];
  counts.refusedByPolicy = [
    { policy: 'shop/out', direction: 'egress', verdict: 'would-refuse', packets: 3, bytes: 180 },
    { policy: 'shop/in', direction: 'ingress', verdict: 'refused', packets: 2, bytes: 120 },
  ];
  counts.forgedSources = [
    { pod: 'shop/db', verdict: 'refused', packets: 5 },
    { pod: 'shop/web', verdict: 'would-refuse', packets: 6 },
  ];
  const text = metrics.registry.metrics();
  const series = text
    .split('\n')
    .filter((line) => /^rampart_\w+_(?:bytes|packets|sources)_total\{/.test(line));
  assert.deepEqual(series.sort(), [
    'rampart_network_policy_policy_refused_bytes_total{namespace="shop",policy="in",direction="ingress"} 120',
    'rampart_network_policy_policy_refused_packets_total{namespace="shop",policy="in",direction="ingress"} 2',
    'rampart_network_policy_policy_would_refuse_bytes_total{namespace="shop",policy="out",direction="egress"} 180',
    'rampart_network_policy_policy_would_refuse_packets_total{namespace="shop",policy="out",direction="egress"} 3',
    'rampart_network_policy_refused_bytes_total{namespace="shop",pod="db",direction="ingress"} 120',
    'rampart_network_policy_refused_packets_total{namespace="shop",pod="db",direction="ingress"} 2',
    'rampart_network_policy_refused_sources_total{namespace="shop",pod="db"} 5',
    'rampart_network_policy_would_refuse_bytes_total{namespace="",pod="",direction="ingress"} 240',
    'rampart_network_policy_would_refuse_bytes_total{namespace="shop",pod="web",direction="egress"} 180',
    'rampart_network_policy_would_refuse_packets_total{namespace="",pod="",direction="ingress"} 4',
    'rampart_network_policy_would_refuse_packets_total{namespace="shop",pod="web",direction="egress"} 3',
    'rampart_network_policy_would_refuse_sources_total{namespace="shop",pod="web"} 6',
  ]);
});
