import assert from 'node:assert/strict';
import { dirname, join, normalize } from 'node:path';
import { suite, test } from 'node:test';

import { packagedGuides } from './guides.ts';
import { debianPlace } from './stage.ts';

const top = dirname(dirname(import.meta.dirname));
const link = /!?\[[^\]]*\]\((?!\w+:|#)([^)#\s]+)(?:#[^)\s]*)?\)/g;

suite('the guides of a package', () => {
  for (const [what, placeOf] of [
    ['Debian', debianPlace],
    ['npm', (source: string) => source],
  ] as const) {
    test(`${what}: each link and picture leads to a file of the package`, () => {
      const files = packagedGuides(top, placeOf);
      const links = [...files].flatMap(([place, content]) =>
        !place.endsWith('.md')
          ? []
          : [...content.toString().matchAll(link)].map(([, path = '']) => ({
              place,
              target: normalize(join(dirname(place), path)),
            })),
      );
      assert.deepEqual(
        links.filter(({ target }) => !files.has(target)),
        [],
      );
      const pictures = links.filter(({ target }) => target.endsWith('.png'));
      assert.ok(pictures.some(({ place }) => place === 'README.md') && pictures.length > 3);
    });
  }

  test('what is not in it is named without a link, and code stays as it is', () => {
    const read = (place: string): string => packagedGuides(top, debianPlace).get(place)?.toString() ?? '';
    const install = read('install.md');
    assert.match(install, /\[one for each guard\]\(examples\/README\.md\)/);
    assert.match(install, /\[README\]\(README\.md\)/);
    assert.match(install, /With Docker or buildah: Dockerfile\./);
    assert.match(read('examples/README.md'), /\(\.\.\/\w+(?:-\w+)*\.md\)/);
    assert.match(install, /```sh\nsudo apt install/);
  });
});
