/**
 * Fails when package-lock.json names a registry, or is one that `npm ci` refuses.
 *
 * npm leaves a package for another platform out of the lock file when the registry it asked has no such
 * package (yet), says nothing, and then `npm ci` stops on every machine.
 */
import { readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

interface Entry {
  readonly resolved?: string;
  readonly optionalDependencies?: Readonly<Record<string, string>>;
}

const path = join(dirname(import.meta.dirname), 'package-lock.json');
const { packages } = JSON.parse(readFileSync(path, 'utf8')) as { packages: Record<string, Entry> };

const problems = Object.entries(packages).flatMap(([name, { resolved, optionalDependencies = {} }]) => [
  ...(resolved === undefined
    ? []
    : [`${name}: has "resolved"; install with the repository's .npmrc in force`]),
  ...Object.keys(optionalDependencies)
    .filter(
      (optional) =>
        ![`node_modules/${optional}`, `${name}/node_modules/${optional}`].some((at) => at in packages),
    )
    .map(
      (optional) =>
        `${name || 'package.json'}: no entry for ${optional}; take a version that is published in full`,
    ),
]);
for (const problem of problems) console.log(problem);
process.exitCode = problems.length > 0 ? 1 : 0;
