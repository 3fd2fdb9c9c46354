/** The source files that documentation names, for the test that each exists. */
import { existsSync, globSync, readFileSync } from 'node:fs';
import { dirname, join, matchesGlob } from 'node:path';

/** In a code span or a drawing: `compare/compare.ts`, `label-*.ts`. */
const source = /(?<![\w./*{$<-])((?:[\w.*{},-]+\/)*[\w.*{},-]+\.(?:tsx?|mjs))(?![\w/-])/g;
const link = /\]\((?!\w+:|#)([^)#\s]+)(?:#[^)]*)?\)/g;
const code = /```.*?```|`[^`\n]+`/gs;
/** Names in examples: any file, or one that does not exist yet. */
const placeholder = /^x\./;

/** A name in a document that has no file. */
export interface MissingFile {
  /** By its path from the top of the repository. */
  readonly document: string;
  readonly name: string;
}

/**
 * Missing files that READMEs and the documentation name: a link's target, or a source file that is neither in
 * the document's folder, above, nor anywhere below it. `docs/` and `test/` may name all folders.
 *
 * @param top - The checkout.
 */
export function missingFiles(top: string): MissingFile[] {
  const folders = '{apps,bench,deploy,docs,guard,guards,lib,scripts,test,ui}';
  const all = globSync(['*', `${folders}/**/*`], { cwd: top, exclude: ['**/node_modules'] });
  const sources = all.filter((path) => /\.(?:tsx?|mjs)$/.test(path));
  const documents = all.filter((path) => path.endsWith('.md') && path !== 'CHANGELOG.md').toSorted();
  return documents.flatMap((document) => {
    const text = readFileSync(join(top, document), 'utf8');
    const folder = /^(?:docs|test)\//.test(document) ? '.' : dirname(document);
    const targets = [...text.matchAll(link)].map(([, target = '']) => target);
    const names = [...text.matchAll(code)]
      .flatMap(([span]) => [...span.matchAll(source)].map(([, name = '']) => name))
      .filter((name) => !placeholder.test(name));
    return [
      ...targets.filter((target) => !existsSync(join(top, dirname(document), target))),
      ...names.filter((name) => !exists(name, folder, sources)),
    ].map((name) => ({ document, name }));
  });
}

function exists(name: string, folder: string, sources: readonly string[]): boolean {
  const below = folder === '.' ? sources : sources.filter((path) => path.startsWith(`${folder}/`));
  if (!/[*{]/.test(name)) {
    if (!name.startsWith('.') && below.some((path) => path.endsWith(`/${name}`))) return true;
  } else if (below.some((path) => matchesGlob(path, join('**', name)))) return true;
  for (let above = folder; above !== '.'; above = dirname(above)) {
    if (sources.some((path) => matchesGlob(path, join(above, name)))) return true;
  }
  return sources.some((path) => matchesGlob(path, name));
}
