/**
 * The manifests of our custom resources, which scripts/manifests.ts checks and writes: they are made from the schemas in
 * `guards/<guard>/api.ts`, which the TypeScript types come from too.
 */
import { existsSync, globSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { crdYaml } from '../lib/kube/crd/manifest.ts';
import { isResource, type Resource } from '../lib/kube/crd/resource.ts';

/** No guard's, and in a cluster perhaps of others: its manifest is in a kustomization of its own. */
const reports = { source: 'guard/reports/policy-reports.ts', directory: 'deploy/policy-reports' };

/** The manifests from the schemas of the guards under `top`: the text of each, by its path from there. */
export async function expectedManifests(top: string): Promise<Map<string, string>> {
  const manifests = new Map<string, string>();
  for (const source of globSync('guards/*/api.ts', { cwd: top }).toSorted()) {
    const resources = await resourcesOf(top, source);
    for (const resource of resources) {
      const { plural, group } = resource;
      // The group is in the name only where it has to be: two groups may have the same resource.
      const isAlone = resources.filter((other) => other.plural === plural).length === 1;
      const path = join(
        'deploy/guards',
        basename(dirname(source)),
        'crd',
        `${isAlone ? plural : `${plural}.${group}`}.yaml`,
      );
      if (manifests.has(path)) throw new Error(`${source} has two resources called ${plural}.${group}`);
      manifests.set(path, crdYaml(resource, source));
    }
  }
  return manifests;
}

/** Those of reports, likewise. */
export async function expectedReports(top: string): Promise<Map<string, string>> {
  const manifests = new Map<string, string>();
  // The trees of tests have none.
  if (!existsSync(join(top, reports.source))) return manifests;
  for (const resource of await resourcesOf(top, reports.source)) {
    manifests.set(join(reports.directory, `${resource.plural}.yaml`), crdYaml(resource, reports.source));
  }
  return manifests;
}

async function resourcesOf(top: string, source: string): Promise<Resource[]> {
  const module = (await import(pathToFileURL(join(top, source)).href)) as Readonly<Record<string, unknown>>;
  // A guard with many kinds makes them from a table, and exports a list.
  return Object.values(module).flat().filter(isResource);
}
