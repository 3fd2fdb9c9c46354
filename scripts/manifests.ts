/**
 * The manifests that follow from the code, of custom resources and of deploy/. This checks that they are what the code says, or
 * writes them:
 *
 * - `deploy/guards/<guard>/crd/*.yaml`, from the schemas in `guards/<guard>/api.ts`;
 * - `deploy/guards/<guard>/`, a kustomize Component for each guard of apps/guards.ts, from its descriptor, and one for each other
 *   variant of a resource;
 * - `deploy/base/admission.yaml`, from the limits of what is written;
 * - `deploy/monitoring/`, from alerting rules and metrics;
 * - `deploy/chart/`, from deploy/base/ and all of these components;
 * - `deploy/policy-reports/policyreports.yaml`;
 * - `deploy/uninstall/role.yaml`, from what guards leave behind.
 *
 *     node scripts/manifests.ts            says which file differs, and where first; exit code 1
 *     node scripts/manifests.ts --write
 */
import { existsSync, globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

import { format } from 'prettier';

import { guards as allGuards } from '../apps/guards.ts';
import { uninstallRights } from '../apps/uninstall/rights.ts';
import type { Guard } from '../guard/guard.ts';
import { chartDirectory, chartFiles } from './chart.ts';
import {
  admissionYaml,
  allYaml,
  componentYaml,
  rolesYaml,
  uninstallYaml,
  variantYaml,
} from './components.ts';
import { expectedManifests, expectedReports } from './crds.ts';
import { monitoringDirectory, monitoringFiles } from './monitoring.ts';

/** Places for generated files only. */
const written = [
  ...['deploy/guards/**/*.yaml', 'deploy/monitoring/*'],
  ...['deploy/chart/*.*', 'deploy/chart/templates/*'],
];

/** The text of each file, by its path from `top`. */
async function expectedFiles(top: string, guards: readonly Guard[]): Promise<Map<string, string>> {
  const crds = await expectedManifests(top);
  const files = new Map([...crds, ...(await expectedReports(top))]);
  const add = async (path: string, text: string): Promise<void> => {
    const parser = path.endsWith('.json') ? 'json' : 'yaml';
    files.set(path, await format(text, { parser, singleQuote: true, printWidth: 110 }));
  };
  await add('deploy/guards/kustomization.yaml', allYaml(guards));
  for (const guard of guards) {
    const directory = join('deploy/guards', guard.name);
    const resources = [...crds.keys()]
      .filter((path) => dirname(path) === join(directory, 'crd'))
      .map((path) => join('crd', basename(path)));
    const roles = rolesYaml(guard);
    if (roles !== undefined) {
      resources.push('roles.yaml');
      await add(join(directory, 'roles.yaml'), roles);
    }
    await add(join(directory, 'kustomization.yaml'), componentYaml(guard, resources));
    for (const [value, resource] of Object.entries(guard.variants?.resources ?? {}).slice(1))
      await add(join(directory, value, 'kustomization.yaml'), variantYaml(guard, value, resource));
  }
  await add('deploy/base/admission.yaml', admissionYaml(guards));
  for (const [name, text] of await monitoringFiles(guards)) await add(join(monitoringDirectory, name), text);
  await add('deploy/uninstall/role.yaml', uninstallYaml(await uninstallRights(guards)));
  // The trees of tests have none.
  if (!existsSync(join(top, 'deploy/base/kustomization.yaml'))) return files;
  const read = (path: string): string => files.get(path) ?? readFileSync(join(top, path), 'utf8');
  for (const [name, text] of chartFiles(guards, read)) {
    const path = join(chartDirectory, name);
    if (name.startsWith('templates/')) files.set(path, text);
    else await add(path, text);
  }
  return files;
}

/** How the files under `top` differ from what the code says, a line each. */
export async function differences(top: string, guards: readonly Guard[]): Promise<string[]> {
  const expected = await expectedFiles(top, guards);
  const problems: string[] = [];
  for (const [path, text] of expected) {
    const problem = firstDifference(readIfThere(join(top, path)), text);
    if (problem !== undefined) problems.push(`${path}${problem}`);
  }
  for (const path of globSync(written, { cwd: top }).toSorted()) {
    if (!expected.has(path)) problems.push(`${path}: nothing in the code has this manifest`);
  }
  return problems;
}

/** Makes the files what the code says. Returns the paths of those that were changed. */
export async function writeManifests(top: string, guards: readonly Guard[]): Promise<string[]> {
  const expected = await expectedFiles(top, guards);
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
  return `:${line + 1}: is ${shown(foundLines[line])}, the code says ${shown(expectedLines[line])}`;
}

if (import.meta.main) {
  const top = dirname(import.meta.dirname);
  const given = process.argv.slice(2);
  if (given.length > 1 || (given.length === 1 && given[0] !== '--write')) {
    process.stderr.write('manifests: the only option is --write\n');
    process.exit(2);
  }
  if (given.length === 1) {
    for (const path of await writeManifests(top, allGuards)) console.log(path);
  } else {
    const problems = await differences(top, allGuards);
    for (const problem of problems) console.error(problem);
    if (problems.length > 0) {
      console.error(
        'Change api.ts or the descriptor, not the manifest, and run: node scripts/manifests.ts --write',
      );
      process.exitCode = 1;
    }
  }
}
