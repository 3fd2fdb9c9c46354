/**
 * The custom resources of all guards, and their installation where the product brings its own API.
 *
 * @module
 */
import type { KubeClient } from '../shared/kube/client.ts';
import { sleep, systemClock } from '../shared/kube/clock.ts';
import { type Condition, isConditionTrue } from '../shared/kube/conditions.ts';
import { type CrdManifest, crdManifest } from '../shared/kube/crd/manifest.ts';
import type { Resource } from '../shared/kube/crd/resource.ts';
import type { KubeObject, ResourceType } from '../shared/kube/object.ts';
import { errorCodes, RampartError } from '../shared/observe/errors.ts';
import { kiveData, kivePolicies } from '../systems/file-access/api.ts';

/** Those of a new guard are added here; a test compares it with systems/. */
export const guardResources: readonly Resource[] = [kivePolicies, kiveData];

type Crd = CrdManifest & KubeObject & { readonly status?: { readonly conditions?: readonly Condition[] } };
const crdType: ResourceType<Crd> = {
  group: 'apiextensions.k8s.io',
  version: 'v1',
  plural: 'customresourcedefinitions',
  kind: 'CustomResourceDefinition',
  namespaced: false,
};

const ESTABLISH_MS = 30_000;
const POLL_MS = 20;

/** As they are called in the API: `kivepolicies.kivebpf.san7o.github.io`. */
export function guardResourceNames(): ReadonlySet<string> {
  return new Set(guardResources.map(({ plural, group }) => `${plural}.${group}`));
}

/** Applies the CustomResourceDefinitions; resolves when all are served. */
export async function installResources(client: KubeClient, signal: AbortSignal): Promise<void> {
  for (const resource of guardResources) {
    await client.apply(crdType, crdManifest(resource), {
      fieldManager: 'rampart',
      force: true,
      signal,
    });
  }
  for (const name of guardResourceNames()) {
    for (let waitedMs = 0; ; waitedMs += POLL_MS) {
      const { status } = await client.get(crdType, { name }, { signal });
      if (isConditionTrue(status?.conditions, 'Established')) break;
      if (waitedMs >= ESTABLISH_MS) {
        const why = status?.conditions?.map(({ type, message }) => `${type}: ${message}`).join('; ');
        throw new RampartError(errorCodes.API, {
          what: `${name} is not served`,
          why: why ?? 'no word of why',
        });
      }
      await sleep(systemClock, POLL_MS, signal);
    }
  }
}
