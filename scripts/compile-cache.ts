/**
 * Fills the compile cache of the process that it runs in: V8's flags are a part of its key, so it is done once for each set
 * of flags in bin/rampart.
 *
 *     NODE_OPTIONS=--import=./scripts/compile-cache.ts bin/rampart agent      what runs with the flags of the agent
 *     NODE_COMPILE_CACHE=… node scripts/compile-cache.ts tests               what the tests load, too
 *
 * One process strips all types in a few seconds. Four that begin to test with an empty cache each strip the same modules.
 */
import { globSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';

const top = dirname(import.meta.dirname);
const product = ['apps', 'guard', 'guards', 'lib'];
const withTests = process.argv[2] === 'tests';
const folders = withTests ? [...product, 'bench', 'scripts', 'test'] : product;
const files = globSync(`{${folders.join()}}/**/*.ts`, {
  cwd: top,
  // AssemblyScript is no TypeScript.
  exclude: [
    '**/node_modules',
    '**/*.d.ts',
    'test/policies',
    ...(withTests ? [] : ['**/*.{test,fixture}.ts']),
  ],
});
// Modules are compiled when they are loaded, before they are linked; as the last import has no such name, nothing is evaluated.
const imports = files.map((file) => `import ${JSON.stringify(pathToFileURL(join(top, file)).href)};\n`);
const module = `${imports.join('')}import { nothingIsCalledSo } from 'node:fs';\n`;
try {
  await import(`data:text/javascript,${encodeURIComponent(module)}`);
} catch (error) {
  if (!String(error).includes('nothingIsCalledSo')) {
    process.stderr.write(`compile cache: ${String(error)}\n`);
    process.exit(1);
  }
}
process.exit(0);
