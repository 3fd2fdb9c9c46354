/**
 * Exits 0 when node_modules holds what package-lock.json names for this machine, 1 otherwise.
 * Plain JavaScript: it runs before anything is installed, on whatever Node.js the machine has.
 *
 * npm writes node_modules/.package-lock.json as the last step of an installation; an installation that
 * broke off has none.
 */
import { existsSync, readFileSync } from 'node:fs';

/** @param {string} path */
function packagesOf(path) {
  return existsSync(path) ? JSON.parse(readFileSync(path, 'utf8')).packages : {};
}

/** npm leaves out optional packages made for other machines. All of ours for Linux are made for glibc. */
function isForThisMachine({ os, cpu, libc }) {
  return (
    (os === undefined || [os].flat().includes(process.platform)) &&
    (cpu === undefined || [cpu].flat().includes(process.arch)) &&
    (libc === undefined || [libc].flat().includes('glibc'))
  );
}

const { '': _root, ...wanted } = packagesOf('package-lock.json');
const present = packagesOf('node_modules/.package-lock.json');

const complete = Object.entries(wanted).every(([path, entry]) =>
  path in present
    ? present[path].version === entry.version && present[path].integrity === entry.integrity
    : !isForThisMachine(entry),
);
const nothingElse = Object.keys(present).every((path) => path in wanted);
process.exitCode = complete && nothingElse ? 0 : 1;
