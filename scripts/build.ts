/**
 * Writes the product to `dist/` as JavaScript, for images and packages: Node.js runs the sources of a
 * checkout directly, but strips no types below node_modules.
 */
import { spawnSync } from 'node:child_process';
import { cpSync, globSync, rmSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { writeProvenance } from './release/provenance.ts';

const top = dirname(import.meta.dirname);
const dist = join(top, 'dist');

// Not committed, so a fresh clone (of which images are built) has none.
const kinds = spawnSync(process.execPath, [join(top, 'scripts/build-kinds.ts')], {
  cwd: top,
  stdio: 'inherit',
});
if (kinds.status !== 0) process.exit(1);

rmSync(dist, { recursive: true, force: true });
// Also copies package.json, which the command imports for its version.
const tsc = spawnSync(join(top, 'node_modules/.bin/tsc'), ['-p', 'tsconfig.build.json'], {
  cwd: top,
  stdio: 'inherit',
});
if (tsc.status !== 0) process.exit(1);
// Those below guards/ are of tests.
for (const object of globSync('lib/**/*.bpf.o', { cwd: top })) {
  cpSync(join(top, object), join(dist, object));
}
for (const table of ['lib/apiserver/builtin/kinds.json', 'lib/apiserver/protobuf/fields.json']) {
  cpSync(join(top, table), join(dist, table));
}
const page = spawnSync(process.execPath, [join(top, 'scripts/build-page.ts'), join(dist, 'ui')], {
  stdio: 'inherit',
});
if (page.status !== 0) process.exit(1);
writeProvenance(top);
process.stdout.write('dist/ is built; run it with: node dist/apps/rampart.js\n');
