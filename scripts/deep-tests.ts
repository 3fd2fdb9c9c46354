/** Which tests `npm run test:deep` has beside those of `npm test`: read from the sources, for CONTRIBUTING.md. */
import { globSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

/** A file with tests that only repeat for depth. */
export interface DeepTests {
  /** By its path from the top of the repository. */
  readonly file: string;
  /** Their titles as the source has them. Empty: the whole file, `*.deep.test.ts`. */
  readonly titles: readonly string[];
  /** Whether a test of the same file, or beside `x.deep.test.ts` one of the same folder, is in `npm test`. */
  readonly hasShortCase: boolean;
}

const folders = ['apps', 'bench', 'guard', 'guards', 'lib', 'scripts', 'test', 'ui'];
const deepCall = /(?<![\w.])deep(?:Test|Suite)\(\s*(['"`])((?:\\.|(?!\1).)*)\1/gs;
const shortCall = /(?<![\w.])(?:test|suite)\(\s*['"`]/;

/** @param top - The checkout. */
export function deepTests(top: string): DeepTests[] {
  const files = globSync(
    folders.map((folder) => `${folder}/**/*.{test,suite.fixture}.ts`),
    { cwd: top },
  );
  return files.toSorted().flatMap((file): DeepTests[] => {
    const text = readFileSync(join(top, file), 'utf8');
    if (file.endsWith('.deep.test.ts')) {
      const beside = globSync(join(dirname(file), '*.test.ts'), { cwd: top });
      return [{ file, titles: [], hasShortCase: beside.some((path) => !path.endsWith('.deep.test.ts')) }];
    }
    const titles = [...text.matchAll(deepCall)].map(([, , title = '']) => title);
    return titles.length === 0 ? [] : [{ file, titles, hasShortCase: shortCall.test(text) }];
  });
}
