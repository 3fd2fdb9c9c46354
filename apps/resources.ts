/**
 * The custom resources of all guards, and their installation where the product brings its own API.
 *
 * @module
 */
import type { KubeClient } from '../shared/kube/client.ts';
import { customResourceDefinitions, established } from '../shared/kube/crd/established.ts';
import { crdManifest } from '../shared/kube/crd/manifest.ts';
import type { Resource } from '../shared/kube/crd/resource.ts';
import type { ResourceType } from '../shared/kube/object.ts';
import { policyReports } from '../shared/reports/policy-reports.ts';
import { kiveData, kivePolicies } from '../systems/file-access/api.ts';
import {
  designFileIntegrities,
  designNodeStatuses,
  releasedFileIntegrities,
  releasedNodeStatuses,
} from '../systems/file-integrity/api.ts';

/** Those of a new guard are added here; a test compares it with systems/. */
export const guardResources: readonly Resource[] = [
  kivePolicies,
  kiveData,
  releasedFileIntegrities,
  releasedNodeStatuses,
  designFileIntegrities,
  designNodeStatuses,
];

/** With any content: what a manifest of ours is like, its own type says. */
const crdType: ResourceType = customResourceDefinitions;
const ESTABLISH_MS = 30_000;

/** What guards write that is defined by others: installed only where the API is our own. */
const installed: readonly Resource[] = [...guardResources, policyReports];

/** As they are called in the API: `kivepolicies.kivebpf.san7o.github.io`. */
export function installedResourceNames(): ReadonlySet<string> {
  return namesOf(installed);
}

export function namesOf(resources: readonly Resource[]): ReadonlySet<string> {
  return new Set(resources.map(({ plural, group }) => `${plural}.${group}`));
}

/** Applies the CustomResourceDefinitions; resolves when all are served. */
export async function installResources(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const resource of installed) {
    await client.apply(crdType, crdManifest(resource), {
      fieldManager: 'rampart',
      force: true,
      signal,
    });
  }
  for (const name of installedResourceNames()) {
    await established(client, name, { timeoutMs: ESTABLISH_MS, signal });
  }
}
