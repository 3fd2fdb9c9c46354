import assert from 'node:assert/strict';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { test } from 'node:test';

import { guards } from '../guards.ts';
import { leftoversOf, removedBy } from './uninstall.ts';

const deploy = join(import.meta.dirname, '../../deploy');
/** They go with the namespace of Rampart, or were never in a cluster. */
const notClusterWide = new Set([
  ...['ConfigMap', 'DaemonSet', 'Deployment', 'Job', 'NetworkPolicy', 'PodMonitor', 'PrometheusRule'],
  ...['Role', 'RoleBinding', 'Service', 'ServiceAccount', 'FileIntegrity', 'Component', 'Kustomization'],
]);

test('every cluster-scoped kind of the manifests is removed', async () => {
  const removed = new Set(removedBy(guards, await leftoversOf(guards)).map(({ type }) => type.kind));
  const files = readdirSync(deploy, { recursive: true, encoding: 'utf8' }).filter((name) =>
    name.endsWith('.yaml'),
  );
  const kinds = files.flatMap(
    (name) => readFileSync(join(deploy, name), 'utf8').match(/(?<=^kind: )\w+$/gm) ?? [],
  );
  const clusterWide = new Set(kinds.filter((kind) => !notClusterWide.has(kind)));
  assert.ok(clusterWide.has('CSIDriver') && clusterWide.has('ClusterRole'));
  assert.deepEqual(
    [...clusterWide].filter((kind) => !removed.has(kind)),
    [],
  );
});
