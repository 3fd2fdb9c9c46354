/**
 * The manifests of our custom resources, `systems/<guard>/crd/*.yaml` and their copies in `deploy/crd/` (a kustomization
 * reads nothing outside of its directory), are made from the schemas in `systems/<guard>/api.ts`, which the TypeScript
 * types come from too. This checks that they are what the schemas say,
 * or writes them.
 *
 *     node scripts/crds.ts            says which file differs, and where first; exit code 1
 *     node scripts/crds.ts --write
 *
 * @module
 */
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

import { crdYaml } from '../shared/kube/crd/manifest.ts';
import { isResource } from '../shared/kube/crd/resource.ts';

/** Where nothing else is to be. */
const written = ['systems/*/crd/*.yaml', 'deploy/crd/*.yaml'];
/** No guard's, and in a cluster perhaps of others: its manifest is in a kustomization of its own. */
const reports = { source: 'shared/reports/policy-reports.ts', directory: 'deploy/policy-reports' };

/** What the schemas under `top` say: the text of each manifest, by its path from there. */
export async function expectedManifests(top: string): Promise<Map<string, string>> {
  const manifests = new Map<string, string>();
  for (const source of globSync('systems/*/api.ts', { cwd: top }).toSorted()) {
    const module = (await import(pathToFileURL(join(top, source)).href)) as Readonly<Record<string, unknown>>;
    const resources = Object.values(module).filter(isResource);
    for (const resource of resources) {
      const { plural, group } = resource;
      // The group is in the name only where it has to be: two groups may have the same resource.
      const isAlone = resources.filter((other) => other.plural === plural).length === 1;
      const path = join(dirname(source), 'crd', `${isAlone ? plural : `${plural}.${group}`}.yaml`);
      if (manifests.has(path)) throw new Error(`${source} has two resources called ${plural}.${group}`);
      manifests.set(path, crdYaml(resource, source));
    }
  }
  return manifests;
}

/** Those and their copies for the cluster. */
async function expectedFiles(top: string): Promise<Map<string, string>> {
  const files = await expectedManifests(top);
  for (const [path, text] of [...files]) {
    const copy = join('deploy/crd', basename(path));
    if (files.has(copy)) throw new Error(`two guards have resources called ${basename(path, '.yaml')}`);
    files.set(copy, text);
  }
  // The trees of tests have none.
  if (existsSync(join(top, reports.source))) {
    const module: object = await import(pathToFileURL(join(top, reports.source)).href);
    for (const resource of Object.values(module).filter(isResource)) {
      files.set(join(reports.directory, `${resource.plural}.yaml`), crdYaml(resource, reports.source));
    }
  }
  return files;
}

/** How the files under `top` differ from what the schemas say, a line each. */
export async function differences(top: string): Promise<string[]> {
  const expected = await expectedFiles(top);
  const problems: string[] = [];
  for (const [path, text] of expected) {
    const problem = firstDifference(readIfThere(join(top, path)), text);
    if (problem !== undefined) problems.push(`${path}${problem}`);
  }
  for (const path of globSync(written, { cwd: top }).toSorted()) {
    if (!expected.has(path)) problems.push(`${path}: no resource in api.ts has this manifest`);
  }
  return problems;
}

/** Makes the files what the schemas say. Returns the paths of those that were changed. */
export async function writeManifests(top: string): Promise<string[]> {
  const expected = await expectedFiles(top);
  const changed: string[] = [];
  for (const [path, text] of expected) {
    const file = join(top, path);
    if (readIfThere(file) === text) continue;
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, text);
    changed.push(path);
  }
  for (const path of globSync(written, { cwd: top }).toSorted()) {
    if (expected.has(path)) continue;
    rmSync(join(top, path));
    changed.push(path);
  }
  return changed;
}

function readIfThere(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

function firstDifference(found: string | undefined, expected: string): string | undefined {
  if (found === expected) return undefined;
  if (found === undefined) return ': is missing';
  const [foundLines, expectedLines] = [found.split('\n'), expected.split('\n')];
  const index = expectedLines.findIndex((line, at) => line !== foundLines[at]);
  // All lines are there, so there are more.
  const line = index === -1 ? expectedLines.length : index;
  const shown = (text: string | undefined): string => (text === undefined ? 'nothing' : JSON.stringify(text));
  return `:${line + 1}: is ${shown(foundLines[line])}, the schema says ${shown(expectedLines[line])}`;
}

if (import.meta.main) {
  const top = dirname(import.meta.dirname);
  const given = process.argv.slice(2);
  if (given.length > 1 || (given.length === 1 && given[0] !== '--write')) {
    process.stderr.write('crds: the only option is --write\n');
    process.exit(2);
  }
  if (given.length === 1) {
    for (const path of await writeManifests(top)) console.log(path);
  } else {
    const problems = await differences(top);
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) {
      console.error('Change api.ts, not the manifest, and run: node scripts/crds.ts --write');
      process.exitCode = 1;
    }
  }
}
