/** Programs of the machine that a part needs. */
import { spawnSync } from 'node:child_process';

/** Nothing was measured. */
export class MissingPrograms extends Error {}

/**
 * @param packages - By program the Debian package that has it.
 * @throws {MissingPrograms} what to install, in one line.
 */
export function requirePrograms(packages: Readonly<Record<string, string>>): void {
  const absent = Object.keys(packages).filter((name) => spawnSync(name, ['--version']).error !== undefined);
  if (absent.length === 0) return;
  const wanted = new Set(absent.map((name) => packages[name]));
  throw new MissingPrograms(`not installed: ${absent.join(', ')}. apt-get install ${[...wanted].join(' ')}`);
}
