/** The custom resources of guards, and their installation if the product brings its own API. */
import type { Guard, OptionValues, ResourceVariants } from '../guard/guard.ts';
import { errorCodes, RampartError } from '../lib/errors/errors.ts';
import type { KubeClient } from '../lib/kube/client/client.ts';
import { isNotFound, orUndefined } from '../lib/kube/client/client-errors.ts';
import { customResourceDefinitions, established } from '../lib/kube/crd/established.ts';
import { crdManifest } from '../lib/kube/crd/manifest.ts';
import { sleep, systemClock } from '../lib/time/clock.ts';
import { type Resource, resourceType } from '../lib/kube/crd/resource.ts';
import type { ResourceType } from '../lib/kube/object/object.ts';
import { clusterOpenReports, openReports } from '../guard/reports/open-reports.ts';
import { clusterPolicyReports, policyReports } from '../guard/reports/policy-reports.ts';

/** An untyped definition: the manifests that are applied have a type of their own. */
const crdType: ResourceType = customResourceDefinitions;
const ESTABLISH_MS = 30_000;
const GONE_POLL_MS = 20;

/** The report kinds are defined by another project: they are installed only if the API is our own. */
function installed(guards: readonly Guard[]): readonly Resource[] {
  const reports = [policyReports, clusterPolicyReports, openReports, clusterOpenReports];
  return [...guards.flatMap(({ resources }) => resources), ...reports];
}

/** Their names in the API, such as `kivepolicies.kivebpf.san7o.github.io`. */
export function installedResourceNames(guards: readonly Guard[]): ReadonlySet<string> {
  return new Set(installed(guards).map(({ plural, group }) => `${plural}.${group}`));
}

/**
 * Applies the CustomResourceDefinitions; resolves when all are served.
 *
 * @param values - The options of the command line, which choose between variants of a resource.
 * @throws {RampartError} `INPUT` for a choice that would delete objects.
 */
export async function installResources(
  client: KubeClient,
  guards: readonly Guard[],
  signal: AbortSignal,
  values: OptionValues = {},
): Promise<void> {
  const chosen = new Map<string, Resource>();
  for (const { variants } of guards) {
    if (variants === undefined) continue;
    const resource = await choose(client, variants, values[variants.option], signal);
    chosen.set(resource.kind, resource);
  }
  for (const resource of installed(guards)) {
    await client.apply(crdType, crdManifest(chosen.get(resource.kind) ?? resource), {
      fieldManager: 'rampart',
      force: true,
      signal,
    });
  }
  for (const name of installedResourceNames(guards)) {
    await established(client, name, { timeoutMs: ESTABLISH_MS, signal });
  }
}

/**
 * Chooses the variant to install among resources that share a name. If the API has another variant without objects, its definition is
 * deleted: the scope of a definition cannot be changed.
 *
 * @param wanted - The value of the option; undefined: the variant of the existing objects.
 */
async function choose(
  client: KubeClient,
  { option, resources }: ResourceVariants,
  wanted: unknown,
  signal: AbortSignal,
): Promise<Resource> {
  const [[firstName, first] = []] = Object.entries(resources);
  if (firstName === undefined || first === undefined) throw new TypeError(`${option} has no resources`);
  const asked = typeof wanted === 'string' ? wanted : undefined;
  const resource = resources[asked ?? firstName] ?? first;
  const definition = { name: `${resource.plural}.${resource.group}` };
  const there = await orUndefined(client.get(customResourceDefinitions, definition, { signal }));
  const found = Object.entries(resources).find(([, { scope }]) => scope === there?.spec.scope);
  if (found === undefined || found[1] === resource) return resource;
  const [name, other] = found;
  const [version = ''] = Object.keys(other.versions);
  const { items } = await client.list(resourceType(other, version), {}, { signal });
  if (items.length === 0) {
    await client.delete(customResourceDefinitions, definition, { signal });
    await untilGone(client, definition, signal);
    return resource;
  }
  if (asked === undefined) return other;
  const flag = `--${option.replaceAll(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`;
  throw new RampartError(errorCodes.INPUT, {
    what: `cannot serve ${resource.kind} of ${asked}`,
    why: `there are ${items.length} of ${name}, which has the same name and another scope`,
    next: `Use ${flag} ${name}, delete them, and start again with ${flag} ${asked}`,
  });
}

async function untilGone(
  client: KubeClient,
  definition: { readonly name: string },
  signal: AbortSignal,
): Promise<void> {
  for (;;) {
    try {
      await client.get(customResourceDefinitions, definition, { signal });
    } catch (error) {
      if (isNotFound(error)) return;
      throw error;
    }
    await sleep(systemClock, GONE_POLL_MS, signal);
  }
}
