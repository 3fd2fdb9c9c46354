/** The result of the last full pass, stored where `rampart status` finds it. */
import type { KubeClient } from '../../../shared/kube/client.ts';
import { systemNamespace } from '../../../shared/guard/guard.ts';
import { type ConfigMap, configMaps } from '../../../shared/kube/object.ts';
import type { PassSummary } from '../scanner/audit-pass.ts';

const name = 'rampart-policy-audit';
export const passLabel = 'rampart.dev/policy-audit-pass';
const key = 'summary.json';

/** @throws {KubeError} */
export async function keepLastPass(
  client: KubeClient,
  summary: PassSummary,
  signal: AbortSignal,
): Promise<void> {
  const object: ConfigMap = {
    metadata: {
      name,
      namespace: systemNamespace,
      labels: { 'app.kubernetes.io/managed-by': 'rampart', [passLabel]: 'last' },
    },
    data: { [key]: JSON.stringify(summary) },
  };
  await client.apply(configMaps, object, { fieldManager: 'rampart', force: true, signal });
}

/** Undefined if it is not in this release's format. */
export function readLastPass({ data }: ConfigMap): PassSummary | undefined {
  try {
    const value = JSON.parse(data?.[key] ?? '') as Partial<PassSummary>;
    return typeof value.endedMs === 'number' && typeof value.objects === 'number'
      ? (value as PassSummary)
      : undefined;
  } catch {
    return undefined;
  }
}
