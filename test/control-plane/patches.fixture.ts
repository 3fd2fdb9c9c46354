/** Patches of the four kinds, at random. */
import type { Random } from '../../lib/testing/depth.fixture.ts';
import { type Json, mixed, mutate, pointers, textOf, texts, yamlOf } from './mutate.fixture.ts';

/** A patch for an object that looks like `manifest`. */
export function patchOf(random: Random, manifest: Json): { readonly type: string; readonly text: string } {
  switch (random.below(4)) {
    case 0: {
      const places = [
        ...pointers(manifest),
        '/metadata/labels/-',
        '/spec/-',
        '/spec/containers/-1',
        '/a//b',
        'x',
        '/__proto__/x',
        '/metadata/~2',
      ];
      const values = mutate(random, manifest, 1);
      const operations = Array.from({ length: 1 + random.below(4) }, () => ({
        op: random.pick(['add', 'add', 'remove', 'replace', 'replace', 'move', 'copy', 'test', 'x']),
        path: random.pick(places),
        ...(random.chance(0.3) && { from: random.pick(places) }),
        ...(random.chance(0.8) && { value: random.pick([...texts, values, null, 1, [], {}] as Json[]) }),
      }));
      return {
        type: 'application/json-patch+json',
        text: textOf(random.chance(0.1) ? mutate(random, operations, 2) : operations),
      };
    }
    case 1:
      return { type: 'application/merge-patch+json', text: textOf(thinned(random, manifest)) };
    case 2: {
      const directives: Json = random.pick<Json>([
        {},
        { $patch: 'replace' },
        { $patch: 'delete' },
        { $patch: 'x' },
        { $retainKeys: ['a', 1] },
        { spec: { $setElementOrder: 1, '$setElementOrder/containers': [{ name: 'web' }, {}] } },
        { spec: { containers: [{ $patch: 'delete', name: 'web' }, { name: 'n', image: 'i' }, 5] } },
        { metadata: { '$deleteFromPrimitiveList/finalizers': ['example.com/f', 2] } },
        { spec: { ports: [{ port: 80, $patch: 'merge' }, { $patch: 'replace' }] } },
        { metadata: { labels: { $patch: 'delete' } } },
      ]);
      const body = random.chance(0.5) ? mutate(random, directives, mixed(random)) : thinned(random, manifest);
      return { type: 'application/strategic-merge-patch+json', text: textOf(body) };
    }
    default:
      return {
        type: 'application/apply-patch+yaml',
        text: yamlOf(random, random.chance(0.6) ? thinned(random, manifest) : manifest),
      };
  }
}

/** Some parts of it only, and nulls for others. */
function thinned(random: Random, tree: Json, top = true): Json {
  if (typeof tree !== 'object' || tree === null || Array.isArray(tree))
    return random.chance(0.05) ? null : tree;
  const kept = Object.entries(tree).filter(
    ([name]) => (top && /^(apiVersion|kind|metadata)$/.test(name)) || random.chance(0.7),
  );
  return Object.fromEntries(kept.map(([name, value]) => [name, thinned(random, value, false)]));
}
