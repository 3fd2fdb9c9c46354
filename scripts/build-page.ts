/**
 * Builds the page of `rampart ui` from `ui/`, with vite:
 *
 *     node scripts/build-page.ts             into .cache/ui, where a checkout has it, if it is missing or stale
 *     node scripts/build-page.ts DIRECTORY   into this directory
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, mkdirSync, mkdtempSync, renameSync, rmSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';

const top = dirname(import.meta.dirname);
const ofCheckout = join(top, '.cache/ui');

function isFresh(): boolean {
  const built = statSync(join(ofCheckout, 'page.js'), { throwIfNoEntry: false });
  if (built === undefined) return false;
  const sources = [
    ...globSync(['ui/**/*', 'examples/*.yaml', 'lib/output/printable.ts'], { cwd: top }),
    ...['package-lock.json', 'scripts/build-page.ts'],
  ];
  return sources.every((path) => statSync(join(top, path)).mtimeMs <= built.mtimeMs);
}

function build(directory: string): void {
  const args = ['build', 'ui', '--outDir', directory, '--emptyOutDir', '--logLevel', 'warn'];
  const { status, error } = spawnSync(join(top, 'node_modules/.bin/vite'), args, {
    cwd: top,
    stdio: ['ignore', 'ignore', 'inherit'],
    env: { ...process.env, PATH: `${dirname(process.execPath)}:${process.env['PATH'] ?? ''}` },
  });
  if (status !== 0) throw error ?? new Error(`vite has failed: exit code ${status}`);
  // page.js has it within.
  cpSync(join(top, 'node_modules/preact/LICENSE'), join(directory, 'preact.LICENSE.txt'));
}

const [directory] = process.argv.slice(2);
if (directory !== undefined) build(directory);
else if (!isFresh()) {
  // Another process may read it, or build it too: it is whole at each moment.
  mkdirSync(join(top, '.cache'), { recursive: true });
  const fresh = mkdtempSync(join(top, '.cache/ui-'));
  const before = mkdtempSync(join(top, '.cache/ui-'));
  try {
    build(join(fresh, 'ui'));
    try {
      renameSync(ofCheckout, join(before, 'ui'));
    } catch {
      // The first one, or another process has just moved it away.
    }
    renameSync(join(fresh, 'ui'), ofCheckout);
  } catch (error) {
    if (!isFresh()) throw error;
  } finally {
    for (const path of [fresh, before]) rmSync(path, { recursive: true, force: true });
  }
}
