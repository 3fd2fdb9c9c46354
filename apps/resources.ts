/** The custom resources of guards, and their installation where the product brings its own API. */
import type { Guard } from '../guard/guard.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { customResourceDefinitions, established } from '../lib/kube/crd/established.ts';
import { crdManifest } from '../lib/kube/crd/manifest.ts';
import type { Resource } from '../lib/kube/crd/resource.ts';
import type { ResourceType } from '../lib/kube/object/object.ts';
import { clusterOpenReports, openReports } from '../guard/reports/open-reports.ts';
import { clusterPolicyReports, policyReports } from '../guard/reports/policy-reports.ts';

/** With any content: what a manifest of ours is like, its own type says. */
const crdType: ResourceType = customResourceDefinitions;
const ESTABLISH_MS = 30_000;

/** Reports are defined by others: they are installed only where the API is our own. */
function installed(guards: readonly Guard[]): readonly Resource[] {
  const reports = [policyReports, clusterPolicyReports, openReports, clusterOpenReports];
  return [...guards.flatMap(({ resources }) => resources), ...reports];
}

/** As they are called in the API: `kivepolicies.kivebpf.san7o.github.io`. */
export function installedResourceNames(guards: readonly Guard[]): ReadonlySet<string> {
  return new Set(installed(guards).map(({ plural, group }) => `${plural}.${group}`));
}

/** Applies the CustomResourceDefinitions; resolves when all are served. */
export async function installResources(
  client: KubeClient,
  guards: readonly Guard[],
  signal: AbortSignal,
): Promise<void> {
  for (const resource of installed(guards)) {
    await client.apply(crdType, crdManifest(resource), {
      fieldManager: 'rampart',
      force: true,
      signal,
    });
  }
  for (const name of installedResourceNames(guards)) {
    await established(client, name, { timeoutMs: ESTABLISH_MS, signal });
  }
}
