/** The guides of a package: links lead to what is in it, and where they cannot, their words stay without a link. */
import { globSync, readFileSync, statSync } from 'node:fs';
import { dirname, join, normalize, relative } from 'node:path';

/** The pages for users. */
const sources = [
  'docs/*.md',
  'docs/images/*',
  'docs/findings.schema.json',
  'README.md',
  'SECURITY.md',
  'CHANGELOG.md',
  'examples/*',
];
/** Code is unchanged; of a link or picture the words, the path, and the heading remain. */
const codeOrLink =
  /```[^]*?```|`[^`\n]+`|!?\[((?:[^[\]`]|`[^`\n]*`|\[[^\]]*\])*)\]\((?!\w+:|#)([^)#\s]+)(#[^)\s]*)?\)/g;

/**
 * The files for a package, by their place in it.
 *
 * @param top - The checkout.
 * @param placeOf - The place of a file of the checkout, both relative: `docs/install.md`.
 */
export function packagedGuides(top: string, placeOf: (source: string) => string): Map<string, Buffer> {
  const places = new Map(
    globSync(sources, { cwd: top })
      .filter((source) => statSync(join(top, source)).isFile())
      .map((source) => [source, placeOf(source)]),
  );
  return new Map(
    [...places].map(([source, place]) => {
      const content = readFileSync(join(top, source));
      return [
        place,
        source.endsWith('.md') ? Buffer.from(relinked(content.toString(), source, places)) : content,
      ];
    }),
  );
}

/** @param places - Of all files, by their source. */
function relinked(markdown: string, source: string, places: ReadonlyMap<string, string>): string {
  const from = dirname(places.get(source) ?? source);
  return markdown.replaceAll(
    codeOrLink,
    (all: string, words?: string, path?: string, heading: string = '') => {
      if (words === undefined || path === undefined) return all;
      const place = places.get(normalize(join(dirname(source), path)));
      if (place === undefined) return words;
      return `${all.startsWith('!') ? '!' : ''}[${words}](${relative(from, place)}${heading})`;
    },
  );
}
